"""A `Detector` that goes by single words: `insulin` likely implies diabetes, `sugar` perhaps."""

from __future__ import annotations

import numpy as np

from tactfuld.coverage import WORDS_SHARE, Detector, Weights, features
from tactfuld.inference.embedder import Embedder

LONGEST = len(features("a b c d e f g h i j k l m n o p q r s t u v w x y z"))


def naming_detector(embedder: Embedder) -> Detector:
    """For texts of up to 26 words; longer ones imply nothing."""
    weakest = WORDS_SHARE / np.sqrt(LONGEST)
    return Detector(
        Weights(
            attributes=("diabetes",),
            features={"sugar": 0, "insulin": 1},
            embedding=np.zeros((embedder.dimension, 1)),
            words=np.array([[1.0], [100.0]]),
            bias=np.zeros(1),
            possible=np.array([weakest]),
            likely=np.array([50 * weakest]),
        ),
        embedder,
    )
