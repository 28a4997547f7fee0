"""Edits of the owner's YAML: one entry changes, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactfuld.problems import FileRefusedError
from tactfuld.yaml_edit import plain_text, with_value, without
from tactfuld.yaml_text import read_yaml


def set_in(text: str, key: str, value: object) -> str:
    return with_value(text, tuple(key.split(".")), value, source="settings.yaml")


def unset_in(text: str, key: str) -> str:
    return without(text, tuple(key.split(".")), source="settings.yaml")


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        pytest.param("", "a.b", 1, "a:\n  b: 1\n", id="an empty file"),
        pytest.param("# c\n", "a", 1, "# c\na: 1\n", id="only comments"),
        pytest.param("# c", "a", 1, "# c\na: 1\n", id="no line end"),
        pytest.param("a: 1", "b", 2, "a: 1\nb: 2\n", id="no line end after an entry"),
        pytest.param("---\n", "a", 1, "---\na: 1\n", id="a document's start"),
        pytest.param("{}\n", "a.b", 1, "{a: {b: 1}}\n", id="empty braces"),
        pytest.param("a: 1  # c\n", "a", 2, "a: 2  # c\n", id="replaced before a comment"),
        pytest.param("a:   '1' # c\n", "a", "x", "a:   x # c\n", id="replaced quotes"),
        pytest.param("a: # c\nb: 1\n", "a", 2, "a: 2 # c\nb: 1\n", id="no value yet"),
        pytest.param("{a, b: 1}\n", "a", 2, "{a: 2, b: 1}\n", id="no value in braces"),
        pytest.param("{a: , b: 1}\n", "a", 2, "{a: 2 , b: 1}\n", id="no value after a colon"),
        pytest.param("a: >-\n  x\n  y\n# c\nb: 1\n", "a", 2, "a: 2\n# c\nb: 1\n", id="folded"),
        pytest.param("a: x\n  y # c\nb: 1\n", "a", 2, "a: 2 # c\nb: 1\n", id="on two lines"),
        pytest.param("a: [1, 2]\n", "a", (3, "x"), "a: [3, x]\n", id="a list"),
        pytest.param(
            "a:\n    b: 1 # c\n    # d\n\nz: 1\n", "a.c", 2,
            "a:\n    b: 1 # c\n    c: 2\n    # d\n\nz: 1\n", id="added with the indent there",
        ),
        pytest.param("a: {b: 1} # c\n", "a.c", 2, "a: {b: 1, c: 2} # c\n", id="added in braces"),
        pytest.param("a: {b: 1,}\n", "a.c", 2, "a: {b: 1, c: 2,}\n", id="after a last comma"),
        pytest.param("a:\n  b: # c\n", "a.c", 1, "a:\n  b: # c\n  c: 1\n", id="after an empty one"),
        pytest.param("a:\n- 1\n- 2 # c\n\n# d\n", "b", 1, "a:\n- 1\n- 2 # c\n\n# d\nb: 1\n",
                     id="after a list"),
        pytest.param("\ufeffa: 1\r\n# c\r\n", "a", 2, "\ufeffa: 2\r\n# c\r\n", id="marks"),
        pytest.param("\ufeffa: 1\r\n", "b.c", 2, "\ufeffa: 1\r\nb:\r\n  c: 2\r\n", id="added CRLF"),
        pytest.param("# c\r\na: 1\nb: 1\r\nd: 1\n", "d", 2, "# c\r\na: 1\nb: 1\r\nd: 2\n",
                     id="mixed ends"),
        pytest.param('"a": 1\n', "a", 2, '"a": 2\n', id="a quoted key"),
        pytest.param("# ü😀\na: é # ß\n", "a", "日本", "# ü😀\na: 日本 # ß\n", id="letters"),
    ],
)  # fmt: skip
def test_a_value_is_set_and_the_rest_stays(
    before: str, key: str, value: object, after: str
) -> None:
    assert set_in(before, key, value) == after


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        pytest.param("a: 1 # c\nb: 2\n", "a", "b: 2\n", id="a line"),
        pytest.param("# c\na: 1\n# d\n", "a", "# c\n# d\n", id="the last entry"),
        pytest.param("a:\n  # c\n  b: 1\n  # d\n", "a.b", "  # c\n  # d\n", id="the last below"),
        pytest.param("a:\n  b: 1\n  c: 2\n", "a.b", "a:\n  c: 2\n", id="one of two"),
        pytest.param("a: {b: 1} # c\nd: 1\n", "a.b", "d: 1\n", id="the only one in braces"),
        pytest.param("{a: 1}\n", "a", "{}\n", id="all in braces"),
        pytest.param("{a: 1, b: 2, c: 3}\n", "a", "{b: 2, c: 3}\n", id="first in braces"),
        pytest.param("{a: 1, b: 2, c: 3}\n", "c", "{a: 1, b: 2}\n", id="last in braces"),
        pytest.param("{a: 1, # c\n b: 2}\n", "b", "{a: 1, # c\n }\n", id="last on its line"),
        pytest.param("{a: 1, # c\n b: 2, # d\n}\n", "b", "{a: 1, # c\n  # d\n}\n", id="and comma"),
        pytest.param("{\na: 1, # c\n}\n", "a", "{\n # c\n}\n", id="only one and comma"),
        pytest.param("a: >\n  x\n  # no comment\n\n# c\n", "a", "\n# c\n", id="folded"),
        pytest.param("a: # c\n# d\nb: 1\n", "a", "# d\nb: 1\n", id="without a value"),
        pytest.param("a: 1\n", "b", "a: 1\n", id="not there"),
        pytest.param("a: 1\n", "a.b", "a: 1\n", id="not there below"),
        pytest.param("\ufeff# c\r\na: 1\r\nb: 2\r\n", "a", "\ufeff# c\r\nb: 2\r\n", id="marks"),
        pytest.param("a: 1", "a", "", id="no line end"),
    ],
)
def test_an_entry_is_removed_and_the_rest_stays(before: str, key: str, after: str) -> None:
    assert unset_in(before, key) == after


@pytest.mark.parametrize(
    ("text", "key"),
    [
        pytest.param("a:\n- 1\n# c\n- 2\n", "a", id="a list on lines of its own"),
        pytest.param("a: 1\n", "a.b", id="below a value"),
        pytest.param("a: |+\n  x\n\n\n", "b", id="after kept line ends"),
        pytest.param("---\n...\n", "b", id="after the document's end"),
        pytest.param("[1]\n", "a", id="a list as a whole"),
    ],
)
def test_what_would_move_other_text_is_refused(text: str, key: str) -> None:
    with pytest.raises(FileRefusedError, match="edit it by hand"):
        set_in(text, key, 5)


@pytest.mark.parametrize("edit", [lambda t: set_in(t, "a", 1), lambda t: unset_in(t, "a")])
def test_a_text_that_is_not_read_is_not_edited(edit: Callable[[str], str]) -> None:
    with pytest.raises(FileRefusedError, match=r"settings.yaml:1: there is a tab here"):
        edit("\ta: 1\n")


texts = st.text(max_size=30)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.decimals(-1000, 1000, places=3).map(lambda d: d + Decimal("0.001"))
    | texts,
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


@given(values)
def test_written_values_read_back(value: object) -> None:
    assert read_yaml(f"key: {plain_text(value)}\n", source="").value == {"key": value}
