"""Embeddings for scoring: texts to unit vectors, by WordLlama's static word vectors.

Decides: how a text becomes a vector, and that the arithmetic has a public amount. Not here: what
is compared with what, clipping, the grid (tactful_core.scoring).

Source: WordLlama, `l2_supercat` at 256 dimensions: the mean of a text's token vectors, normalised.
Weights and tokeniser lie inside its own wheel; nothing is fetched.

Invariants
- Same work cold or cached: token ids are padded or cut to `capacity`, and gathering and summing run
  over the fixed shape (texts, capacity, dimension). The tokeniser's cache is switched off: it would
  make a text seen before faster, and would keep it.
- A text's vector depends on that text and `capacity` alone; with room to spare, on the text alone.
- Total: any text has a vector; a blank one has the zero vector.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol, Self

import numpy as np
import numpy.typing as npt

from tactfuld.inference.errors import ModelError

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Texts to vectors."""

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        ...

    def embed(self, texts: Sequence[str], *, capacity: int) -> Vectors:
        """Return float32 of shape (len(texts), dimension), each row of length 1, or 0 if blank.

        Text beyond `capacity` tokens does not count. Synchronous; never call it on the loop.
        """
        ...


def unit_rows(rows: Vectors) -> Vectors:
    """Scale each row to length 1; a zero row stays zero."""
    length: Vectors = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    return unit


class WordLlamaEmbedder:
    """An `Embedder` on WordLlama's packaged vectors; takes about 33 MB."""

    def __init__(self, vectors: Vectors, tokenizer: Any) -> None:
        tokenizer.no_padding()
        # The only way to switch the cache off.
        tokenizer.model._resize_cache(0)  # noqa: SLF001
        self._tokenizer = tokenizer
        self._padding: Final = len(vectors)
        self._vectors: Final = np.vstack([vectors, np.zeros((1, vectors.shape[1]), np.float32)])
        self._longest: Final = max(len(token) for token in tokenizer.get_vocab())

    @classmethod
    def load(cls) -> Self:
        """Load the packaged model; synchronous. Raises `ModelError` if its files are missing."""
        model = _load_wordllama()
        return cls(model.embedding, model.tokenizer)

    @property
    def dimension(self) -> int:
        """Length of every vector: 256."""
        return int(self._vectors.shape[1])

    def embed(self, texts: Sequence[str], *, capacity: int) -> Vectors:
        """Return unit rows for `texts`; see `Embedder.embed`."""
        ids = np.full((len(texts), capacity), self._padding, dtype=np.intp)
        for row, text in enumerate(texts):
            found = self._token_ids(text, capacity)
            ids[row, : len(found)] = found
        # The sum has the mean's direction, and padding adds exact zeros to it.
        total = self._vectors[ids].sum(axis=1, dtype=np.float32)
        return unit_rows(total)

    def _token_ids(self, text: str, capacity: int) -> list[int]:
        # Cut before tokenising too: no token is longer, so the work is bounded by `capacity`.
        head = text[: capacity * self._longest]
        if not head.strip():
            return []
        ids: list[int] = self._tokenizer.encode(head, add_special_tokens=False).ids
        return ids[:capacity]


def _load_wordllama() -> Any:
    """Load the packaged model offline, and undo the logging set-up that the import brings."""
    root = logging.getLogger()
    level, handlers = root.level, tuple(root.handlers)
    try:
        import wordllama  # type: ignore[import-untyped]
    finally:
        # wordllama calls logging.basicConfig(INFO) when imported, in the host's process.
        root.setLevel(level)
        for handler in root.handlers[:]:
            if handler not in handlers:
                root.removeHandler(handler)
    package = Path(wordllama.__file__).parent
    try:
        return wordllama.WordLlama.load(cache_dir=package, disable_download=True)
    except OSError as error:
        raise ModelError(
            "The installed wordllama package lacks its packaged vectors. Reinstall it "
            "(pip install --force-reinstall wordllama)."
        ) from error
