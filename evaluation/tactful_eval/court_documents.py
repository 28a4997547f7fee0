"""Court documents with protected spans: the evaluation data's, or our own where those are absent.

Decides what is protected in them and which ones choose parameters and which are measured. What is
*not* here: tokens and models (`recorded_rows`).

Of the Text Anonymization Benchmark (MIT), what its annotators marked as identifying, directly or
not, is protected; where spans overlap, their union.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

OWN: Final = Path(__file__).with_name("court_documents.yaml")

CHOOSING: Final = 2
"""The first so many documents are for choosing parameters, and are not measured."""

_MARK: Final = re.compile(r"\[\[(.+?)\]\]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a document."""

    text: str = field(repr=False)
    protected: bool


@dataclass(frozen=True, slots=True)
class Document:
    """A whole document, its pieces in order."""

    name: str
    pieces: tuple[Piece, ...]


def documents(data: Path | None) -> tuple[Document, ...]:
    """All documents there are: those of the evaluation data, or else our own."""
    if data is None:
        texts = YAML(typ="safe").load(OWN.read_text("utf-8"))["documents"]
        return tuple(marked(f"own {number}", text) for number, text in enumerate(texts, start=1))
    with (data / "tab" / "tab.jsonl").open(encoding="utf-8") as lines:
        return tuple(_annotated(json.loads(line)) for line in lines)


def marked(name: str, text: str) -> Document:
    """A text whose protected spans stand in double brackets."""
    pieces = [
        Piece(part, protected=number % 2 == 1) for number, part in enumerate(_MARK.split(text))
    ]
    return Document(name, tuple(piece for piece in pieces if piece.text))


def _annotated(record: dict[str, Any]) -> Document:
    spans = _union(
        (span["start"], span["end"])
        for span in record["spans"]
        if span["identifier_type"] in {"DIRECT", "QUASI"}
    )
    return Document(record["doc_id"], tuple(_pieces(record["text"], spans)))


def _pieces(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[Piece]:
    done = 0
    for start, end in spans:
        if start > done:
            yield Piece(text[done:start], protected=False)
        yield Piece(text[start:end], protected=True)
        done = end
    if done < len(text):
        yield Piece(text[done:], protected=False)


def _union(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
