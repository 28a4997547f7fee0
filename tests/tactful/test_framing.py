"""Lines become objects that every reader sees alike, or named errors that repeat nothing."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tactful.errors import InvalidRequest, ParseError
from tactful.framing import LARGEST_INTEGER, NotText, decode, encode

_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_NUMBER = st.integers(-LARGEST_INTEGER, LARGEST_INTEGER) | st.floats(
    allow_nan=False, allow_infinity=False
)
_VALUE: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | _NUMBER | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_TEXT, _VALUE))
def test_object_survives_the_wire_on_one_line(message: dict[str, JsonValue]) -> None:
    line = encode(message)
    assert line.index(b"\n") == len(line) - 1
    assert decode(line, max_depth=50) == message


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,\\ud80eE+-.019tnN\n ').map(str.encode))
def test_any_line_becomes_an_object_or_a_named_error(line: bytes) -> None:
    with suppress(ParseError, InvalidRequest):
        assert isinstance(decode(line, max_depth=8), dict)


@pytest.mark.parametrize("line", [b"zebra", b"\xffzebra", b'{"a": "zebra\\ud800"}', b"[" * 99])
def test_error_keeps_nothing_of_the_line(line: bytes) -> None:
    with pytest.raises((ParseError, InvalidRequest)) as caught:
        decode(line, max_depth=8)
    assert "zebra" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"hello",
        b"{",
        b'{"a": 1,}',
        b'{"a": "tab\tinside"}',
        b'{"a": 01}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b"\xef\xbb\xbf{}",
        b'{"a": "' + b'\\"' * 100_000,
    ],
)
def test_refuses_what_is_not_json(line: bytes) -> None:
    with pytest.raises(ParseError):
        decode(line, max_depth=8)


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b'[{"jsonrpc": "2.0"}]',
        b"1",
        b"null",
        b'"text"',
        b'{"a": 9007199254740992}',
        b'{"a": -9007199254740992}',
        b'{"a": 1' + b"0" * 5000 + b"}",
        b'{"a": 1e999}',
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "\\u0062": 2}}',
        b'{"a": "\\ud800"}',
        b'{"a": ["\\uDFFF"]}',
        b'{"\\ud83d": 1}',
    ],
)
def test_refuses_json_that_readers_see_differently(line: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode(line, max_depth=8)


def test_accepts_a_whole_surrogate_pair_and_the_largest_integers() -> None:
    line = b'{"a": "\\ud83d\\ude00", "b": [9007199254740991, -9007199254740991]}'
    assert decode(line, max_depth=8) == {"a": "😀", "b": [LARGEST_INTEGER, -LARGEST_INTEGER]}


@pytest.mark.parametrize("line", [b"\xff\n", b'{"a": "\xc3("}\n', b'{"a": "\xed\xa0\x80"}\n'])
def test_tells_what_is_not_utf8_apart(line: bytes) -> None:
    with pytest.raises(NotText):
        decode(line, max_depth=8)


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_depth_counts_the_object_itself(depth: int) -> None:
    fits = b'{"a":' * depth + b"1" + b"}" * depth
    assert isinstance(decode(fits, max_depth=depth), dict)
    with pytest.raises(InvalidRequest):
        decode(fits, max_depth=depth - 1)


@pytest.mark.parametrize("bracket", [b"[", b'{"a":'])
def test_deep_nesting_is_found_before_the_parser_runs(bracket: bytes) -> None:
    with pytest.raises(InvalidRequest, match="nested"):
        decode(b'{"a":' + bracket * 200_000, max_depth=32)


def test_brackets_in_texts_are_not_nesting() -> None:
    text = '[{"' * 100 + "\\"
    assert decode(encode({"a": text, "b": [text]}), max_depth=2) == {"a": text, "b": [text]}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_does_not_write_what_it_would_not_read(value: JsonValue) -> None:
    with pytest.raises(InvalidRequest) as caught:
        encode({"a": value})
    assert caught.value.__context__ is None
