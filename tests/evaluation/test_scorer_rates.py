"""Comparing scorers: the right view is not given away, and what is counted is what is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tactfuld.inference.families import SMOLLM2
from tests.tactfuld.inference.tiny_model import tiny_model

from tactful_core.layout import GENERIC, Slot
from tactful_core.scoring import Evidence
from tactful_core.values import Secret
from tactful_eval import scorer_rates as module
from tactful_eval.scorer_cases import Case, cases
from tactful_eval.scorer_rates import EmbeddingJudging, found, open_judging, scorer_rates


def evidence(parts: tuple[float, ...]) -> Evidence:
    return Evidence(Secret(parts), Secret((0.0,) * len(parts)))


def knowing(case: Case) -> module.Judging:
    """Judges one case perfectly."""
    right = [view.name for view in case.slot.vocabulary].index(case.right)

    def judging(slot: Slot, rows: tuple[str, ...]) -> Evidence:
        best = right if rows == case.rows else 0
        return evidence(tuple(float(place == best) for place in range(len(slot.vocabulary))))

    return judging


def blind(slot: Slot, _rows: tuple[str, ...]) -> Evidence:
    return evidence((0.5, *(0.0 for _ in slot.vocabulary[1:])))


@pytest.mark.parametrize("name", ["held_out", "benchmark"])
def test_each_case_has_one_row_that_counts(name: str) -> None:
    for case in cases(name, None):
        assert case.right in [view.name for view in case.slot.vocabulary[1:]]
        assert len(case.rows) == len(case.opposite) == len(case.slot.positions)
        assert sum(a != b for a, b in zip(case.rows, case.opposite, strict=True)) == 1


def test_what_is_held_out_is_not_in_the_vocabulary() -> None:
    found_out = cases("held_out", None)
    assert len(found_out) > 60
    for case in found_out:
        supports = {text for view in case.slot.vocabulary for text in view.supports}
        assert supports
        assert not supports & set(case.rows)


def test_vocabularies_of_one_name_are_the_same() -> None:
    by_name: dict[str, Slot] = {}
    for case in cases("held_out", None):
        slot = by_name.setdefault(case.slot.name, case.slot)
        assert slot.vocabulary == case.slot.vocabulary


def test_evidence_needs_the_evaluation_data() -> None:
    with pytest.raises(ValueError, match="TACTFUL_EVAL_DATA"):
        cases("evidence", None)


def test_who_knows_is_right_and_who_sees_nothing_says_generic() -> None:
    case = cases("benchmark", None)[0]
    best = found(case, knowing(case))
    assert (best.best, best.special, best.generic, best.apart) == (True, True, True, 1.0)
    none = found(case, blind)
    assert (none.best, none.special, none.generic, none.apart) == (False, False, True, 0.5)


def test_rates_count_the_cases() -> None:
    three = cases("benchmark", None)[:3]
    knows = knowing(three[0])
    rates = scorer_rates(
        three, lambda slot, rows: (knows if slot is three[0].slot else blind)(slot, rows)
    )
    assert (rates.best.hits, rates.best.of) == (1, 3)
    assert rates.generic.hits == 3
    assert rates.apart == pytest.approx(2 / 3)


def test_embeddings_are_right_on_the_benchmark_that_was_written_with_them() -> None:
    """What README says of it: contents alone speak for the view that its author had in mind."""
    judging = EmbeddingJudging()
    rates = scorer_rates(cases("benchmark", None)[:8], judging)
    assert rates.best.hits == rates.generic.hits == 8
    assert judging.cost_ms() > 0


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    (tmp_path / "tiny.gguf").write_bytes(tiny_model(SMOLLM2))
    return tmp_path / "kept.jsonl"


def test_what_a_model_said_is_kept_and_not_asked_again(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tiny model of bytes has room for few of them: the example's text is cut short."""
    monkeypatch.setattr("tactfuld.model_scorer.BEFORE", "Notes:")
    case = cases("benchmark", None)[0]
    with open_judging(kept.with_name("tiny.gguf"), 1, kept) as judging:
        first = judging(case.slot, case.rows)
    lines = kept.read_text().splitlines()
    assert len(lines) == 2
    assert not any(text in kept.read_text() for text in case.rows)
    monkeypatch.setattr(module, "judge", None)
    with open_judging(kept.with_name("tiny.gguf"), 1, kept) as judging:
        again = judging(case.slot, case.rows)
    assert again.compatibility.reveal() == first.compatibility.reveal()
    assert case.slot.vocabulary[0].name == GENERIC
