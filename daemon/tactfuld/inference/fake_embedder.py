"""An `Embedder` without a model: words hashed into a vector, for fast tests.

Decides: that texts with common words are near each other, and nothing finer. Not here: meaning.

Invariants
- Deterministic across processes; keeps the rules of `Embedder`. A "token" is a word.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from tactfuld.inference.embedder import Vectors, unit_rows

WORD: Final = re.compile(r"\w+")


class HashEmbedder:
    """Bag of words, each word one signed coordinate of `dimension`."""

    def __init__(self, dimension: int = 64) -> None:
        self._dimension = dimension

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        return self._dimension

    def embed(self, texts: Sequence[str], *, capacity: int) -> Vectors:
        """Return unit rows for `texts`, the first `capacity` words of each."""
        total = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in WORD.findall(text.lower())[:capacity]:
                number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
                total[row, number // 2 % self._dimension] += 1.0 if number % 2 else -1.0
        return unit_rows(total)
