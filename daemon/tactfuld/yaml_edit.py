"""Changing one entry of the owner's YAML, and nothing else.

Decides where in a text a key is set or removed, and how a value is written. What is *not* here:
opening and writing files (`owners_file`), what keys mean (`yaml_models`).

ruamel says where keys and values stand; the new text is spliced in there, because printing the
tree anew would move comments, quotes and spaces that are the owner's.

Invariants:

- every character outside the one entry stays as it was, with the byte order mark and the ends of
  lines; a comment goes only if it stands on a line of an entry that is removed;
- the new text is read again: it says what the old one said, but for this entry, or it is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ruamel.yaml import YAML

from tactfuld.problems import FileRefusedError
from tactfuld.yaml_text import FORBIDDEN, YamlText, read_yaml

Keys = tuple[str, ...]
"""The way from the top of a file to one entry."""

_INDENT = 2


@dataclass(frozen=True, slots=True)
class _Splice:
    """The characters from `start` to `end` become `text`."""

    start: int
    end: int
    text: str


_NOTHING = _Splice(0, 0, "")
"""What cannot be done by splicing: it is found out when the text is read again."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One key with its value, as ruamel's nodes, and the mapping that it is the `index`th of."""

    mapping: Any
    index: int

    @property
    def key(self) -> Any:
        return self.mapping.value[self.index][0]

    @property
    def value(self) -> Any:
        return self.mapping.value[self.index][1]

    @property
    def is_only(self) -> bool:
        return len(self.mapping.value) == 1


def with_value(text: str, keys: Keys, value: object, *, source: str) -> str:
    """The text with `value` (as in `YamlText.value`) at `keys`, where it is added or replaced.

    Raises:
        FileRefusedError: the text cannot be read, or the entry cannot be set in it.
    """
    before = _read(text, source)
    plain = _without_marks(text)
    found = _find(_compose(plain), keys)
    if len(found) == len(keys):
        splice = _replacement(plain, found[-1], plain_text(value))
    elif before.root is None:
        splice = _new_block(plain, len(plain), 0, keys, value)
    else:
        mapping = found[-1].value if found else _compose(plain)
        splice = _addition(plain, mapping, keys[len(found) :], value)
    expected = _tree_with(before.value, keys, value)
    return _edited(text, (splice,), expected, keys, before)


def without(text: str, keys: Keys, *, source: str) -> str:
    """The text without the entry at `keys`, and without sections that this leaves empty.

    Raises:
        FileRefusedError: the text cannot be read, or the entry cannot be taken out of it.
    """
    before = _read(text, source)
    plain = _without_marks(text)
    found = _find(_compose(plain), keys)
    if len(found) < len(keys):
        return text
    while len(found) > 1 and found[-1].is_only:
        found.pop()
    splices = tuple(_removal(plain, found[-1]))
    return _edited(text, splices, _tree_without(before.value, keys), keys, before)


def plain_text(value: object) -> str:
    """The value as it is written in YAML, on one line; it reads back as the same value."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return value if _reads_back(value) else _quoted(value)
        case Decimal():
            return f"{value:f}"
        case dict():
            entries = (f"{plain_text(key)}: {plain_text(item)}" for key, item in value.items())
            return f"{{{', '.join(entries)}}}"
        case tuple():
            return f"[{', '.join(plain_text(item) for item in value)}]"
        case _:
            return f"{value}"


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return FORBIDDEN.sub(lambda match: f"\\u{ord(match.group()):04x}", quoted)


def _reads_back(text: str) -> bool:
    """Whether the text can stand without quotes, in any place."""
    reads = (read_yaml(place, source="") for place in (f"{{key: {text}}}", f"key: {text}"))
    return all(not read.problems and read.value == {"key": text} for read in reads)


def _read(text: str, source: str) -> YamlText:
    yaml = read_yaml(text, source=source)
    if yaml.problems:
        raise FileRefusedError(yaml.problems)
    return yaml


def _without_marks(text: str) -> str:
    """The text in the form that positions count in: no byte order mark, lines ending in LF."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _compose(plain: str) -> Any:
    """ruamel's nodes of a text that `read_yaml` took, which bounds them."""
    return YAML(typ="safe", pure=True).compose(plain)


def _find(root: Any, keys: Keys) -> list[_Entry]:
    """The entries along `keys`, as far as they exist."""
    found: list[_Entry] = []
    node = root
    for key in keys:
        if node is None or node.id != "mapping":
            break
        index = next((i for i, (name, _) in enumerate(node.value) if name.value == key), None)
        if index is None:
            break
        found.append(_Entry(node, index))
        node = found[-1].value
    return found


def _replacement(plain: str, entry: _Entry, written: str) -> _Splice:
    value = entry.value
    if _is_block(value):
        return _NOTHING
    if value.start_mark.index == value.end_mark.index:
        return _filling(plain, entry, written)
    return _Splice(value.start_mark.index, _end(plain, entry), written)


