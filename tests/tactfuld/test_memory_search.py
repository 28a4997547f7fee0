"""A search finds memories by their words and by their meaning, the best first."""

from __future__ import annotations

import pytest

from tactful_core.sealing import Memory
from tactful_core.values import Position, Secret
from tactfuld.inference.embedder import WordLlamaEmbedder
from tactfuld.memory_search import found

TEXTS = (
    "I am allergic to penicillin.",
    "Concert on 12 June.",
    "We buy vegetables at the market.",
    "I eat no nuts.",
    "The minutes of the meeting are with Anna.",
)
FULL = [(Position(number), Memory(text, 1)) for number, text in enumerate(TEXTS, 1)]


@pytest.fixture(scope="module")
def embedder() -> WordLlamaEmbedder:
    return WordLlamaEmbedder.load()


def search(embedder: WordLlamaEmbedder, words: str) -> list[int]:
    return [position for position, _ in found(Secret(words), FULL, embedder, tokens=48)]


@pytest.mark.parametrize(
    ("words", "first"),
    [("nuts", 4), ("NUT", 4), ("allergy", 1), ("when is the concert?", 2), ("anna minutes", 5)],
)
def test_the_memory_that_is_meant_comes_first(
    embedder: WordLlamaEmbedder, words: str, first: int
) -> None:
    assert search(embedder, words)[0] == first


def test_a_word_may_begin_a_longer_one_but_not_stand_inside_it(
    embedder: WordLlamaEmbedder,
) -> None:
    assert search(embedder, "veget")[0] == 3
    assert 5 not in search(embedder, "nut")


def test_short_words_do_not_find_everything(embedder: WordLlamaEmbedder) -> None:
    assert 1 not in search(embedder, "I eat nuts")


def test_nothing_is_found_where_nothing_is_alike(embedder: WordLlamaEmbedder) -> None:
    assert search(embedder, "quasar") == []
    assert found(Secret("nuts"), [], embedder, tokens=48) == ()
