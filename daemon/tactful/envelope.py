"""What an object on the wire is: a request, a notice or a reply, as JSON-RPC 2.0 has them.

Decides which objects are which, and how typed messages and named errors travel inside them.
What is *not* here: JSON itself (`framing`), and what happens to each (`peer`).

Invariants:

- an id is a text of at most 64 characters or an integer; never a truth value, a fraction or null;
- unknown keys are refused, in the envelope and (by the wire types) in parameters and results;
- a sentence about bad parameters names fields that the method has, never a value that was sent nor
  a name that only the sender knows;
- what is not a well-formed reply is never answered, so two sides cannot answer each other for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pydantic_core
from pydantic import JsonValue, ValidationError

from tactful.errors import (
    ERRORS,
    InternalError,
    InvalidParams,
    InvalidRequest,
    TactfulError,
    by_code,
)
from tactful.framing import Object
from tactful.wire import Message

M = TypeVar("M", bound=Message)

RequestId = int | str

_VERSION = "2.0"
_LONGEST_ID = 64
_LONGEST_SENTENCE = 20_000
_MOST_PROBLEMS = 8
_REQUEST_KEYS = {"jsonrpc", "id", "method", "params"}


@dataclass(frozen=True, slots=True)
class Request:
    """Asks for a reply under `id`."""

    id: RequestId
    method: str
    params: Object


@dataclass(frozen=True, slots=True)
class Notice:
    """Tells something; never answered."""

    method: str
    params: Object


@dataclass(frozen=True, slots=True)
class Reply:
    """A result or an error; `id` is None when the other side could not tell which request it was.

    A reply that is neither, or both, is an `InternalError` of the side that sent it.
    """

    id: RequestId | None
    outcome: Object | TactfulError


@dataclass(frozen=True, slots=True)
class Refused:
    """Not a message; to be answered with the error, under the id if there was a usable one."""

    id: RequestId | None
    error: TactfulError


def classify(message: Object) -> Request | Notice | Reply | Refused:
    """What the object is. Never raises."""
    if "method" not in message and ("result" in message or "error" in message):
        return _reply(message)
    number = request_id(message.get("id"))
    problem = _problem(message, number)
    if problem is not None:
        return Refused(number, InvalidRequest(problem))
    method, params = message.get("method"), message.get("params", {})
    if not isinstance(method, str) or not isinstance(params, dict | list):
        return Refused(
            number,
            InvalidRequest("`method` must be a text and `params` an object. See docs/protocol.md."),
        )
    if isinstance(params, list):
        if number is None:
            return Notice(method, {})
        return Refused(number, InvalidParams("Parameters go by name. Send `params` as an object."))
    return Notice(method, params) if number is None else Request(number, method, params)


def request_id(value: JsonValue) -> RequestId | None:
    """The value if it can be an id, else None."""
    if isinstance(value, str) and len(value) <= _LONGEST_ID:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return None


def request(number: RequestId, method: str, params: Message) -> Object:
    """The object that asks."""
    return {"jsonrpc": _VERSION, "id": number, "method": method, "params": _dump(params)}


def notice(method: str, params: Message) -> Object:
    """The object that tells."""
    return {"jsonrpc": _VERSION, "method": method, "params": _dump(params)}


def result(number: RequestId, message: Message) -> Object:
    """The object that answers."""
    return {"jsonrpc": _VERSION, "id": number, "result": _dump(message)}


def failure(number: RequestId | None, error: TactfulError) -> Object:
    """The object that refuses; the exact error is in `error.data.code`."""
    return {
        "jsonrpc": _VERSION,
        "id": number,
        "error": {"code": error.rpc, "message": str(error), "data": {"code": error.code}},
    }


def parse(kind: type[M], value: Mapping[str, JsonValue]) -> M:
    """The typed message, strictly: no text becomes a number, no truth value an integer.

    Raises:
        InvalidParams: fields are missing, unknown, or of other types; names them, never values.
    """
    try:
        # As JSON text, because only there does strict mode let an array be a tuple.
        return kind.model_validate_json(pydantic_core.to_json(value), strict=True)
    except ValidationError as error:
        sentence = _sentence(kind, error.errors(include_url=False, include_input=False))
    # Outside the handler, so that no cause holds what was sent.
    raise InvalidParams(sentence)


def check(kind: type[M], fields: Mapping[str, object]) -> M:
    """A message made here from a caller's values, under the same rules and errors as `parse`."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        sentence = _sentence(kind, error.errors(include_url=False, include_input=False))
    raise InvalidParams(sentence)


def _problem(message: Object, number: RequestId | None) -> str | None:
    if message.get("jsonrpc") != _VERSION:
        return 'The message is not JSON-RPC 2.0. Send `"jsonrpc": "2.0"` with each one.'
    if not message.keys() <= _REQUEST_KEYS:
        return "The message has keys that JSON-RPC 2.0 requests do not have. Leave them out."
    if "id" in message and number is None:
        return f"`id` must be an integer or a text of at most {_LONGEST_ID} characters."
    return None


def _reply(message: Object) -> Reply:
    number = request_id(message.get("id"))
    value = message.get("result")
    if "error" in message and "result" not in message:
        return Reply(number, _named(message["error"]))
    if isinstance(value, dict) and "error" not in message:
        return Reply(number, value)
    return Reply(number, InternalError("The other side sent a reply that is not JSON-RPC 2.0."))


def _named(error: JsonValue) -> TactfulError:
    if not isinstance(error, dict):
        return InternalError("The other side sent an error that is not JSON-RPC 2.0.")
    sentence, data = error.get("message"), error.get("data")
    code = data.get("code") if isinstance(data, dict) else None
    if isinstance(code, str):
        kind = by_code(code)
    else:
        numbers = {known.rpc: known for known in ERRORS}
        number = error.get("code")
        kind = numbers.get(number, InternalError) if isinstance(number, int) else InternalError
    return kind(_shown(sentence) if isinstance(sentence, str) else "No reason was given.")


def _shown(sentence: str) -> str:
    """Bounded and without control characters: it may come from an app and reach a terminal."""
    cut = sentence[:_LONGEST_SENTENCE]
    return "".join(c if c == "\n" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in cut)


def _dump(message: Message) -> Object:
    fields: Object = message.model_dump(mode="json")
    return fields


def _sentence(kind: type[Message], problems: Sequence[pydantic_core.ErrorDetails]) -> str:
    known = [f"`{name}`" for name in kind.model_fields]
    has = f"has {', '.join(known)}" if known else "has no parameters"
    parts = [_part(kind, problem) for problem in problems[:_MOST_PROBLEMS]]
    unique = list(dict.fromkeys(parts))
    return f"{'; '.join(unique)}. It {has}; see docs/protocol.md."


def _part(kind: type[Message], problem: pydantic_core.ErrorDetails) -> str:
    where = ".".join(str(step) for step in problem["loc"])
    match problem["type"]:
        case "extra_forbidden" if where in kind.refused:
            return kind.refused[where]
        case "extra_forbidden":
            return "There are fields that the method does not have"
        case "missing":
            return f"`{where}` is missing"
        case "value_error" | "assertion_error" | "json_invalid":
            return f"`{where}` is not acceptable"
        case _:
            return f"`{where}`: {problem['msg'][:1].lower()}{problem['msg'][1:]}"
