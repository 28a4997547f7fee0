"""What comes from elsewhere cannot steer a terminal."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tactful.visible_text import visible


@given(st.text(st.characters(codec="utf-8")))
def test_nothing_visible_is_a_control_character(text: str) -> None:
    assert not [c for c in visible(text) if unicodedata.category(c) in {"Cc", "Zl", "Zp"}]


def test_letters_of_every_script_stay() -> None:
    text = "naïve Ωmega 漢字 हिन्दी 👩\u200d🌾 ε"
    assert visible(text) == text


def test_what_reorders_text_is_dropped_and_breaks_become_spaces() -> None:
    assert visible("a\u202eb\u2066c\nd\te\x00") == "abc d e"
