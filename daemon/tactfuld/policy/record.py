"""The policy in force, kept between runs: which one it was, and in which epoch.

Decides the file's form. A policy is kept as a text that the one loader reads (`policy.loading`), so
an older program's record is checked like an owner's file. What is *not* here: what follows from a
record, or from its absence (`tactfuld.policy_in_force`).

Invariants:

- `text_of` and `parse_document` are inverse: what is read back is what was in force;
- a record that is missing, damaged or not accepted any more has no epochs;
- the record of an epoch is durable before the epoch opens, beside that of the one before it, so
  that whichever is open after a crash has its policy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import parse_document

RECORD_FILE = "policy-in-force.json"

_MOST_EPOCHS = 2


@dataclass(frozen=True, slots=True)
class InEpoch:
    """What is in force in one epoch.

    Attributes:
        tick: the day of the last public tick that it was changed at (`tactfuld.epochs.tick_day`).
        at_once: whether the owner changed it at once in this epoch, outside of the promise.
    """

    epoch: int
    tick: int
    at_once: bool
    document: PolicyDocument


def read_record(file: Path) -> tuple[InEpoch, ...]:
    """What was in force, the newest epoch last; nothing where the file is missing or damaged."""
    try:
        record = _Record.model_validate_json(file.read_bytes())
        return tuple(
            InEpoch(
                kept.epoch, kept.tick, kept.at_once, parse_document(kept.policy, source=str(file))
            )
            for kept in record.epochs
        )
    except (OSError, ValidationError, PolicyError):
        return ()


def write_record(file: Path, epochs: Sequence[InEpoch]) -> None:
    """Replaces the record, durably; only the newest epochs are kept.

    Raises:
        OSError: the operating system refuses; the old record stays.
    """
    newest = sorted(epochs, key=lambda each: each.epoch)[-_MOST_EPOCHS:]
    record = _Record(
        epochs=tuple(
            _Kept(epoch=e.epoch, tick=e.tick, at_once=e.at_once, policy=text_of(e.document))
            for e in newest
        )
    )
    beside = file.with_name(f"{file.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as text:
        text.write(record.model_dump_json())
        text.flush()
        os.fsync(text.fileno())
    beside.replace(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def text_of(document: PolicyDocument) -> str:
    """The document as a policy file that says the same; what was left out stays out."""
    return _flow(document.model_dump(exclude_unset=True))


def _flow(value: object) -> str:
    """YAML that is also JSON; numbers are written out, as the loader wants them."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value, ensure_ascii=False)


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    epoch: Annotated[int, Field(ge=1)]
    tick: int
    at_once: bool
    policy: str


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    epochs: Annotated[tuple[_Kept, ...], Field(max_length=_MOST_EPOCHS)]
