"""Whole words, one after the other, whatever their case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactfuld.phrases import mentions


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("What's for dinner?", "dinner"),
        ("DINNER!", "dinner"),
        ("dinner", "Dinner"),
        ("some pet-food, please", "pet food"),
        ("pet\n food", "pet food"),
        ("Straße", "STRASSE"),
        ("ﬁsh", "fish"),
        ("晩ご飯 は", "晩ご飯"),
        ("what can I eat?", "what can i eat"),
    ],
)
def test_words_are_found_whatever_stands_between_them(text: str, phrase: str) -> None:
    assert mentions(text, [phrase])
    assert mentions(text, ["something else", phrase])


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("dinners", "dinner"),
        ("predinner", "dinner"),
        ("food for my pet", "pet food"),
        ("pet shop food", "pet food"),
        ("", "dinner"),
    ],
)
def test_parts_of_words_and_words_apart_are_not_found(text: str, phrase: str) -> None:
    assert not mentions(text, [phrase])


def test_no_phrases_are_never_found() -> None:
    assert not mentions("dinner", [])


@given(st.text(), st.text(), st.sampled_from(["rice", "rice and beans"]))
def test_a_phrase_that_stands_apart_is_found_in_any_text(
    before: str, after: str, phrase: str
) -> None:
    assert mentions(f"{before} {phrase} {after}", [phrase])
