"""YAML text as a tree in which every key and value knows its line.

Decides which YAML the owner's files may use: one document of mappings, lists and scalars, and
nothing that makes a short text mean a long or a surprising one. Numbers keep the digits that were
written (`0.1` is the decimal 0.1, never a binary float). What is *not* here: opening files
(`yaml_file`), what keys mean (`yaml_models`, `policy.document`, `settings`).

Invariants:

- refused, each with its place: anchors, aliases, tags, directives, a second document, duplicate
  keys, names that YAML 1.1 reads as true, false or null, tabs, control characters, nesting beyond
  `DEEPEST`, more than `MOST_VALUES` values, more than `LARGEST_TEXT` characters;
- reading stops at the first limit, so the limits bound the work;
- for any text whatever, `read_yaml` returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from tactful.errors import Problem
from tactfuld.problems import MOST_PROBLEMS, KeyPath, dotted, shown

LARGEST_TEXT = 1 << 20
DEEPEST = 16
MOST_VALUES = 20_000

FORBIDDEN = re.compile("[\t\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_NOT_NAMES = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"])
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})\.[0-9]{1,18}(e[-+]?[0-9]{1,2})?")


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """One word, number or text; `quoted` ones are always texts."""

    place: Place
    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    place: Place
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys with their values, in the order of the file; `keys` says where each key stands."""

    place: Place
    entries: dict[str, Node]
    keys: dict[str, Place]


Node = Scalar | Sequence | Mapping


@dataclass(frozen=True, slots=True)
class YamlText:
    """What a text says.

    Attributes:
        root: `None` when the text is empty, or when `problems` made reading on useless.
        problems: what this module refuses; the rest of the text may still be worth checking.
    """

    source: str
    root: Node | None
    problems: tuple[Problem, ...] = ()

    @property
    def value(self) -> object:
        """Plain values: `dict`, `tuple`, `str`, `int`, `Decimal`, `bool`, `None`."""
        return None if self.root is None else value_of(self.root)

    def problem(self, path: KeyPath, sentence: str) -> Problem:
        """A problem at `path`, or at the nearest thing above it that stands in the text."""
        place = Place(0, 0) if self.root is None else place_of(self.root, path)
        return Problem(self.source, place.line, place.column, dotted(path), sentence)


def read_yaml(text: str, *, source: str) -> YamlText:
    """Read one document; never raises for what the text says.

    Args:
        text: the whole file, with or without a byte order mark, with LF or CRLF.
        source: the file's name, as problems shall show it.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    problems = tuple(_unreadable(text, source))
    if problems:
        return YamlText(source, None, problems)
    reader = _Reader(source, YAML(typ="safe", pure=True).parse(text))
    try:
        root = reader.document()
    except _StopReadingError as stop:
        return YamlText(source, None, (*reader.problems, stop.problem))
    except MarkedYAMLError as error:
        return YamlText(source, None, (*reader.problems, _syntax_problem(source, error)))
    except (YAMLError, ValueError, OverflowError):
        # ruamel raises ValueError and OverflowError for escapes beyond Unicode ("\UFFFFFFFF").
        sentence = "something soon after this cannot be read; look for an odd escape (\\x, \\U)."
        problem = Problem(source, reader.last.line, reader.last.column, "", sentence)
        return YamlText(source, None, (*reader.problems, problem))
    return YamlText(source, root, tuple(reader.problems))


def value_of(node: Node) -> object:
    """The node as plain values (see `YamlText.value`)."""
    match node:
        case Mapping():
            return {key: value_of(child) for key, child in node.entries.items()}
        case Sequence():
            return tuple(value_of(item) for item in node.items)
        case Scalar():
            return node.text if node.quoted else _plain_value(node.text)


def place_of(root: Node, path: KeyPath) -> Place:
    """Where `path` stands, or the nearest thing above it that exists."""
    node, place = root, root.place
    for step in path:
        if isinstance(node, Mapping) and isinstance(step, str) and step in node.entries:
            key_place, node = node.keys[step], node.entries[step]
            place = node.place if isinstance(node, Scalar) and node.text else key_place
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            place = node.place
        else:
            break
    return place


def key_place_of(root: Node, path: KeyPath) -> Place:
    """Where the last key of `path` itself stands, for problems with a key rather than a value."""
    parent, last = root, path[-1]
    for step in path[:-1]:
        if isinstance(parent, Mapping) and isinstance(step, str) and step in parent.entries:
            parent = parent.entries[step]
        else:
            break
    if isinstance(parent, Mapping) and isinstance(last, str) and last in parent.keys:
        return parent.keys[last]
    return place_of(root, path)


def _plain_value(text: str) -> object:
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return Decimal(text)
    return text


def _unreadable(text: str, source: str) -> Iterator[Problem]:
    if len(text) > LARGEST_TEXT:
        yield Problem(source, 0, 0, "", too_large())
        return
    found = 0
    for number, line in enumerate(text.split("\n"), start=1):
        match = FORBIDDEN.search(line)
        if match is None:
            continue
        if match.group() == "\t":
            sentence = "there is a tab here; indent and separate with spaces."
        else:
            sentence = f"there is a control character here (U+{ord(match.group()):04X}); remove it."
        yield Problem(source, number, match.start() + 1, "", sentence)
        found += 1
        if found == MOST_PROBLEMS:
            return


def too_large() -> str:
    """The sentence for a file over the limit."""
    return "the file is larger than 1 MiB, which is the most that is read; is it the right file?"


def _syntax_problem(source: str, error: MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    place = _place(mark) if mark else Place(0, 0)
    said = " ".join(str(error.problem or error.context or "it cannot be read").split())
    sentence = f"this is not valid YAML ({said}); check indentation, colons and quotes."
    return Problem(source, place.line, place.column, "", sentence)


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


class _StopReadingError(Exception):
    """Reading on would be useless or unbounded."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(slots=True)
