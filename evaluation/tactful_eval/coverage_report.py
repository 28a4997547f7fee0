"""How often the coverage lint warns: on our own statements, and on the evaluation data.

Decides what is counted and with which intervals. What is *not* here: the detector and its fit.

Precision is that among ten everyday statements for each implying one. Hard
negatives are counted apart: they are rare among real memories, and a warning about one is no more
than a question too many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tactful_eval.answer_rates import Rate
from tactful_eval.coverage_statements import (
    ATTRIBUTES,
    SIGN,
    Kind,
    Statement,
    evidence,
    memories,
    own_statements,
    personas,
    signs,
)
from tactful_eval.coverage_training import EVERYDAY_RATIO, Trainer
from tactfuld.coverage import Detector, shipped_weights
from tactfuld.inference.embedder import Embedder, WordLlamaEmbedder


@dataclass(frozen=True, slots=True)
class Found:
    """How many statements of each kind were warned about, for one attribute.

    `everyday` warnings are all wrong, and so are those about `negative` ones, the hard negatives.
    """

    attribute: str
    explicit: Rate
    implicit: Rate
    negative: Rate
    everyday: Rate


@dataclass(frozen=True, slots=True)
class Summary:
    """All attributes together."""

    found: tuple[Found, ...]

    @property
    def explicit(self) -> Rate:
        return sum((each.explicit for each in self.found), Rate(0, 0))

    @property
    def implicit(self) -> Rate:
        return sum((each.implicit for each in self.found), Rate(0, 0))

    @property
    def negative(self) -> Rate:
        return sum((each.negative for each in self.found), Rate(0, 0))

    @property
    def implying(self) -> Rate:
        return self.explicit + self.implicit

    @property
    def everyday(self) -> Rate:
        return sum((each.everyday for each in self.found), Rate(0, 0))

    @property
    def precision(self) -> float:
        """Right warnings among all, with `EVERYDAY_RATIO` everyday statements for each implying."""
        return _precision(self.implying.share, self.everyday.share)

    @property
    def precision_interval(self) -> tuple[float, float]:
        """From the 95 % intervals of its two shares, each at its worse and at its better end."""
        (few, many), (least, most) = self.implying.interval, self.everyday.interval
        return _precision(few, most), _precision(many, least)


def coverage_report(data: Path | None) -> Mapping[str, object]:
    """Our own statements, and the evaluation data where there is a folder of it.

    `explicit_recall`, `implicit_recall` and `precision` are those of the evaluation data if it is
    there, and of our own statements if not; `measured_on` says which.
    """
    embedder = WordLlamaEmbedder.load()
    own = held_out(embedder)
    if data is None:
        return {**_headline(own, "own statements"), "own": _document(own)}
    detector = Detector(shipped_weights(), embedder)
    other = on_evidence(detector, evidence(data), personas(data))
    return {
        **_headline(other, "evaluation data"),
        "own": _document(own),
        "evaluation": _document(other),
        "cimemories": _on_memories(detector, data),
    }


def held_out(embedder: Embedder, attributes: Sequence[str] = ATTRIBUTES) -> Summary:
    """Our own statements; each by a detector that was fitted without its source."""
    statements = (*own_statements(), *signs())
    trainer = Trainer(statements, embedder)
    return Summary(
        tuple(
            _counted(attribute, statements, trainer.held_out(attribute).tolist())
            for attribute in attributes
        )
    )


def on_evidence(
    detector: Detector, statements: Sequence[Statement], everyday: Sequence[str]
) -> Summary:
    """Other people's statements, by the detector that is shipped."""
    rest = tuple(Statement(text, "", Kind.EVERYDAY, "personas") for text in everyday)
    every = (*statements, *rest)
    implied = detector.implied([each.text for each in every])
    return Summary(
        tuple(
            _counted(attribute, every, [attribute in each for each in implied])
            for attribute in ATTRIBUTES
        )
    )


def _counted(attribute: str, statements: Sequence[Statement], warned: Sequence[bool]) -> Found:
    def rate(kind: Kind, about: str) -> Rate:
        about_it = [
            hit
            for each, hit in zip(statements, warned, strict=True)
            if each.kind == kind and each.attribute == about and each.source != SIGN
        ]
        return Rate(sum(about_it), len(about_it))

    return Found(
        attribute,
        explicit=rate(Kind.EXPLICIT, attribute),
        implicit=rate(Kind.IMPLICIT, attribute),
        negative=rate(Kind.NEGATIVE, attribute),
        everyday=rate(Kind.EVERYDAY, ""),
    )


def _precision(right: float, wrong: float) -> float:
    return right / (right + EVERYDAY_RATIO * wrong)


def _on_memories(detector: Detector, data: Path) -> Mapping[str, object]:
    """Keywords are no labels ("has no debt" has one), so these are shares, not recall."""
    general = memories(data, None)
    return {
        "with_keyword": {
            attribute: _rate(_warned(detector, memories(data, attribute), attribute))
            for attribute in ATTRIBUTES
        },
        "general": {
            attribute: _rate(_warned(detector, general, attribute)) for attribute in ATTRIBUTES
        },
    }


def _warned(detector: Detector, texts: Sequence[str], attribute: str) -> Rate:
    return Rate(sum(attribute in each for each in detector.implied(texts)), len(texts))


def _headline(summary: Summary, measured_on: str) -> Mapping[str, object]:
    return {
        "explicit_recall": summary.explicit.share,
        "implicit_recall": summary.implicit.share,
        "precision": summary.precision,
        "measured_on": measured_on,
    }


def _document(summary: Summary) -> Mapping[str, object]:
    low, high = summary.precision_interval
    return {
        "explicit": _rate(summary.explicit),
        "implicit": _rate(summary.implicit),
        "hard_negatives": _rate(summary.negative),
        "precision": {"share": summary.precision, "low": low, "high": high},
        "rows": [_row(each) for each in summary.found],
    }


def _row(found: Found) -> Mapping[str, object]:
    return {
        "attribute": found.attribute,
        "explicit": _rate(found.explicit),
        "implicit": _rate(found.implicit),
        "hard_negatives": _rate(found.negative),
        "everyday": _rate(found.everyday),
    }


def _rate(rate: Rate) -> Mapping[str, object] | None:
    """None where nothing was counted."""
    if rate.of == 0:
        return None
    low, high = rate.interval
    return {"hits": rate.hits, "of": rate.of, "share": rate.share, "low": low, "high": high}
