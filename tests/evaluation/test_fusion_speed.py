"""The benchmark of fused text draws with the daemon's own rule, and reads the same rows bare."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.tactfuld.inference.families import SMOLLM2
from tests.tactfuld.inference.tiny_model import tiny_model

from tactful_core.fusion import FusedDraw
from tactful_eval.bare_calls import BLOCK
from tactful_eval.fusion_speed import fusion_speed
from tactfuld.inference.llama_api import LlamaContext, LlamaModel
from tactfuld.inference.rows import Row

BLOCKS = 1


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_model(SMOLLM2))
    monkeypatch.setattr(LlamaModel, "is_end", lambda _model, token: token == 0)
    return path


def test_steps_have_the_rows_of_bare_calls_and_charged_draws(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths: dict[LlamaContext, list[int]] = {}
    charged: list[bool] = []
    decode, draw = LlamaContext.decode, FusedDraw.weigh

    def noted(context: LlamaContext, rows: Sequence[Row]) -> None:
        if all(row.logits for row in rows):
            widths.setdefault(context, []).append(len(rows))
        decode(context, rows)

    def weighed(fused: FusedDraw, *rows):  # type: ignore[no-untyped-def]
        weights, paid = draw(fused, *rows)
        charged.append(paid)
        return weights, paid

    monkeypatch.setattr(LlamaContext, "decode", noted)
    monkeypatch.setattr(FusedDraw, "weigh", weighed)
    found = fusion_speed(model, BLOCKS, threads=1, cells=(1, 2))
    of_blocks = [each for each in widths.values() if each == each[:1] * BLOCK * BLOCKS]
    assert sorted(each[0] for each in of_blocks) == [1, 1, 2, 3]
    assert charged
    assert all(charged)
    assert found.alpha >= 2
    for ratios in (found.over_plain, found.over_bare_batch, found.solver_share):
        assert set(ratios) == {"1", "2"}
        assert all(ratio > 0 for ratio in ratios.values())
    assert found.prefill_ratio > 0
