"""Every setting as the owner sees it: its words, its value, and where that comes from.

Decides how a setting's type and value are written. What is *not* here: what settings there are and
when they take effect (`settings`), who prints the table (`tactful.cli.config`).
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tactfuld.problems import FileRefusedError
from tactfuld.settings import AtOnce, OfApps, Settings, SettingsError, parse_settings
from tactfuld.yaml_file import read_text
from tactfuld.yaml_text import Mapping, Node, key_place_of, read_yaml


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        key: dotted, such as `model.use`.
        takes: which values it takes, in words.
        meaning: what it is for.
        at_once: whether a running daemon takes it over without a new start.
    """

    key: str
    takes: str
    default: object
    meaning: str
    at_once: bool

    def value_in(self, settings: Settings) -> object:
        """Its value."""
        found: object = settings
        for step in self.key.split("."):
            found = getattr(found, step)
        return found


@dataclass(frozen=True, slots=True)
class SettingNow:
    """A setting, its value, and the line of the file that gives it; 0 if the default holds."""

    setting: Setting
    value: object
    line: int


def all_settings() -> tuple[Setting, ...]:
    """In the order of `settings`; those of apps are theirs (`OfApps`)."""
    return tuple(_below(Settings, ""))


def settings_now(path: Path) -> tuple[SettingNow, ...]:
    """Every setting as the file at `path` gives it.

    Raises:
        SettingsError: the file cannot be read, or has problems.
    """
    try:
        text = read_text(path)
    except FileNotFoundError:
        text = ""
    except FileRefusedError as error:
        raise SettingsError(error.problems) from error
    settings = parse_settings(text, source=str(path))
    root = read_yaml(text, source=str(path)).root
    return tuple(
        SettingNow(setting, setting.value_in(settings), _line(root, setting))
        for setting in all_settings()
    )


def _below(model: type[BaseModel], prefix: str) -> Iterator[Setting]:
    for name, field in model.model_fields.items():
        if any(isinstance(mark, OfApps) for mark in field.metadata):
            continue
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _below(kind, f"{prefix}{name}.")
        else:
            yield _setting(f"{prefix}{name}", field)


def _setting(key: str, field: FieldInfo) -> Setting:
    return Setting(
        key=key,
        takes=_takes(field.annotation, field.metadata),
        default=field.default,
        meaning=field.description or "",
        at_once=any(isinstance(mark, AtOnce) for mark in field.metadata),
    )


def _takes(annotation: Any, metadata: list[Any]) -> str:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _takes(get_args(annotation)[0], metadata)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not types.NoneType]
        return f"{_takes(kinds[0], metadata)}, or null"
    if origin is Literal:
        *others, last = get_args(annotation)
        return f"{', '.join(others)} or {last}" if others else f"the words {last!r}"
    if annotation is int:
        least = next((mark.ge for mark in metadata if isinstance(mark, Ge)), "")
        most = next((mark.le for mark in metadata if isinstance(mark, Le)), "")
        return f"a whole number, {least} to {most}"
    if annotation is bool:
        return "true or false"
    return "a text" if annotation is str else typing.cast("str", annotation.__name__)


def _line(root: Node | None, setting: Setting) -> int:
    """Where the file gives the setting."""
    node = root
    path = tuple(setting.key.split("."))
    for step in path:
        if not isinstance(node, Mapping) or step not in node.entries:
            return 0
        node = node.entries[step]
    return key_place_of(root, path).line if root is not None else 0
