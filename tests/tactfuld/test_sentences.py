"""A text is parted between sentences, as little as possible, and loses nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactful.errors import DoesNotFit
from tactfuld.sentences import parted


def test_a_text_that_fits_stays_whole() -> None:
    assert parted("One. Two.", 9) == ("One. Two.",)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One two. Three! Four? Five.", ("One two.", "Three!", "Four?", "Five.")),
        ("One.  Two.\n\nThree.", ("One.", "Two.", "Three.")),
        ('He said "no." I left.', ('He said "no."', "I left.")),
        ("a list\nof lines\n", ("a list", "of lines")),
        ("Since 3.5 years.", ("Since 3.5 years.",)),
        ("一。 二。", ("一。 二。",)),
    ],
)
def test_it_is_parted_after_sentences_and_lines(text: str, parts: tuple[str, ...]) -> None:
    limit = max(len(part.encode()) for part in parts)
    assert parted(text, limit) == parts


def test_sentences_share_a_part_where_they_fit() -> None:
    assert parted("One. Two. Three. Four.", 11) == ("One. Two.", "Three.", "Four.")
    assert parted("One. Two. Three. Four.", 13) == ("One. Two.", "Three. Four.")


def test_bytes_count_and_not_characters() -> None:
    assert parted("é. é.", 3) == ("é.", "é.")


def test_a_sentence_that_is_too_long_is_refused_and_not_repeated() -> None:
    with pytest.raises(DoesNotFit) as refused:
        parted("One. A zebra that is longer.", 10)
    assert "zebra" not in str(refused.value)


@given(
    st.lists(st.text("ab é.!?\n\"'", min_size=1, max_size=12), max_size=8).map(" ".join),
    st.integers(4, 40),
)
def test_parts_are_within_the_limit_and_together_the_text(text: str, limit: int) -> None:
    try:
        parts = parted(text, limit)
    except DoesNotFit:
        return
    assert all(0 < len(part.encode()) <= limit for part in parts)
    assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", text)
