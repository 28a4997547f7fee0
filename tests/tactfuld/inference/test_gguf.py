"""A file is handed to llama.cpp only if its header is sound and it ends where the header says."""

import ctypes
import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_cpp import _ggml
from tests.tactfuld.inference.tiny_gguf import (
    TinyGguf,
    array_entry,
    string_entry,
    tensor,
    text,
    u32_entry,
)

from tactfuld.inference.errors import ModelError
from tactfuld.inference.gguf import TENSOR_BLOCKS, read_layout

WHOLE = TinyGguf().build()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def test_reads_where_the_parts_of_a_whole_file_lie(file: Path) -> None:
    file.write_bytes(WHOLE)
    layout = read_layout(file)
    assert (layout.version, layout.tensor_count, layout.alignment) == (3, 2, 64)
    assert layout.data_end == len(WHOLE)
    assert layout.data_start == len(WHOLE) - 96


def test_the_embedded_model_ends_exactly_where_its_table_says(embedded_model: Path) -> None:
    layout = read_layout(embedded_model)
    assert layout.data_end == embedded_model.stat().st_size
    assert layout.tensor_count == 272


@pytest.mark.parametrize("length", [0, 3, 4, 8, 23, 24, 60, len(WHOLE) - 97, len(WHOLE) - 1])
def test_refuses_a_file_cut_short(file: Path, length: int) -> None:
    file.write_bytes(WHOLE[:length])
    with pytest.raises(ModelError, match="cannot be used"):
        read_layout(file)


def test_accepts_what_follows_the_last_tensor(file: Path) -> None:
    file.write_bytes(WHOLE + b"padding")
    read_layout(file)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (TinyGguf(magic=b"GGML"), "magic"),
        (TinyGguf(version=1), "version is 1"),
        (TinyGguf(version=4), "version is 4"),
        (TinyGguf(version=3 << 24), "big-endian"),
        (TinyGguf(tensor_count=0), "no tensors"),
        (TinyGguf(tensor_count=1 << 40), "tensors"),
        (TinyGguf(entry_count=0), "no metadata"),
        (TinyGguf(entry_count=1 << 63), "metadata entries"),
        (TinyGguf(entries=[struct.pack("<Q", 1 << 20)]), "key is longer"),
        (TinyGguf(entries=[text(b"k") + struct.pack("<I", 13)]), "unknown type"),
        (TinyGguf(entries=[array_entry(b"k", 13, 1, b"")]), "unknown type"),
        (TinyGguf(entries=[array_entry(b"k", 9, 1, b"")]), "nests"),
        (TinyGguf(entries=[array_entry(b"k", 8, 1 << 60, b"")]), "ends early"),
        (TinyGguf(entries=[array_entry(b"k", 10, 1 << 62, b"")]), "ends early"),
        (TinyGguf(entries=[u32_entry(b"general.alignment", 0)]), "power of two"),
        (TinyGguf(entries=[u32_entry(b"general.alignment", 48)]), "power of two"),
        (TinyGguf(entries=[u32_entry(b"general.alignment", 1 << 31)]), "power of two"),
        (TinyGguf(entries=[text(b"general.alignment") + struct.pack("<IB", 0, 32)]), "wrong type"),
        (TinyGguf(tensors=[struct.pack("<Q", 1 << 33)]), "name is longer"),
        (TinyGguf(tensors=[tensor(b"t", (1, 1, 1, 1, 1), 0)]), "5 dimensions"),
        (TinyGguf(tensors=[tensor(b"t", (1,), 3)]), "aligned"),
        (TinyGguf(tensors=[tensor(b"t", (31,), 0, kind=3)]), "whole blocks"),
        (TinyGguf(tensors=[tensor(b"t", (1 << 62, 8), 0)]), "cut short"),
        (TinyGguf(tensors=[tensor(b"t", (4,), 1 << 60)]), "cut short"),
        (TinyGguf(tensors=[tensor(b"t", (4,), 1 << 20, kind=4000)]), "cut short"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names_what_is_wrong(file: Path, wrong: TinyGguf, said: str) -> None:
    file.write_bytes(wrong.build())
    with pytest.raises(ModelError, match=said):
        read_layout(file)


def test_keeps_numbers_and_short_texts_of_the_metadata(file: Path) -> None:
    entries = [
        string_entry(b"general.architecture", b"fam\x1b[31mily"),
        u32_entry(b"fam[31mily.block_count", 7),
        string_entry(b"long", b"x" * 201),
        text(b"f") + struct.pack("<If", 6, 2.0),
        text(b"fam[31mily.negative") + struct.pack("<Ii", 5, -1),
        array_entry(b"list", 4, 1, b"\0" * 4),
    ]
    file.write_bytes(TinyGguf(entries=entries, alignment=32).build())
    layout = read_layout(file)
    assert layout.architecture == "fam[31mily"
    assert layout.number("block_count") == 7
    assert layout.number("negative") is None
    assert layout.text("long") is None
    assert [layout.metadata[key] for key in ("long", "f", "list")] == [None] * 3


SAFETENSORS = struct.pack("<Q", 9000) + b'{"weight": {"dtype": "F16"}}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04" + b"x" * 99, "a zip archive"),
        (b"<!DOCTYPE html><html>404</html>", "a web page"),
        (b'{"error": "Repository not found"}', "a JSON text"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "a pointer of Git LFS"),
        (b"tjgg" + b"\1" * 99, "old GGML format"),
        (b"\x1f\x8b\x08\0" + b"x" * 99, "a gzip archive"),
        (SAFETENSORS, "a safetensors file"),
        (SAFETENSORS[:8], "GGUF magic"),
        (b"\x7fELF" + b"x" * 99, "GGUF magic"),
    ],
)
def test_says_what_a_foreign_file_seems_to_be(file: Path, content: bytes, said: str) -> None:
    file.write_bytes(content)
    with pytest.raises(ModelError, match=said):
        read_layout(file)


