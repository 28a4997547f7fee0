"""A model that does not fit into memory is refused with a sentence before it is loaded."""

from pathlib import Path

import pytest
from tests.tactfuld.inference.families import SMOLLM2
from tests.tactfuld.inference.tiny_gguf import TinyGguf, string_entry, u32_entry
from tests.tactfuld.inference.tiny_model import tiny_model

from tactfuld.inference import footprint as module
from tactfuld.inference.errors import ModelError
from tactfuld.inference.footprint import (
    CONTEXTS,
    Footprint,
    available_memory,
    footprint,
    preflight,
    refuse_unless_it_fits,
)
from tactfuld.inference.gguf import GgufLayout, Value, read_layout
from tactfuld.inference.groups import GROUP_CONTEXTS

MIB = 1 << 20


def layout(*numbers: tuple[bytes, int]) -> GgufLayout:
    metadata: dict[str, Value] = {
        "general.architecture": "llama",
        **{f"llama.{key.decode()}": number for key, number in numbers},
    }
    return GgufLayout(3, 1, 32, 100, 100 + 5 * MIB, metadata)


SHAPE = (
    (b"block_count", 30), (b"embedding_length", 576), (b"attention.head_count", 9),
    (b"attention.head_count_kv", 3), (b"context_length", 8192),
)  # fmt: skip


def test_counts_weights_and_the_caches_of_all_contexts() -> None:
    found = footprint(layout(*SHAPE), 2048)
    per_token = 30 * 3 * (64 + 64) * 2
    cache = 2048 * per_token
    assert found == Footprint(5 * MIB, CONTEXTS * cache, 2048, GROUP_CONTEXTS * cache)
    assert found.total == found.weights + found.kv_cache
    assert found.most == 5 * MIB + (CONTEXTS + GROUP_CONTEXTS) * cache


def test_a_context_is_no_longer_than_the_model_was_trained_for() -> None:
    assert footprint(layout(*SHAPE), 100_000).context == 8192


def test_keys_and_values_may_have_widths_of_their_own() -> None:
    wide = layout(*SHAPE, (b"attention.key_length", 256), (b"attention.value_length", 128))
    assert footprint(wide, 1).kv_cache == CONTEXTS * 30 * 3 * (256 + 128) * 2


def test_without_fewer_heads_for_keys_every_head_has_its_own() -> None:
    plain = layout(*[item for item in SHAPE if item[0] != b"attention.head_count_kv"])
    assert footprint(plain, 1).kv_cache == CONTEXTS * 30 * 9 * (64 + 64) * 2


def test_a_file_that_does_not_tell_its_shape_counts_its_weights() -> None:
    assert footprint(layout(), 2048) == Footprint(5 * MIB, 0, 2048)


def test_of_the_embedded_model_is_what_llama_cpp_reports(embedded_model: Path) -> None:
    """llama.cpp logs a KV cache of 45 MiB for 2,048 tokens of this model."""
    found = footprint(read_layout(embedded_model), 2048)
    assert found.kv_cache == CONTEXTS * 45 * MIB
    assert 90 * MIB < found.weights < embedded_model.stat().st_size


def test_refuses_what_is_larger_than_free_memory_and_says_by_how_much() -> None:
    found = Footprint(100 * MIB, 20 * MIB, 2048, 30 * MIB)
    refuse_unless_it_fits(Path("m.gguf"), found, 150 * MIB)
    with pytest.raises(ModelError) as refusal:
        refuse_unless_it_fits(Path("m.gguf"), found, 150 * MIB - 1)
    assert "takes 150 MiB (100 MiB of weights, 20 MiB" in str(refusal.value)
    assert "30 MiB while fused answers are written" in str(refusal.value)
    assert "model.context" in str(refusal.value)


def test_refuses_nothing_where_the_machine_does_not_tell() -> None:
    refuse_unless_it_fits(Path("m.gguf"), Footprint(1 << 60, 0, 1), None)


def test_preflight_looks_at_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_model(SMOLLM2))
    assert preflight(path, 256).total > 0
    monkeypatch.setattr(module, "available_memory", lambda: 1000)
    with pytest.raises(ModelError, match="does not fit into memory"):
        preflight(path, 256)


def test_a_hostile_shape_is_refused_not_computed_for_ever(tmp_path: Path) -> None:
    entries = [string_entry(b"general.architecture", b"llama")]
    entries += [u32_entry(b"llama." + key, (1 << 32) - 1) for key, _ in SHAPE]
    path = tmp_path / "m.gguf"
    path.write_bytes(TinyGguf(entries=entries, alignment=32).build())
    with pytest.raises(ModelError, match="does not fit into memory"):
        preflight(path, 2048)


class TestAvailableMemory:
    def test_is_that_of_the_machine(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine(tmp_path, monkeypatch, "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n")
        assert available_memory() == 5000 << 10

    def test_is_less_in_a_container_with_less(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.machine(tmp_path, monkeypatch, "MemAvailable: 5000 kB\n")
        (tmp_path / "memory.max").write_text("4000000\n")
        (tmp_path / "memory.current").write_text("3000000\n")
        (tmp_path / "memory.stat").write_text("anon 500000\nfile 2500000\n")
        assert available_memory() == 4_000_000 - 3_000_000 + 2_500_000

    def test_is_not_known_without_proc(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.machine(tmp_path, monkeypatch, "MemTotal: 9000 kB\n")
        assert available_memory() is None

    def machine(self, folder: Path, monkeypatch: pytest.MonkeyPatch, told: str) -> None:
        (folder / "meminfo").write_text(told)
        monkeypatch.setattr("sys.platform", "linux")
        monkeypatch.setattr(module, "MEMINFO", folder / "meminfo")
        monkeypatch.setattr(module, "CGROUP", folder)