class _Reader:
    """Turns ruamel's events into nodes; recursion is bounded by `DEEPEST`."""

    source: str
    events: Iterator[Any]
    problems: list[Problem] = field(default_factory=list)
    values: int = 0
    last: Place = Place(1, 1)

    def document(self) -> Node | None:
        """The first document, `None` if it is empty; stops if there is a second."""
        root: Node | None = None
        seen = False
        while not isinstance(event := self._next(), StreamEndEvent):
            if not isinstance(event, DocumentStartEvent):
                continue
            if seen:
                self._stop(event, (), "a second document begins here; a file holds only one.")
            if event.version or event.tags:
                self._report(
                    event, (), "directives (lines with % above this) are not read; remove them."
                )
            root, seen = self._node(self._next(), (), 1), True
        nothing = isinstance(root, Scalar) and not root.text and not root.quoted
        return None if nothing else root

    def _next(self) -> Any:
        event = next(self.events)
        self.last = _place(event.end_mark)
        return event

    def _node(self, event: Any, path: KeyPath, depth: int) -> Node:
        self._refuse_magic(event, path)
        self.values += 1
        if self.values > MOST_VALUES:
            self._stop(event, (), f"the file has more than {MOST_VALUES} values; make it smaller.")
        if isinstance(event, ScalarEvent):
            return Scalar(_place(event.start_mark), event.value, event.style is not None)
        if depth > DEEPEST:
            self._stop(event, (), f"this is nested more than {DEEPEST} levels deep; flatten it.")
        if isinstance(event, SequenceStartEvent):
            return self._sequence(event, path, depth)
        return self._mapping(event, path, depth)

    def _sequence(self, start: Any, path: KeyPath, depth: int) -> Sequence:
        items: list[Node] = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            items.append(self._node(event, (*path, len(items)), depth + 1))
        return Sequence(_place(start.start_mark), tuple(items))

    def _mapping(self, start: Any, path: KeyPath, depth: int) -> Mapping:
        entries: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        while not isinstance(event := self._next(), MappingEndEvent):
            if not isinstance(event, ScalarEvent):
                self._refuse_magic(event, path)
                self._stop(event, path, "a list or a mapping stands here as a key; use a name.")
            here = (*path, event.value)
            self._refuse_magic(event, here)
            self._check_key(event, here, keys)
            node = self._node(self._next(), here, depth + 1)
            entries.setdefault(event.value, node)
            keys.setdefault(event.value, _place(event.start_mark))
        return Mapping(_place(start.start_mark), entries, keys)

    def _check_key(self, event: Any, path: KeyPath, keys: dict[str, Place]) -> None:
        if event.value in keys:
            line = keys[event.value].line
            sentence = f"this key is already on line {line}; keep one of the two."
            self._report(event, path, sentence)
        elif event.value.lower() in _NOT_NAMES:
            sentence = (
                f"{shown(event.value)} cannot be a name, because many programs read it as true, "
                "false or null; choose another word."
            )
            self._report(event, path, sentence)

    def _refuse_magic(self, event: Any, path: KeyPath) -> None:
        if isinstance(event, AliasEvent):
            self._stop(event, path, "aliases (*name) are not read; write the value out.")
        if event.anchor is not None:
            self._report(event, path, "anchors (&name) are not read; remove it.")
        if isinstance(event, ScalarEvent | SequenceStartEvent | MappingStartEvent) and event.ctag:
            self._report(event, path, "tags (!name) are not read; remove it.")

    def _report(self, event: Any, path: KeyPath, sentence: str) -> None:
        self.problems.append(self._problem(event, path, sentence))
        if len(self.problems) == MOST_PROBLEMS:
            raise _StopReadingError(self.problems.pop())

    def _stop(self, event: Any, path: KeyPath, sentence: str) -> NoReturn:
        raise _StopReadingError(self._problem(event, path, sentence))

    def _problem(self, event: Any, path: KeyPath, sentence: str) -> Problem:
        place = _place(event.start_mark)
        return Problem(self.source, place.line, place.column, dotted(path), sentence)
