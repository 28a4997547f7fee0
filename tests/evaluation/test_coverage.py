"""The coverage lint's statements, its fit, and what is reported of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tactful_eval import __main__ as program
from tactful_eval import coverage_report
from tactful_eval.answer_rates import Rate
from tactful_eval.coverage_report import Found, Summary, held_out, on_evidence
from tactful_eval.coverage_statements import (
    ATTRIBUTES,
    SOURCES,
    Kind,
    Statement,
    evidence,
    memories,
    own_statements,
    personas,
    signs,
)
from tactful_eval.coverage_training import Trainer, threshold
from tactfuld.coverage import Detector, shipped_weights
from tactfuld.inference.embedder import WordLlamaEmbedder

DEFINING = {
    "diabetes": r"diabet|\bT2D",
    "pregnancy": r"pregnan|\bexpecting\b",
    "debt": r"\bdebt|indebted|bankrupt|insolven|\bI owe\b",
    "job_loss": r"unemployed|jobless|laid off|fired|redundan|lost my job|dismiss|out of work",
}
NOTHING = Rate(0, 1)


@pytest.fixture(scope="module")
def embedder() -> WordLlamaEmbedder:
    return WordLlamaEmbedder.load()


@pytest.fixture(scope="module")
def trainer(embedder: WordLlamaEmbedder) -> Trainer:
    return Trainer((*own_statements(), *signs()), embedder)


def test_there_are_as_many_statements_as_were_promised_a_quarter_in_each_manner() -> None:
    counts = Counter((s.attribute, s.kind, s.source) for s in own_statements())
    for source in SOURCES:
        for attribute in ATTRIBUTES:
            assert counts[attribute, Kind.EXPLICIT, source] == 10
            assert counts[attribute, Kind.IMPLICIT, source] == 10
            assert counts[attribute, Kind.NEGATIVE, source] == 15
        assert counts["", Kind.EVERYDAY, source] == 100
    assert sum(counts.values()) == len({s.text for s in own_statements()}) == 960


def test_an_implicit_statement_has_no_defining_word_of_its_attribute() -> None:
    found = [
        s.text
        for s in own_statements()
        if s.kind == Kind.IMPLICIT and re.search(DEFINING[s.attribute], s.text, re.IGNORECASE)
    ]
    assert found == []


def test_no_statement_that_is_tested_is_a_sign() -> None:
    assert not {s.text for s in own_statements()} & {s.text for s in signs()}


def test_the_threshold_is_the_lowest_that_keeps_the_precision() -> None:
    everyday = np.zeros(100)
    everyday[:2] = 0.5
    # At 0.4, 2 of 100 everyday ones count ten times: 1 / (1 + 0.2) is right.
    assert threshold(np.array([0.4, 0.6]), everyday, 0.8) == 0.4
    assert threshold(np.array([0.4, 0.6]), everyday, 0.9) == 0.6
    with pytest.raises(ValueError, match="No score"):
        threshold(np.array([0.4]), everyday, 0.9)


def test_the_shipped_weights_are_those_that_our_statements_give(
    trainer: Trainer, embedder: WordLlamaEmbedder
) -> None:
    texts = [s.text for s in own_statements()[::7]]
    anew, shipped = trainer.weights(), shipped_weights()
    assert tuple(anew.features) == tuple(shipped.features)
    again = Detector(anew, embedder).scores(texts)
    assert np.allclose(again, Detector(shipped, embedder).scores(texts), atol=0.02)
    assert np.allclose(anew.possible, shipped.possible, atol=0.01)
    assert np.allclose(anew.likely, shipped.likely, atol=0.01)


def test_what_is_said_of_a_source_follows_from_the_others_alone(
    embedder: WordLlamaEmbedder,
) -> None:
    """With its labels turned round, the warnings about a source stay the same."""
    statements = (*own_statements(), *signs())
    plain = np.array([s.source == "plain" for s in statements])
    lies = tuple(
        Statement(s.text, s.attribute, Kind.NEGATIVE if s.kind.implies else s.kind, s.source)
        if s.source == "plain"
        else s
        for s in statements
    )
    told = Trainer(statements, embedder).held_out("debt")
    lied = Trainer(lies, embedder).held_out("debt")
    assert (told[plain] == lied[plain]).all()
    assert (told[~plain] != lied[~plain]).any()


def test_our_own_statements_reach_the_goals(embedder: WordLlamaEmbedder) -> None:
    summary = held_out(embedder)
    assert summary.explicit.of == summary.implicit.of == 160
    assert summary.explicit.share >= 0.90
    assert summary.implicit.share >= 0.70
    assert summary.precision >= 0.80


def test_precision_counts_ten_everyday_statements_for_each_implying_one() -> None:
    found = Found("debt", Rate(3, 4), Rate(1, 4), NOTHING, Rate(2, 100))
    summary = Summary((found,))
    # Half of the implying ones, and 2 % of ten times as many.
    assert summary.precision == pytest.approx(0.5 / 0.7)
    low, high = summary.precision_interval
    assert low < summary.precision < high


def write_data(folder: Path) -> Path:
    def lines(name: str, *objects: dict[str, Any]) -> None:
        file = folder / name
        file.parent.mkdir()
        file.write_text("".join(json.dumps(each) + "\n" for each in objects))

    rest = {"attribute": "debt", "source": "toy"}
    lines(
        "attribute_evidence/evidence.jsonl",
        {"text": "I am deep in debt.", "status": "current_self", "implicit": False, **rest},
        {"text": "The bailiff came.", "status": "current_self", "implicit": True, **rest},
        {"text": "Her debts are gone.", "status": "resolved", "implicit": False, **rest},
        {"text": "Debt, perhaps.", "status": "unclear", "implicit": False, **rest},
    )
    lines(
        "personas/synthetic_persona_chat.jsonl",
        {"sentences": ["I like cats.", "I sing."], "attr_hits": []},
        {"sentences": ["I like cats."], "attr_hits": []},
        {"sentences": ["I owe a lot."], "attr_hits": ["debt"]},
    )
    lines(
        "cimemories/profiles.jsonl",
        {
            "memories": [
                {"text": "He owes much.", "event": "bankruptcy", "attr_hits": ["debt"]},
                {"text": "He is tall.", "event": "general", "attr_hits": []},
                {"text": "He went to court.", "event": "bankruptcy", "attr_hits": []},
            ]
        },
    )
    return folder


def test_evaluation_data_is_read_by_its_labels(tmp_path: Path) -> None:
    data = write_data(tmp_path)
    kinds = [s.kind for s in evidence(data)]
    assert kinds == [Kind.EXPLICIT, Kind.IMPLICIT, Kind.NEGATIVE]
    assert personas(data) == ("I like cats.", "I sing.")
    assert memories(data, "debt") == ("He owes much.",)
    assert memories(data, None) == ("He is tall.",)


def test_other_peoples_statements_are_counted_by_the_shipped_detector(
    tmp_path: Path, embedder: WordLlamaEmbedder
) -> None:
    data = write_data(tmp_path)
    summary = on_evidence(Detector(shipped_weights(), embedder), evidence(data), personas(data))
    (debt,) = (each for each in summary.found if each.attribute == "debt")
    assert (debt.explicit, debt.implicit) == (Rate(1, 1), Rate(1, 1))
    assert debt.negative.of == 1
    assert debt.everyday == Rate(0, 2)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One attribute instead of four for our own statements."""
    one = Found("debt", Rate(9, 10), Rate(8, 10), Rate(1, 10), Rate(1, 100))
    monkeypatch.setattr(coverage_report, "held_out", lambda _embedder: Summary((one,)))


@pytest.mark.usefixtures("quick")
def test_lint_prints_our_own_statements_without_the_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TACTFUL_EVAL_DATA", raising=False)
    program.main(["lint", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["explicit_recall"], found["implicit_recall"]) == (0.9, 0.8)
    assert found["precision"] == pytest.approx(0.85 / 0.95, abs=1e-6)
    assert found["measured_on"] == "own statements"


@pytest.mark.usefixtures("quick")
def test_lint_prints_the_evaluation_data_where_there_is_a_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TACTFUL_EVAL_DATA", str(write_data(tmp_path)))
    program.main(["lint", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["measured_on"] == "evaluation data"
    assert (found["explicit_recall"], found["precision"]) == (1.0, 1.0)
    assert found["own"]["explicit"]["hits"] == 9
    assert found["cimemories"]["with_keyword"]["debt"]["of"] == 1


def test_training_writes_the_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "weights.json"
    program.main(["lint", "--train", str(file), "--json"])
    assert json.loads(capsys.readouterr().out) == {"written": str(file)}
    assert json.loads(file.read_text())["attributes"] == list(ATTRIBUTES)
