"""The benchmark of the engine measures as many steps of both as it says, at the same places."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.tactfuld.inference.families import SMOLLM2
from tests.tactfuld.inference.tiny_model import tiny_model

from tactful_eval import engine_speed as measured
from tactful_eval.bare_calls import BLOCK
from tactful_eval.engine_speed import engine_speed
from tactfuld.inference.llama_api import LlamaContext, LlamaModel
from tactfuld.inference.rows import Row

BLOCKS = 2
# As many as the tiny model's context holds side by side.
STREAMS = 3


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny model whose replies never end by themselves."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_model(SMOLLM2))
    monkeypatch.setattr(measured, "STREAMS", STREAMS)
    monkeypatch.setattr(LlamaModel, "is_end", lambda _model, _token: False)
    return path


def test_both_take_turns_with_the_same_rows(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[LlamaContext, tuple[int, ...]]] = []
    decode = LlamaContext.decode

    def noted(context: LlamaContext, rows: Sequence[Row]) -> None:
        if all(row.logits for row in rows) and len(rows) == STREAMS:
            calls.append((context, tuple(row.position for row in rows)))
        decode(context, rows)

    monkeypatch.setattr(LlamaContext, "decode", noted)
    found = engine_speed(model, BLOCKS, threads=1)
    of_engine, of_bare = (
        [positions for context, positions in calls if context is each]
        for each in dict.fromkeys(context for context, _ in calls)
    )
    assert len(of_bare) == BLOCKS * BLOCK
    assert set(of_bare) <= set(of_engine)
    assert found.streams8_over_bare > 0
    assert found.stream1_over_bare > 0
    assert 0 < found.least_share <= 1


def test_says_so_when_a_reply_ends_too_early(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LlamaModel, "is_end", lambda _model, _token: True)
    with pytest.raises(RuntimeError, match="ended before"):
        engine_speed(model, BLOCKS, threads=1)
