"""One line of the wire to one JSON object, and back: newline-delimited UTF-8 JSON.

Decides which lines are JSON that both sides read alike (RFC 7493, "I-JSON"), and bounds the work
before it is done. What is *not* here: what an object means (`envelope`), and reading lines within
a limit (`peer`).

Invariants:

- a message is one line: no raw newline is ever written inside one;
- refused: text that is not UTF-8, NaN and Infinity, integers beyond ±(2^53 − 1), numbers that
  overflow, a key that occurs twice in one object, half of a surrogate pair, and nesting deeper than
  the limit, which is found before the parser runs;
- errors say what was wrong with the form, never what the line held, and keep no cause that does.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import NoReturn

from pydantic import JsonValue

from tactful.errors import InvalidRequest, ParseError

Object = dict[str, JsonValue]
"""A JSON object."""

LARGEST_INTEGER = 2**53 - 1
"""Beyond it, implementations that read numbers as doubles would see another integer."""

_LONGEST_INTEGER = len(str(-LARGEST_INTEGER))

# One for all lines: `json.dumps` makes one for each.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

# Possessive, with an optional end: linear even for a line of quotes that never closes a string.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class NotText(ParseError):
    """A line that is not UTF-8: the sender does not speak this protocol at all."""


def encode(message: Mapping[str, JsonValue]) -> bytes:
    """The line for a message, with its newline.

    Raises:
        InvalidRequest: a number or a text in it has no form in JSON.
    """
    try:
        return _ENCODER.encode(message).encode() + b"\n"
    except ValueError:
        pass  # raised below, since as the context of our error it would keep the text
    raise InvalidRequest(
        "The message cannot be sent: a text in it is not valid Unicode, or a number in it is not "
        "finite. Correct the text."
    )


def decode(line: bytes, max_depth: int) -> Object:
    """The object in a line; `max_depth` counts arrays and objects around a value, itself included.

    Raises:
        NotText: not UTF-8.
        ParseError: not JSON.
        InvalidRequest: JSON, but not an object, nested too deeply, or read differently by others.
    """
    text = _text(line)
    _refuse_deep(line, max_depth)
    message = _value(text)
    if isinstance(message, list):
        raise InvalidRequest(
            "Batches are not supported. Send each request as an object on a line of its own."
        )
    if not isinstance(message, dict):
        raise InvalidRequest("The line is not a JSON object. Send one JSON-RPC 2.0 message a line.")
    if _ESCAPED_SURROGATE.search(text):
        _refuse_half_surrogates(message)
    return message


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        pass  # raised below: as context it would keep the line
    raise NotText("The line is not UTF-8. Send JSON as UTF-8, one message on each line.")


def _value(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(
            text,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
        return value
    except ValueError:
        pass  # raised below: as context it would keep the line
    raise ParseError("The line is not JSON. Send one JSON-RPC 2.0 message on each line.")


def _refuse_deep(line: bytes, max_depth: int) -> None:
    if line.count(b"[") + line.count(b"{") <= max_depth:
        return
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", line)):
        depth += 1 if bracket.group() in b"[{" else -1
        if depth > max_depth:
            raise InvalidRequest(
                f"The message is nested more than {max_depth} deep. Send a flatter message."
            )


def _integer(digits: str) -> int:
    if len(digits) <= _LONGEST_INTEGER and abs(value := int(digits)) <= LARGEST_INTEGER:
        return value
    raise InvalidRequest("An integer in the message lies outside ±(2^53 − 1). Send a smaller one.")


def _number(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise InvalidRequest("A number in the message is too large. Send a smaller one.")
    return value


def _refuse_constant(_name: str) -> NoReturn:
    raise ParseError("NaN and Infinity are not JSON. Send finite numbers.")


def _object(pairs: list[tuple[str, JsonValue]]) -> Object:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise InvalidRequest("An object in the message has the same key twice. Send each key once.")
    return made


def _refuse_half_surrogates(message: Object) -> None:
    try:
        json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        pass  # raised below: as context it would keep the text
    else:
        return
    raise InvalidRequest(
        "A text in the message holds half of a surrogate pair. Send valid Unicode."
    )
