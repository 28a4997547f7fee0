"""The statements of the folder `coverage`, and those of the evaluation data.

Decides which statements count as implying an attribute, and which as everyday. What is *not* here:
any detector. Nothing of the evaluation data is ever fitted on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

FOLDER: Final = Path(__file__).with_name("coverage")

ATTRIBUTES: Final = ("diabetes", "pregnancy", "debt", "job_loss")

SOURCES: Final = ("plain", "diary", "note", "talk")
"""The manners over which is cross-validated; `signs.yaml` is none of them."""

SIGN: Final = "sign"


class Kind(StrEnum):
    """What a statement says of its attribute."""

    EXPLICIT = "explicit"
    IMPLICIT = "implicit"
    NEGATIVE = "negative"
    EVERYDAY = "everyday"
    SIGN = "sign"

    @property
    def implies(self) -> bool:
        """Whether the writer has the attribute now."""
        return self in {Kind.EXPLICIT, Kind.IMPLICIT, Kind.SIGN}


@dataclass(frozen=True, slots=True)
class Statement:
    """One text; `attribute` is empty where it is about none."""

    text: str
    attribute: str
    kind: Kind
    source: str


@cache
def own_statements() -> tuple[Statement, ...]:
    """All statements of the folder `coverage`, without the signs."""
    return tuple(
        Statement(text, attribute if kind != Kind.EVERYDAY else "", kind, source)
        for attribute in (*ATTRIBUTES, "everyday")
        for kind in Kind
        for source, texts in _yaml(FOLDER / f"{attribute}.yaml").get(kind.value, {}).items()
        for text in texts
    )


@cache
def signs() -> tuple[Statement, ...]:
    """Phrases that a detector may be fitted on and is never tested on."""
    document = _yaml(FOLDER / "signs.yaml")
    return (
        *(
            Statement(text, attribute, Kind.SIGN, SIGN)
            for attribute in ATTRIBUTES
            for text in document["signs"][attribute]
        ),
        *(Statement(text, "", Kind.EVERYDAY, SIGN) for text in document["everyday"]),
    )


def evidence(data: Path) -> tuple[Statement, ...]:
    """`attribute_evidence`: what the speaker has now implies; `unclear` is left out."""
    return tuple(
        Statement(each["text"], each["attribute"], _evidence_kind(each), each["source"])
        for each in _lines(data / "attribute_evidence" / "evidence.jsonl")
        if each["status"] != "unclear"
    )


def personas(data: Path) -> tuple[str, ...]:
    """The different sentences of personas in which no keyword was found."""
    found = _lines(data / "personas" / "synthetic_persona_chat.jsonl")
    return tuple(
        sorted({text for each in found if not each["attr_hits"] for text in each["sentences"]})
    )


def memories(data: Path, attribute: str | None) -> tuple[str, ...]:
    """`cimemories`: those with a keyword of the attribute, or the general ones without any."""
    found = (
        memory
        for profile in _lines(data / "cimemories" / "profiles.jsonl")
        for memory in profile["memories"]
    )
    if attribute is not None:
        return tuple(each["text"] for each in found if attribute in each["attr_hits"])
    return tuple(
        each["text"] for each in found if each["event"] == "general" and not each["attr_hits"]
    )


def _evidence_kind(line: Mapping[str, Any]) -> Kind:
    if line["status"] != "current_self":
        return Kind.NEGATIVE
    return Kind.IMPLICIT if line["implicit"] else Kind.EXPLICIT


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _yaml(path: Path) -> Mapping[str, Any]:
    document: Mapping[str, Any] = YAML(typ="safe").load(path.read_text("utf-8"))
    return document
