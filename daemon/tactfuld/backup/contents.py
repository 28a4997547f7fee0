"""What a backup holds: the manifest, and the files that it lists (`tactful_core/SPEC.md` §10).

Decides the manifest's form, and that files come out as they went in. What is *not* here: the file
around it (`container`), and where the files come from or go to (`making`, `restoring`).

Invariant: a manifest names only files that this version knows, each once; no path comes out of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tactful.errors import Unusable
from tactful_core.values import Secret
from tactfuld.keys.key_file import Id, Moment
from tactfuld.keys.values import DataKey, Ephemeral, Purpose, StoreKeys

_SIZE = struct.Struct(">I")
_LARGEST_MANIFEST = 64 * 1024

FileName = Literal["memory.db", "history.db", "ledger.db", "policy.yaml", "settings.yaml"]
ALWAYS: frozenset[FileName] = frozenset({"memory.db", "ledger.db", "policy.yaml"})


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class _KeyRecord(_Record):
    id: Id
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]


class _FileRecord(_Record):
    name: FileName
    size: Annotated[int, Field(ge=0, le=2**48)]


class _Keys(_Record):
    memory: _KeyRecord
    ledger: _KeyRecord
    history: _KeyRecord


class _Manifest(_Record):
    made: Moment
    keys: _Keys
    kek: Annotated[str, Field(max_length=300)]
    files: Annotated[tuple[_FileRecord, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True)
class Contents:
    """A profile as a backup holds it.

    Attributes:
        made: when, in whole seconds since 1970.
        keys: what its databases are sealed under.
        kek: where the store's key was.
        files: by name, in the order in which they are written.
    """

    made: int
    keys: dict[Purpose, DataKey] = field(repr=False)
    kek: str
    files: dict[FileName, bytes] = field(repr=False)

    def store_keys(self, store_id: bytes) -> StoreKeys:
        """What opens the databases of this backup; nothing is kept about keys that follow."""
        memory, ledger, history = (self.keys[purpose] for purpose in Purpose)
        return StoreKeys(
            store_id=store_id,
            memory=memory.key,
            memory_key_id=memory.id,
            ledger=ledger.key,
            ledger_key_id=ledger.id,
            history=history.key,
            history_key_id=history.id,
            source_description=self.kek,
            succession=Ephemeral(),
        )


def packed(contents: Contents) -> tuple[int, Iterator[bytes]]:
    """The size of the plaintext, and the plaintext piece by piece."""
    manifest = _manifest(contents).model_dump_json().encode()
    start = _SIZE.pack(len(manifest)) + manifest
    length = len(start) + sum(map(len, contents.files.values()))
    return length, iter((start, *contents.files.values()))


def unpacked(path: Path, pieces: Iterable[bytes]) -> Contents:
    """The contents of a backup that was read to its end.

    Raises:
        Unusable: it is not in the form that this version writes.
    """
    content = b"".join(pieces)
    try:
        (size,) = _SIZE.unpack_from(content)
        start = _SIZE.size + min(size, _LARGEST_MANIFEST)
        manifest = _Manifest.model_validate_json(content[_SIZE.size : start])
    except (struct.error, ValidationError):
        raise _unknown_form(path) from None  # the cause would carry keys along
    files: dict[FileName, bytes] = {}
    for file in manifest.files:
        files[file.name] = content[start : start + file.size]
        start += file.size
    complete = set(files) >= ALWAYS and len(files) == len(manifest.files)
    if start != len(content) or not complete:
        raise _unknown_form(path)
    keys = {
        purpose: DataKey(bytes.fromhex(record.id), Secret(bytes.fromhex(record.key)))
        for purpose, record in (
            (Purpose.MEMORY, manifest.keys.memory),
            (Purpose.LEDGER, manifest.keys.ledger),
            (Purpose.HISTORY, manifest.keys.history),
        )
    }
    return Contents(manifest.made, keys, manifest.kek, files)


def _manifest(contents: Contents) -> _Manifest:
    records = {
        purpose.value: _KeyRecord(id=key.id.hex(), key=key.key.reveal().hex())
        for purpose, key in contents.keys.items()
    }
    return _Manifest(
        made=contents.made,
        keys=_Keys.model_validate(records),
        kek=contents.kek,
        files=tuple(
            _FileRecord(name=name, size=len(data)) for name, data in contents.files.items()
        ),
    )


def _unknown_form(path: Path) -> Unusable:
    return Unusable(
        f"{path} opens, but its contents are not in the form that this version of tactful writes; "
        "use the version that made it. Nothing was changed."
    )
