"""From a YAML tree to a validated pydantic model, with every problem in its place.

Decides the sentences in which pydantic's refusals are told to the owner, and which key a misspelt
one was meant to be. What is *not* here: reading YAML (`yaml_text`), the models themselves
(`policy.document`, `settings`).

Invariants:

- all problems that pydantic finds are reported, each with line, column and dotted key;
- a model comes back only if there are none.
"""

from __future__ import annotations

import json
import types
import typing
from decimal import Decimal
from itertools import islice
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from tactful.errors import Problem
from tactfuld.problems import MOST_PROBLEMS, KeyPath, closest, dotted, shown, suggestion
from tactfuld.yaml_text import YamlText, key_place_of

M = TypeVar("M", bound=BaseModel)

NAME_PATTERN = r"^[a-z][a-z0-9_]{0,39}$"


_SENTENCES = {
    "literal_error": "expected {expected}, found {found}.",
    "string_type": "expected a text, found {found}; put quotes around it if it is one.",
    "string_unicode": "this text has half of a character (an escape such as \\ud800); remove it.",
    "int_type": "expected a whole number, found {found}.",
    "bool_type": "expected true or false, found {found}.",
    "tuple_type": "expected a list, such as [one, two], found {found}.",
    "dict_type": "expected keys with values below this, found {found}.",
    "model_type": "expected keys with values below this, found {found}.",
    "greater_than_equal": "expected at least {ge}, found {found}.",
    "less_than_equal": "expected at most {le}, found {found}.",
    "string_too_short": "this is empty; fill it in.",
    "too_short": "this is empty; fill it in.",
    "string_too_long": "this text is longer than {max_length} characters; shorten it.",
    "too_long": "there are more than {max_length} entries here; remove some.",
}
"""By pydantic's type of error; in braces, what it says about the case."""


class OwnersModel(BaseModel):
    """A part of a file that the owner writes: no unknown keys, no conversions, no changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def validate(text: YamlText, model: type[M]) -> tuple[M | None, tuple[Problem, ...]]:
    """The text as an instance of `model`, or what keeps it from being one."""
    try:
        return model.model_validate(text.value), ()
    except ValidationError as error:
        details = list(islice(error.errors(include_url=False), MOST_PROBLEMS))
        return None, tuple(
            _problem(text, model, detail)
            for detail in details
            if not _is_missing_because_misspelt(detail, details, model)
            and not _is_short_because_refused(detail, details)
        )


def problem_with_key(text: YamlText, path: KeyPath, sentence: str) -> Problem:
    """A problem with the key at the end of `path`, not with its value."""
    if text.root is None:
        return text.problem(path, sentence)
    place = key_place_of(text.root, path)
    return Problem(text.source, place.line, place.column, dotted(path), sentence)


def _problem(text: YamlText, model: type[BaseModel], detail: ErrorDetails) -> Problem:
    path = detail["loc"]
    if path and path[-1] == "[key]":
        return problem_with_key(text, path[:-1], _sentence(detail))
    if detail["type"] == "extra_forbidden":
        known = _keys_at(model, path[:-1])
        return problem_with_key(text, path, _unknown_key(str(path[-1]), known))
    if detail["type"] == "missing":
        return text.problem(path, _missing(model, path))
    return text.problem(path, _sentence(detail))


def _is_missing_because_misspelt(
    detail: ErrorDetails, details: list[ErrorDetails], model: type[BaseModel]
) -> bool:
    """Whether a key beside the missing one is a misspelling of it: one slip, told once."""
    if detail["type"] != "missing":
        return False
    parent, key = detail["loc"][:-1], detail["loc"][-1]
    known = _keys_at(model, parent)
    strangers = (d["loc"] for d in details if d["type"] == "extra_forbidden")
    return any(s[:-1] == parent and closest(str(s[-1]), known) == key for s in strangers)


def _is_short_because_refused(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """Whether a list counts as empty because its entries were refused, each told by itself."""
    here = detail["loc"]
    below = (each["loc"] for each in details if len(each["loc"]) > len(here))
    return detail["type"] == "too_short" and any(loc[: len(here)] == here for loc in below)


def _bad_name(name: str) -> str:
    return (
        f"{shown(name)} cannot be a name; use at most 40 lower-case letters, digits and "
        "underscores, beginning with a letter."
    )


def _unknown_key(key: str, known: dict[str, str]) -> str:
    ending = suggestion(key, known)
    if ending == ".":
        ending = f"; the keys here are {', '.join(known)}." if known else "."
    return f"there is no key named {shown(key)} here{ending}"


def _missing(model: type[BaseModel], path: KeyPath) -> str:
    meaning = _keys_at(model, path[:-1]).get(str(path[-1]), "")
    return f"this key is missing; it gives {meaning}." if meaning else "this key is missing."


def _sentence(detail: ErrorDetails) -> str:
    """What pydantic refused, in our words; its own words where we have none."""
    context = detail.get("ctx", {})
    kind, found = detail["type"], detail["input"]
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        return _bad_name(str(found))
    template = _SENTENCES.get(kind, "this was refused: {message}.")
    return template.format(**context, found=_described(found), message=detail["msg"])


def _described(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return f"the number {value}"
        case str():
            return f"the text {json.dumps(value[:40])}"
        case tuple():
            return "a list"
        case _:
            return "keys with values"


def _keys_at(model: type[BaseModel], path: KeyPath) -> dict[str, str]:
    """The keys that the model knows at `path`, each with its description."""
    here: Any = model
    for step in path:
        here = _below(here, step)
    here = _bare(here)
    if not _is_model(here):
        return {}
    return {name: field.description or "" for name, field in here.model_fields.items()}


def _below(annotation: Any, step: str | int) -> Any:
    annotation = _bare(annotation)
    if _is_model(annotation):
        hints = typing.get_type_hints(annotation)
        if step in annotation.model_fields:
            return hints[str(step)]
        return _below(hints.get("__pydantic_extra__"), step)
    if get_origin(annotation) is dict:
        return get_args(annotation)[1]
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0]
    return None


def _bare(annotation: Any) -> Any:
    """The annotation without `Annotated`, and without `None` as an alternative."""
    while get_origin(annotation) in (Annotated, Union, types.UnionType):
        annotation = next(a for a in get_args(annotation) if a is not types.NoneType)
    return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
