"""Objects are requests, notices, replies, or refused; typed messages go in and out strictly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tactful.envelope import (
    Notice,
    Refused,
    Reply,
    Request,
    check,
    classify,
    failure,
    parse,
)
from tactful.errors import ERRORS, InternalError, InvalidParams, InvalidRequest, TactfulError
from tactful.owner_wire import AskAs, Remember
from tactful.wire import Ask, Event, EventKind, Message

_MARKER = "zebra-7731"

_VALUE: st.SearchStrategy[JsonValue] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["2.0", "", "ask", "x" * 65])
    | st.builds(list)
    | st.builds(dict)
    | st.builds(lambda code, text: {"code": code, "message": text}, st.integers(), st.text())
)

_KEYS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "other"])


@given(st.dictionaries(_KEYS, _VALUE))
def test_every_object_is_something(message: dict[str, JsonValue]) -> None:
    assert isinstance(classify(message), Request | Notice | Reply | Refused)


@pytest.mark.parametrize("number", [0, -1, 2**53 - 1, "", "a", "x" * 64])
def test_request_keeps_its_id(number: int | str) -> None:
    message: dict[str, JsonValue] = {"jsonrpc": "2.0", "id": number, "method": "m"}
    assert classify(message) == Request(number, "m", {})


@pytest.mark.parametrize("number", [None, True, False, 1.0, "x" * 65, [], {}])
def test_refuses_ids_that_are_no_ids(number: JsonValue) -> None:
    refused = classify({"jsonrpc": "2.0", "id": number, "method": "m"})
    assert isinstance(refused, Refused)
    assert refused.id is None
    assert isinstance(refused.error, InvalidRequest)


@pytest.mark.parametrize(
    "change",
    [
        {"jsonrpc": "1.0"},
        {"jsonrpc": None},
        {"method": 5},
        {"params": "text"},
        {"params": None},
        {"extra": 1},
        {"result": {}},
    ],
)
def test_refuses_malformed_requests_under_their_id(change: dict[str, JsonValue]) -> None:
    message: dict[str, JsonValue] = {"jsonrpc": "2.0", "id": 4, "method": "m", "params": {}}
    refused = classify(message | change)
    assert isinstance(refused, Refused)
    assert refused.id == 4
    assert isinstance(refused.error, InvalidRequest)


def test_refuses_params_by_position() -> None:
    refused = classify({"jsonrpc": "2.0", "id": 4, "method": "m", "params": [1]})
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, InvalidParams)


def test_notice_with_params_by_position_is_a_notice_still() -> None:
    message: dict[str, JsonValue] = {"jsonrpc": "2.0", "method": "m", "params": [1]}
    assert classify(message) == Notice("m", {})


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_survives_the_wire(kind: type[TactfulError]) -> None:
    reply = classify(failure(3, kind("This was refused. Do that.")))
    assert isinstance(reply, Reply)
    assert reply.id == 3
    assert type(reply.outcome) is kind
    assert str(reply.outcome) == "This was refused. Do that."


def test_error_without_our_code_is_known_by_its_number() -> None:
    error: JsonValue = {"code": -32601, "message": "no"}
    reply = classify({"jsonrpc": "2.0", "id": 1, "error": error})
    assert isinstance(reply, Reply)
    assert getattr(reply.outcome, "code", None) == "unknown_method"


@pytest.mark.parametrize(
    "error", [None, "text", [], {}, {"code": 5}, {"code": True, "message": 7}, {"data": []}]
)
def test_error_that_makes_no_sense_is_the_other_sides_defect(error: JsonValue) -> None:
    reply = classify({"jsonrpc": "2.0", "id": 1, "error": error})
    assert isinstance(reply, Reply)
    assert isinstance(reply.outcome, InternalError)


def test_error_from_the_other_side_cannot_steer_a_terminal() -> None:
    error: JsonValue = {"code": 1, "message": "a\x1b[2Jb\nc" + "d" * 100_000}
    reply = classify({"jsonrpc": "2.0", "id": 1, "error": error})
    assert isinstance(reply, Reply)
    assert str(reply.outcome).startswith("a\N{REPLACEMENT CHARACTER}[2Jb\nc")
    assert len(str(reply.outcome)) <= 20_000


@pytest.mark.parametrize("change", [{"result": {}, "error": {}}, {"result": 5}, {"result": None}])
def test_reply_that_is_neither_or_both_is_the_other_sides_defect(
    change: dict[str, JsonValue],
) -> None:
    message: dict[str, JsonValue] = {"jsonrpc": "2.0", "id": 1}
    reply = classify(message | change)
    assert isinstance(reply, Reply)
    assert isinstance(reply.outcome, InternalError)


def test_parses_arrays_and_words_of_a_message() -> None:
    assert parse(Ask, {"query": "q", "slots": ["food"]}) == Ask(query="q", slots=("food",))
    assert parse(Event, {"kind": "message", "text": "t"}).kind is EventKind.MESSAGE


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, "`text` is missing"),
        ({"text": _MARKER, "shelf": _MARKER, "position": "3"}, "`position`: input should be"),
        ({"text": _MARKER, "shelf": _MARKER, "position": True}, "`position`: input should be"),
        ({"text": 5, "shelf": _MARKER}, "`text`: input should be a valid string"),
        ({"text": _MARKER, "shelf": _MARKER * 20}, "`shelf`: string should match pattern"),
        ({"text": _MARKER, "shelf": "", _MARKER: 1}, "fields that the method does not have"),
    ],
)
def test_bad_params_are_named_by_field_and_never_repeated(
    params: dict[str, JsonValue], expected: str
) -> None:
    with pytest.raises(InvalidParams) as caught:
        parse(Remember, params)
    assert expected in str(caught.value)
    assert _MARKER not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("kind", [Ask, AskAs])
@pytest.mark.parametrize("detail", ["views", "fused"])
@pytest.mark.parametrize("name", ["logprobs", "n", "best_of", "seed"])
def test_controls_that_would_tell_of_memory_are_refused_by_name(
    kind: type[Message], detail: str, name: str
) -> None:
    params: dict[str, JsonValue] = {"query": "q", "detail": detail, name: 5}
    if kind is AskAs:
        params["app"] = "meals"
    with pytest.raises(InvalidParams, match=f"^`{name}` is not offered: ") as caught:
        parse(kind, params)
    assert "5" not in str(caught.value)


def test_values_of_a_caller_are_refused_with_the_same_error() -> None:
    with pytest.raises(InvalidParams, match="`query`"):
        check(Ask, {"query": "", "slots": None})
    with pytest.raises(InvalidParams, match="`text`"):
        check(Remember, {"text": "not \udcff text", "shelf": "food.diet"})