def _filling(plain: str, entry: _Entry, written: str) -> _Splice:
    """A value where none is written: `key:`."""
    end = entry.key.end_mark.index
    colon = re.compile(r" *:").match(plain, end)
    at = colon.end() if colon else end
    return _Splice(at, at, f" {written}" if colon else f": {written}")


def _addition(plain: str, mapping: Any, keys: Keys, value: object) -> _Splice:
    if mapping.id != "mapping":
        return _NOTHING
    if not mapping.value:
        at = mapping.start_mark.index + 1
        return _Splice(at, at, _flow_entry(keys, value))
    last = _end(plain, _Entry(mapping, len(mapping.value) - 1))
    if mapping.flow_style:
        return _Splice(last, last, f", {_flow_entry(keys, value)}")
    return _new_block(plain, _line_end(plain, last), mapping.start_mark.column, keys, value)


def _new_block(plain: str, at: int, indent: int, keys: Keys, value: object) -> _Splice:
    """Lines for a new entry, after the line that ends at `at`."""
    lines = [
        f"{' ' * (indent + _INDENT * depth)}{plain_text(key)}:" for depth, key in enumerate(keys)
    ]
    lines[-1] += f" {plain_text(value)}"
    begun = at > 0 and plain[at - 1] != "\n"
    return _Splice(at, at, ("\n" if begun else "") + "\n".join(lines) + "\n")


def _flow_entry(keys: Keys, value: object) -> str:
    key, rest = keys[0], keys[1:]
    inner = f"{{{_flow_entry(rest, value)}}}" if rest else plain_text(value)
    return f"{plain_text(key)}: {inner}"


def _removal(plain: str, entry: _Entry) -> Iterator[_Splice]:
    if entry.mapping.flow_style:
        yield _flow_removal(plain, entry)
        return
    start = plain.rfind("\n", 0, entry.key.start_mark.index) + 1
    end = _line_end(plain, _end(plain, entry))
    while start < end:
        line_end = _line_end(plain, start)
        is_comment = plain[start:line_end].lstrip(" ").startswith("#")
        if entry.value.id == "scalar" or not is_comment:
            yield _Splice(start, line_end, "")
        start = line_end


def _flow_removal(plain: str, entry: _Entry) -> _Splice:
    start, end = entry.key.start_mark.index, _end(plain, entry)
    if entry.index + 1 < len(entry.mapping.value):
        return _Splice(start, entry.mapping.value[entry.index + 1][0].start_mark.index, "")
    if entry.index:
        before = _end(plain, _Entry(entry.mapping, entry.index - 1))
        if "\n" not in plain[before:start]:
            return _Splice(before, end, "")
    comma = re.compile(r" *,").match(plain, end)
    return _Splice(start, comma.end() if comma else end, "")


def _end(plain: str, entry: _Entry) -> int:
    """Where the entry ends, without what follows on its last line."""
    value = entry.value
    if value.start_mark.index == value.end_mark.index:
        return _filling(plain, entry, "").start
    if value.id == "mapping" and _is_block(value):
        return _end(plain, _Entry(value, len(value.value) - 1))
    start: int = value.start_mark.index
    end: int = value.end_mark.index
    return start + len(plain[start:end].rstrip())


def _is_block(node: Any) -> bool:
    """Whether this is a list or mapping on lines of its own."""
    return node.id != "scalar" and not node.flow_style


def _line_end(plain: str, at: int) -> int:
    """Where the next line begins, or the text ends."""
    found = plain.find("\n", at)
    return len(plain) if found < 0 else found + 1


def _edited(
    text: str, splices: tuple[_Splice, ...], expected: object, keys: Keys, before: YamlText
) -> str:
    """The text with the splices, which must then say what is expected."""
    newline = "\r\n" if "\r\n" in text else "\n"
    for splice in reversed(splices):
        start, end = _original(text, splice.start), _original(text, splice.end)
        text = text[:start] + splice.text.replace("\n", newline) + text[end:]
    after = read_yaml(text, source=before.source)
    if after.problems or (after.value or None) != expected:
        sentence = "this cannot be changed without writing more of the file anew; edit it by hand."
        raise FileRefusedError((before.problem(keys, sentence),))
    return text


def _original(text: str, position: int) -> int:
    """A position in `_without_marks(text)`, counted in the text itself."""
    offset = 1 if text.startswith("\ufeff") else 0
    for match in re.finditer("\r\n", text):
        if match.start() - offset >= position:
            break
        offset += 1
    return position + offset


def _tree_with(tree: object, keys: Keys, value: object) -> object:
    if not keys:
        return value
    below = dict(tree) if isinstance(tree, dict) else {}
    below[keys[0]] = _tree_with(below.get(keys[0]), keys[1:], value)
    return below


def _tree_without(tree: object, keys: Keys) -> object:
    if not isinstance(tree, dict):
        return tree
    below = {key: item for key, item in tree.items() if key != keys[0]}
    if len(keys) > 1 and (left := _tree_without(tree[keys[0]], keys[1:])) is not None:
        below = tree | {keys[0]: left}
    return below or None
