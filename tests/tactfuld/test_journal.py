"""The log holds what happened and nothing of what it was about."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactful.errors import Denied
from tactful_core.values import AppId, Secret
from tactfuld.journal import LogLevel, failure, open_journal

MARKER = "kumquat marmalade"
HIDDEN = "(not logged)"


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    """What was logged, without its time."""
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    for line in found:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", line.pop("timestamp"))
    return found


def logged(**values: object) -> dict[str, Any]:
    """One line with these values."""
    stream = io.StringIO()
    open_journal(stream).info("something_happened", **values)
    (line,) = lines(stream)
    return line


def test_line_is_an_event_with_its_level_and_time() -> None:
    assert logged() == {"event": "something_happened", "level": "info"}


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -7, 0.25, "", "meals", AppId("meals"), "8017f9d7a080e495", "a:b.py:12"],
)
def test_short_plain_values_are_logged(value: object) -> None:
    assert logged(value=value)["value"] == value


@pytest.mark.parametrize(
    "value",
    [
        MARKER,
        "marmelade?",
        "x" * 65,
        "two\nlines",
        "plain\n",
        "käse",
        "a/path",
        b"marmalade",
        Path("marmalade"),
        Secret("marmalade"),
        ValueError("marmalade"),
        Denied(MARKER),
        ["marmalade"],
        ("marmalade",),
        {"marmalade": 1},
        {"marmalade"},
        io.StringIO("marmalade"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_replaced(value: object) -> None:
    assert logged(value=value)["value"] == HIDDEN


@given(st.text())
def test_text_is_logged_as_it_is_or_not_at_all(text: str) -> None:
    value = logged(value=text)["value"]
    assert value in (text, HIDDEN)
    if value == text != HIDDEN:
        assert len(text) <= 64
        assert " " not in text


def test_text_in_place_of_the_event_is_replaced() -> None:
    stream = io.StringIO()
    journal = open_journal(stream)
    journal.info(MARKER)
    journal.info("%s", MARKER)
    assert lines(stream) == [{"event": HIDDEN, "level": "info"}] * 2


def test_bound_values_are_replaced_as_well() -> None:
    stream = io.StringIO()
    open_journal(stream).bind(socket="app", query=MARKER).warning("refused")
    assert lines(stream) == [
        {"event": "refused", "socket": "app", "query": HIDDEN, "level": "warning"}
    ]


def test_exception_that_is_being_handled_leaves_no_message() -> None:
    stream = io.StringIO()
    journal = open_journal(stream)
    try:
        raise ValueError(MARKER)
    except ValueError as error:
        journal.exception("failed")
        journal.error("failed", exc_info=True)
        journal.error("failed", exc_info=error)
        journal.error("failed", error=failure(error), stack_info=True)
    assert MARKER not in stream.getvalue()
    assert "Traceback" not in stream.getvalue()
    assert [line["event"] for line in lines(stream)] == ["failed"] * 4


@pytest.mark.parametrize(
    ("level", "events"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_less_important_events_than_the_level_are_left_out(level: str, events: list[str]) -> None:
    stream = io.StringIO()
    journal = open_journal(stream, LogLevel(level))
    for name in ("debug", "info", "warning", "error"):
        getattr(journal, name)(name)
    assert [line["event"] for line in lines(stream)] == events


def test_failure_is_told_by_type_and_innermost_place() -> None:
    def inner() -> None:
        raise ValueError(MARKER)

    with pytest.raises(ValueError, match=MARKER) as raised:
        inner()
    told = failure(raised.value)
    assert told == f"ValueError:test_journal.py:{inner.__code__.co_firstlineno + 1}"
    assert logged(error=told)["error"] == told


def test_failure_that_was_never_raised_is_told_by_type() -> None:
    assert failure(Denied(MARKER)) == "Denied"


def test_chained_failure_says_nothing_of_its_cause() -> None:
    def deny() -> None:
        try:
            raise KeyError(MARKER)
        except KeyError as cause:
            raise Denied(MARKER) from cause

    with pytest.raises(Denied, match=MARKER) as raised:
        deny()
    assert re.fullmatch(r"Denied:test_journal\.py:\d+", failure(raised.value))


def test_level_changes_for_loggers_that_are_open() -> None:
    stream, level = io.StringIO(), LogLevel("warning")
    journal = open_journal(stream, level).bind(socket="app")
    journal.info("before")
    level.set("debug")
    journal.debug("after")
    assert [line["event"] for line in lines(stream)] == ["after"]