def test_names_a_missing_file(file: Path) -> None:
    with pytest.raises(ModelError, match="There is no model file"):
        read_layout(file)


def test_refuses_what_is_not_a_regular_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a regular file"):
        read_layout(tmp_path)


def test_does_not_wait_on_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.gguf")
    with pytest.raises(ModelError, match="not a regular file"):
        read_layout(tmp_path / "model.gguf")


def test_tensor_sizes_are_those_of_llama_cpp() -> None:
    block_values, block_bytes = _ggml.libggml.ggml_blck_size, _ggml.libggml.ggml_type_size
    block_values.restype, block_bytes.restype = ctypes.c_int64, ctypes.c_size_t
    theirs = {kind: (block_values(kind), block_bytes(kind)) for kind in TENSOR_BLOCKS}
    assert theirs == TENSOR_BLOCKS


def judge(file: Path, content: bytes) -> None:
    """Either accept the file or raise `ModelError`; anything else fails the test."""
    file.write_bytes(content)
    try:
        layout = read_layout(file)
    except ModelError:
        return
    assert layout.data_end <= len(content)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=8))
def test_changed_bytes_never_raise_anything_else(
    file: Path, changes: list[tuple[int, int]]
) -> None:
    content = bytearray(WHOLE)
    for position, byte in changes:
        content[position] = byte
    judge(file, bytes(content))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, len(WHOLE) - 8),
    st.sampled_from([0, 1, 2**31, 2**32, 2**62, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1),
)
def test_changed_numbers_never_raise_anything_else(file: Path, position: int, value: int) -> None:
    judge(file, WHOLE[:position] + struct.pack("<Q", value) + WHOLE[position + 8 :])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_rubbish_after_the_magic_is_refused_politely(file: Path, rubbish: bytes) -> None:
    judge(file, b"GGUF\3\0\0\0" + rubbish)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(WHOLE) - 1))
def test_every_shorter_file_is_refused(file: Path, length: int) -> None:
    file.write_bytes(WHOLE[:length])
    with pytest.raises(ModelError):
        read_layout(file)
