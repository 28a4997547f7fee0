"""Fits the coverage lint's detector on our own statements, and chooses its thresholds.

Decides the fit (ridge regression in the features of `tactfuld.coverage`), the thresholds, and what
is said of a statement by detectors that have seen nothing of its source. What is *not* here: what
is reported (`coverage_report`).

A threshold is the lowest score at which, out of fold, so many warnings are right where there are
ten times as many everyday statements as implying ones. `held_out` does all of this once for each
source on the three others, thresholds too, so that what it reports of a source depends on nothing
of that source but whether a word in it is seen elsewhere too. The few numbers below were chosen by
what `held_out` came to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tactful_eval.coverage_statements import (
    ATTRIBUTES,
    SIGN,
    SOURCES,
    Kind,
    Statement,
    own_statements,
    signs,
)
from tactfuld.coverage import TOKENS, Matrix, Weights, features, word_matrix
from tactfuld.inference.embedder import Embedder, WordLlamaEmbedder

RIDGE: Final = 3.0
IMPLYING_WEIGHT: Final = 2.0
NEGATIVE_WEIGHT: Final = 0.1
"""Hard negatives count little: a warning about them is a small mistake, a missed memory a large."""

LEAST_SEEN: Final = 2
"""Statements that a feature must be in."""

EVERYDAY_RATIO: Final = 10
POSSIBLE_PRECISION: Final = 0.80
LIKELY_PRECISION: Final = 0.95

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Column:
    """One attribute's part of the fit."""

    target: Matrix
    weight: Matrix
    implying: Flags
    everyday: Flags


class Trainer:
    """All statements with their features; fits on any part of them."""

    def __init__(self, statements: Sequence[Statement], embedder: Embedder) -> None:
        self._statements = tuple(statements)
        texts = [each.text for each in statements]
        seen = Counter(feature for text in texts for feature in features(text))
        known = sorted(feature for feature, times in seen.items() if times >= LEAST_SEEN)
        self._features = {feature: row for row, feature in enumerate(known)}
        vectors = embedder.embed(texts, capacity=TOKENS).astype(np.float64)
        self._matrix: Matrix = np.hstack([vectors, word_matrix(texts, self._features)])
        self._dimension = vectors.shape[1]
        # The 1 is the bias, which is kept small with the rest.
        self._kernel: Matrix = self._matrix @ self._matrix.T + 1.0
        self._source = np.array([each.source for each in statements])

    def weights(self) -> Weights:
        """The detector fitted on everything, with thresholds from scores out of fold."""
        every = np.ones(len(self._statements), dtype=np.bool_)
        columns = [self._column(attribute) for attribute in ATTRIBUTES]
        duals = np.stack([self._fit(column, every) for column in columns], axis=1)
        primal = self._matrix.T @ duals
        scores = [self._out_of_fold(column, every) for column in columns]

        def thresholds(precision: float) -> Matrix:
            chosen = [
                threshold(each[column.implying], each[column.everyday], precision)
                for each, column in zip(scores, columns, strict=True)
            ]
            return np.array(chosen)

        return Weights(
            attributes=ATTRIBUTES,
            features=self._features,
            embedding=primal[: self._dimension],
            words=primal[self._dimension :],
            bias=duals.sum(axis=0),
            possible=thresholds(POSSIBLE_PRECISION),
            likely=thresholds(LIKELY_PRECISION),
        )

    def held_out(self, attribute: str) -> Flags:
        """For each statement, whether a detector without its source warns; false for signs."""
        column = self._column(attribute)
        warned = np.zeros(len(self._statements), dtype=np.bool_)
        for source in SOURCES:
            tested = self._source == source
            inner = self._out_of_fold(column, ~tested)
            start = threshold(
                inner[column.implying & ~tested],
                inner[column.everyday & ~tested],
                POSSIBLE_PRECISION,
            )
            scores = self._kernel[np.ix_(tested, ~tested)] @ self._fit(column, ~tested)[~tested]
            warned[tested] = scores >= start
        return warned

    def _out_of_fold(self, column: _Column, among: Flags) -> Matrix:
        """A score for each statement `among` these, fitted on those of other sources."""
        scores = np.full(len(self._statements), np.nan)
        for source in SOURCES:
            tested = among & (self._source == source)
            if tested.any():
                seen = among & ~tested
                dual = self._fit(column, seen)[seen]
                scores[tested] = self._kernel[np.ix_(tested, seen)] @ dual
        return scores

    def _fit(self, column: _Column, seen: Flags) -> Matrix:
        """Weighted ridge regression in its dual form; 0 for what was not seen."""
        dual = np.zeros(len(self._statements))
        system = self._kernel[np.ix_(seen, seen)] + np.diag(RIDGE / column.weight[seen])
        dual[seen] = np.linalg.solve(system, column.target[seen])
        return dual

    def _column(self, attribute: str) -> _Column:
        kinds = np.array([each.kind for each in self._statements])
        mine = np.array([each.attribute == attribute for each in self._statements])
        implies = mine & np.array([each.kind.implies for each in self._statements])
        tested = self._source != SIGN
        weight = np.where(implies, IMPLYING_WEIGHT, 1.0)
        weight[mine & (kinds == Kind.NEGATIVE)] = NEGATIVE_WEIGHT
        return _Column(
            target=np.where(implies, 1.0, -1.0),
            weight=weight,
            implying=implies & tested,
            everyday=(kinds == Kind.EVERYDAY) & tested,
        )


def write_weights(file: Path) -> Path:
    """Fits the detector on all our own statements and signs, and writes its weights."""
    trainer = Trainer((*own_statements(), *signs()), WordLlamaEmbedder.load())
    file.write_text(trainer.weights().to_json(), encoding="utf-8")
    return file


def threshold(implying: Matrix, everyday: Matrix, precision: float) -> float:
    """The lowest score of an implying statement that warns with this precision.

    Raises:
        ValueError: there is none.
    """
    for start in np.sort(implying):
        right = float((implying >= start).mean())
        wrong = EVERYDAY_RATIO * float((everyday >= start).mean())
        if right >= precision * (right + wrong):
            return float(start)
    raise ValueError("No score tells implying statements from everyday ones this well.")
