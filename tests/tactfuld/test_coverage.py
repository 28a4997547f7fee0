"""The detector warns about clear cases and leaves everyday texts alone."""

from __future__ import annotations

import numpy as np
import pytest

from tactfuld.coverage import (
    WORDS_SHARE,
    Detector,
    Sureness,
    Weights,
    features,
    shipped_weights,
    word_matrix,
)
from tactfuld.inference.embedder import WordLlamaEmbedder

MARGIN = 0.1


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(shipped_weights(), WordLlamaEmbedder.load())


@pytest.mark.parametrize(
    ("text", "attribute"),
    [
        ("I have had type 2 diabetes for years.", "diabetes"),
        ("I need more insulin, my blood sugar is too high.", "diabetes"),
        ("I am pregnant and tired.", "pregnancy"),
        ("The midwife listened to the baby's heartbeat.", "pregnancy"),
        ("I have debts that I cannot pay back.", "debt"),
        ("The debt collector wrote about the overdue loan.", "debt"),
        ("I lost my job and I am unemployed.", "job_loss"),
        ("I get unemployment benefits and severance pay.", "job_loss"),
    ],
)
def test_warns_about_a_clear_text_with_a_margin(
    detector: Detector, text: str, attribute: str
) -> None:
    (implied,) = detector.implied([text])
    assert implied[attribute] is Sureness.LIKELY
    column = detector.attributes.index(attribute)
    assert detector.scores([text])[0, column] > shipped_weights().possible[column] + MARGIN


@pytest.mark.parametrize(
    "text",
    ["I like the sea.", "My cat is called Mia.", "Buy bread and apples.", "", " ", "\u2603"],
)
def test_says_nothing_of_an_everyday_text(detector: Detector, text: str) -> None:
    assert detector.implied([text]) == ({},)


def test_a_text_is_judged_by_itself(detector: Detector) -> None:
    texts = ["I am pregnant.", "I like the sea."]
    together = detector.scores(texts)
    for row, text in enumerate(texts):
        assert np.allclose(together[row], detector.scores([text])[0], atol=1e-5)


def test_features_are_words_pairs_and_beginnings() -> None:
    assert features("I\u2019m unemployed since 2012") == {
        "i'm", "unemployed", "since", "#",
        "^ i'm", "i'm unemployed", "unemployed since", "since #", "# $",
        "unemp*",
    }  # fmt: skip


def test_all_words_of_a_text_count_as_much_as_is_said() -> None:
    rows = {feature: row for row, feature in enumerate(sorted(features("my old car")))}
    assert np.linalg.norm(word_matrix(["my old car"], rows)) == pytest.approx(WORDS_SHARE)
    # What the weights do not know takes its share too.
    assert np.linalg.norm(word_matrix(["my old boat"], rows)) < WORDS_SHARE


@pytest.mark.parametrize(("score", "said"), [(0.9, {}), (1.0, "possible"), (2.0, "likely")])
def test_sureness_begins_at_its_score(score: float, said: object) -> None:
    one = np.array([1.0])
    weights = Weights(
        attributes=("debt",),
        features={},
        embedding=np.zeros((256, 1)),
        words=np.zeros((0, 1)),
        bias=score * one,
        possible=one,
        likely=2 * one,
    )
    (implied,) = Detector(weights, WordLlamaEmbedder.load()).implied(["anything"])
    assert implied == (said if score < 1 else {"debt": said})


def test_weights_are_read_as_they_were_written() -> None:
    weights = shipped_weights()
    again = Weights.from_json(weights.to_json())
    assert again.attributes == weights.attributes
    assert again.features == weights.features
    for name in ("embedding", "words", "bias", "possible", "likely"):
        assert (getattr(again, name) == getattr(weights, name)).all()
