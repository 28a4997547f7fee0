"""Whether a memory's text seems to imply an attribute: the detector of the coverage lint.

Decides a score for each text and attribute, and from which score on the owner is warned. What is
*not* here: which shelf covers what (`coverage_lint`), how the weights came about
(`tactful_eval.coverage_training`; our own statements alone, no data of anybody's).

The model is linear: in the text's embedding, and in the words, word pairs and word beginnings that
the weights name. It recognises what a text is about much better than whom: "my sister is diabetic"
mostly counts as `diabetes`. For a warning that is the better mistake.

Invariants:

- for the owner's eyes only; nothing that an app can see depends on it;
- it knows the attributes that the weights name and says nothing about others.

Everything here computes: call it in a thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from tactful_policies import coverage_weights_text
from tactfuld.inference.embedder import Embedder

TOKENS: Final = 96
"""Tokens of a text that count."""

WORDS_SHARE: Final = 1.5
"""How much all words of a text count together, against 1 for its embedding."""

_STEM = 5
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|\d+")

Matrix = npt.NDArray[np.float64]


class Sureness(StrEnum):
    """How sure a warning is: at least four, or nineteen, of so many warnings are right where ten
    times as many everyday texts are looked at."""

    POSSIBLE = "possible"
    LIKELY = "likely"


@dataclass(frozen=True, slots=True)
class Weights:
    """A linear model: one column for each attribute.

    Attributes:
        embedding: of shape (dimension, attributes).
        words: of shape (features, attributes); `features` gives each feature's row.
        possible, likely: the scores from which on a text counts as such.
    """

    attributes: tuple[str, ...]
    features: Mapping[str, int]
    embedding: Matrix
    words: Matrix
    bias: Matrix
    possible: Matrix
    likely: Matrix

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        data = json.loads(text)
        rows: Mapping[str, Sequence[float]] = data["words"]
        return cls(
            attributes=tuple(data["attributes"]),
            features={feature: row for row, feature in enumerate(rows)},
            embedding=np.array(data["embedding"]),
            words=np.array(list(rows.values())),
            bias=np.array(data["bias"]),
            possible=np.array(data["possible"]),
            likely=np.array(data["likely"]),
        )

    def to_json(self) -> str:
        """One line for each row, rounded to three places."""
        words = self.words.round(3).tolist()
        rows = [f"{json.dumps(each)}: {words[row]}" for each, row in self.features.items()]
        lines = [
            f'"attributes": {json.dumps(self.attributes)}',
            *(
                f'"{name}": {vector.round(3).tolist()}'
                for name, vector in (
                    ("bias", self.bias), ("possible", self.possible), ("likely", self.likely)
                )
            ),
            '"embedding": [\n' + ",\n".join(map(str, self.embedding.round(3).tolist())) + "\n]",
            '"words": {\n' + ",\n".join(rows) + "\n}",
        ]  # fmt: skip
        return "{\n" + ",\n".join(lines) + "\n}\n"


def shipped_weights() -> Weights:
    """The weights that come with the starter policies' attributes."""
    return Weights.from_json(coverage_weights_text())


class Detector:
    """Says which attributes texts seem to imply."""

    def __init__(self, weights: Weights, embedder: Embedder) -> None:
        self._weights = weights
        self._embedder = embedder

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it knows."""
        return self._weights.attributes

    def implied(self, texts: Sequence[str]) -> tuple[Mapping[str, Sureness], ...]:
        """For each text the attributes that it seems to imply, and how sure that is."""
        return tuple(map(self._named, self.scores(texts)))

    def scores(self, texts: Sequence[str]) -> Matrix:
        """Of shape (texts, attributes)."""
        weights = self._weights
        vectors = self._embedder.embed(texts, capacity=TOKENS).astype(np.float64)
        words = word_matrix(texts, weights.features)
        scores: Matrix = vectors @ weights.embedding + words @ weights.words + weights.bias
        return scores

    def _named(self, scores: Matrix) -> Mapping[str, Sureness]:
        return {
            name: Sureness.LIKELY if scores[column] >= likely else Sureness.POSSIBLE
            for column, (name, possible, likely) in enumerate(
                zip(
                    self._weights.attributes, self._weights.possible, self._weights.likely,
                    strict=True,
                )
            )
            if scores[column] >= possible
        }  # fmt: skip


def word_matrix(texts: Sequence[str], rows: Mapping[str, int]) -> Matrix:
    """The words of texts as vectors, of shape (texts, features); none is longer than
    `WORDS_SHARE`."""
    matrix = np.zeros((len(texts), len(rows)))
    for number, text in enumerate(texts):
        found = features(text)
        known = [rows[each] for each in found if each in rows]
        matrix[number, known] = WORDS_SHARE / np.sqrt(max(len(found), 1))
    return matrix


def features(text: str) -> frozenset[str]:
    """Words, pairs of words with the text's two ends, and beginnings of longer words.

    All numbers are one word, `#`.
    """
    found = _WORD.findall(text.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
    words = ["#" if word.isdigit() else word for word in found]
    ends = ["^", *words, "$"]
    pairs = (f"{first} {second}" for first, second in pairwise(ends))
    stems = (f"{word[:_STEM]}*" for word in words if len(word) > _STEM)
    return frozenset((*words, *pairs, *stems))
