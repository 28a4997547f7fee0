"""Embedders give unit rows that depend on their text alone, offline, with work of public size."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactfuld.inference.embedder import Embedder, Vectors, WordLlamaEmbedder, _load_wordllama
from tactfuld.inference.fake_embedder import HashEmbedder

TEXTS = ("I watch my blood sugar", "I must cut what I spend", "dinner for two", "")


@pytest.fixture(scope="module")
def word_llama() -> WordLlamaEmbedder:
    return WordLlamaEmbedder.load()


class EmbedderContract:
    """Subclasses give `embedder`."""

    def test_gives_one_float32_row_for_each_text(self, embedder: Embedder) -> None:
        rows = embedder.embed(TEXTS, capacity=16)
        assert rows.shape == (4, embedder.dimension)
        assert rows.dtype == np.float32

    def test_gives_no_rows_for_no_texts(self, embedder: Embedder) -> None:
        assert embedder.embed((), capacity=16).shape == (0, embedder.dimension)

    def test_rows_have_length_one(self, embedder: Embedder) -> None:
        lengths = np.linalg.norm(embedder.embed(TEXTS[:3], capacity=16), axis=1)
        assert lengths == pytest.approx([1.0, 1.0, 1.0], abs=1e-6)

    @pytest.mark.parametrize("blank", ["", " ", "\n\t "])
    def test_a_blank_text_has_the_zero_row(self, embedder: Embedder, blank: str) -> None:
        assert not embedder.embed((blank,), capacity=16).any()

    @pytest.mark.parametrize("capacity", [17, 48, 500])
    def test_padding_changes_no_bit(self, embedder: Embedder, capacity: int) -> None:
        close, roomy = embedder.embed(TEXTS, capacity=16), embedder.embed(TEXTS, capacity=capacity)
        assert close.tobytes() == roomy.tobytes()

    def test_a_row_does_not_depend_on_its_neighbours(self, embedder: Embedder) -> None:
        together = embedder.embed(TEXTS, capacity=16)
        alone = np.vstack([embedder.embed((text,), capacity=16) for text in TEXTS])
        assert together.tobytes() == alone.tobytes()

    def test_text_beyond_the_capacity_does_not_count(self, embedder: Embedder) -> None:
        short = embedder.embed(("milk bread milk bread",), capacity=4)
        long = embedder.embed(("milk bread milk bread" + " and wine" * 400,), capacity=4)
        assert short.tobytes() == long.tobytes()

    def test_a_text_asked_again_has_the_same_row(self, embedder: Embedder) -> None:
        first, again = (embedder.embed(TEXTS, capacity=16) for _ in range(2))
        assert first.tobytes() == again.tobytes()

    def test_common_words_bring_texts_together(self, embedder: Embedder) -> None:
        texts = ("my blood sugar is high", "watch the blood sugar", "a train to Lisbon")
        near, far = embedder.embed(texts, capacity=16)[1:] @ embedder.embed(texts, capacity=16)[0]
        assert near > far


class TestHashEmbedder(EmbedderContract):
    """The fake."""

    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashEmbedder()


class TestWordLlamaEmbedder(EmbedderContract):
    """The real one."""

    @pytest.fixture
    def embedder(self, word_llama: WordLlamaEmbedder) -> Embedder:
        return word_llama

    def test_knows_meaning(self, word_llama: WordLlamaEmbedder) -> None:
        texts = ("I have diabetes", "I watch my blood sugar", "the train leaves at noon")
        rows = word_llama.embed(texts, capacity=16)
        assert rows[0] @ rows[1] > rows[0] @ rows[2]


@given(st.text(), st.integers(1, 40))
def test_every_text_has_a_row(word_llama: WordLlamaEmbedder, text: str, capacity: int) -> None:
    for embedder in (word_llama, HashEmbedder()):
        row = embedder.embed((text,), capacity=capacity)
        assert np.isfinite(row).all()
        assert np.linalg.norm(row) == pytest.approx(1.0, abs=1e-5) or not row.any()


def test_agrees_with_wordllamas_own_embedding(word_llama: WordLlamaEmbedder) -> None:
    theirs: Vectors = _load_wordllama().embed(list(TEXTS[:3]), norm=True)
    assert np.allclose(word_llama.embed(TEXTS[:3], capacity=32), theirs, atol=1e-6)


class KeptTokenizer:
    """A tokeniser of letters that tells how it was set up and what it was given."""

    def __init__(self) -> None:
        self.model = self
        self.cache_size: int | None = None
        self.given: list[str] = []
        self.ids: list[int] = []

    def no_padding(self) -> None: ...

    def _resize_cache(self, size: int) -> None:
        self.cache_size = size

    def get_vocab(self) -> dict[str, int]:
        return {"a": 0, "bcd": 1}

    def encode(self, text: str, *, add_special_tokens: bool) -> "KeptTokenizer":
        self.given.append(text)
        self.ids = [0] * len(text)
        return self


def test_the_tokenisers_cache_is_off() -> None:
    """It would keep texts, and make those seen before cheaper."""
    tokenizer = KeptTokenizer()
    WordLlamaEmbedder(np.eye(2, dtype=np.float32), tokenizer)
    assert tokenizer.cache_size == 0


def test_the_tokeniser_gets_no_more_than_the_capacity_can_use() -> None:
    tokenizer = KeptTokenizer()
    WordLlamaEmbedder(np.eye(2, dtype=np.float32), tokenizer).embed(("a" * 10_000,), capacity=5)
    assert tokenizer.given == ["a" * 15]


OFFLINE = """
import json, logging, sys

def deny(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        raise OSError(f"network denied: {event}")

sys.addaudithook(deny)
from tactfuld.inference.embedder import WordLlamaEmbedder
rows = WordLlamaEmbedder.load().embed(("dinner",), capacity=8)
root = logging.getLogger()
print(json.dumps({"shape": rows.shape, "handlers": len(root.handlers), "level": root.level}))
"""


def test_loads_offline_with_an_empty_home_and_leaves_logging_alone(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    run = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", OFFLINE],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    told: dict[str, Any] = json.loads(run.stdout)
    assert told == {"shape": [1, 256], "handlers": 0, "level": 30}
    assert list(tmp_path.iterdir()) == []
