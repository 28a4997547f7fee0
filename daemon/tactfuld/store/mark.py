"""The high-water mark: what the ledger had come to, kept outside of its database.

Decides whether a ledger is the newest that this machine has written, and what the owner is told if
it is not. What is *not* here: what an older one then counts (`Ledger.not_below` in
`tactful_core.ledger`).

The mark lies in the state folder, sealed under the ledger's key (SPEC §8), and names the machine.
It is replaced after each durable charge by one rename, without waiting for the disk: that is enough
against an old `ledger.db` put back, and a charge does not pay for two disk writes.

Invariants:

- a mark that is missing, unreadable or of another machine is `None`: what was spent is not known,
  so everything is exhausted until the next epoch, and no new mark is written before that;
- a mark is only replaced by one that knows at least as much, also about attributes that the policy
  does not have at the moment;
- errors never carry what a mark holds.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from keyring.backend import KeyringBackend
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tactful_core.entries import EntryId
from tactful_core.errors import SealError
from tactful_core.fused_ledger import FusedMark
from tactful_core.layout import Attribute
from tactful_core.ledger import Ledger, Mark, mark_of
from tactful_core.sealing import ChainSealer
from tactful_core.values import AttributeName, Position, Units
from tactfuld import keyrings
from tactfuld.refusals import refusal
from tactfuld.store.whole_file import replace_file

MARK_FILE = "ledger.mark"

_MACHINE_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_LARGEST = 1024 * 1024
_INVENTED = 1 << 40
"""The multicast bit, which no hardware address has (RFC 4122, section 4.5)."""

_NO_MARK = (
    "The ledger's high-water mark is missing, damaged, or was made on another machine, so what was "
    "spent is not known and every attribute counts as exhausted until a new epoch "
    "(`tactful epoch new`)."
)
_OLDER_EPOCH = (
    "ledger.db is from before the newest epoch that this machine knows of, because an old copy was "
    "put back, or its epoch was opened by a copy elsewhere. Every attribute counts as exhausted "
    "until a new epoch (`tactful epoch new`)."
)
_ROLLED_BACK = (
    "ledger.db shows less than its high-water mark; somebody put an old copy back, or the policy "
    "lets an attribute cover less than before. What the mark knows to have been spent counts as "
    "spent."
)
_NOT_WRITTEN = (
    "The ledger's high-water mark could not be written; check the disk of the state folder. Until "
    "it can, an older ledger put back would not be noticed."
)

_Count = Annotated[int, Field(ge=0)]


class _FusedRecord(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    settled: dict[str, _Count]
    open: dict[str, dict[str, _Count]]
    lifetime: dict[str, _Count]
    alpha: _Count


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    machine: str
    sequence: _Count
    epoch: _Count
    settled: dict[str, _Count]
    lifetime: dict[str, _Count]
    unprotected: list[Annotated[int, Field(ge=1)]]
    fused: _FusedRecord | None = None
    """Left out by versions that fused no text, and where none ever was."""


class _Codec:
    """Sealed marks of one store and one machine."""

    def __init__(self, sealer: ChainSealer, machine: str) -> None:
        self._sealer = sealer
        self._machine = machine

    @property
    def sealer(self) -> ChainSealer:
        return self._sealer

    def under(self, sealer: ChainSealer) -> _Codec:
        """The same marks under another key."""
        return _Codec(sealer, self._machine)

    def opened(self, sealed: bytes) -> Mark | None:
        """`None` for what is no mark of this store that was made on this machine."""
        try:
            data = self._sealer.open(sealed, 0, ChainSealer.FIRST)
            record = _Record.model_validate_json(data)
        except (SealError, ValidationError):
            return None
        if record.machine != self._machine:
            return None
        return Mark(
            sequence=record.sequence,
            epoch=record.epoch,
            settled=_units(record.settled),
            lifetime=_units(record.lifetime),
            unprotected=frozenset(Position(position) for position in record.unprotected),
            fused=_fused_mark(record.fused),
        )

    def sealed(self, mark: Mark) -> bytes:
        record = _Record(
            machine=self._machine,
            sequence=mark.sequence,
            epoch=mark.epoch,
            settled=_named(mark.settled),
            lifetime=_named(mark.lifetime),
            unprotected=sorted(mark.unprotected),
            fused=_fused_record(mark.fused),
        )
        text = record.model_dump_json(exclude_none=True)
        return self._sealer.seal(text.encode(), 0, ChainSealer.FIRST)


class MarkFile:
    """The mark of one ledger in a file. Reading and writing block for a moment."""

    def __init__(self, path: Path, sealer: ChainSealer, machine: str) -> None:
        """`machine` names this machine (`machine_name`)."""
        self._path = path
        self._codec = _Codec(sealer, machine)

    def read(self) -> Mark | None:
        """The mark that was written last on this machine; `None` where there is none to trust."""
        try:
            with self._path.open("rb") as file:
                sealed = file.read(_LARGEST)
        except OSError:
            return None
        return self._codec.opened(sealed)

    def write(self, mark: Mark) -> None:
        """Replaces the mark; `OSError` if the operating system refuses."""
        sealed = self._codec.sealed(mark)
        replace_file(self._path, sealed)

    def reseal(self, new: ChainSealer) -> None:
        """Goes over to a new key, whatever the mark says; `OSError` as above."""
        reseal_mark(self._path, self._codec.sealer, new)
        self._codec = self._codec.under(new)


class KeyringMark:
    """A second copy of the mark, in the keyring that keeps the store's key.

    It is written when the daemon starts, when an epoch opens and when the daemon stops: a keyring
    may be slow or ask a person, so no charge waits for it. Both calls block.
    """

    def __init__(self, backend: KeyringBackend, store_id: bytes, sealer: ChainSealer) -> None:
        self._backend = backend
        self._store_id = store_id
        self._codec = _Codec(sealer, machine_name(store_id))

    def read(self) -> Mark | None:
        """The copy that was written last; `None` where there is none to trust."""
        kept = keyrings.get_mark(self._backend, self._store_id)
        try:
            return None if kept is None else self._codec.opened(base64.b64decode(kept))
        except ValueError:
            return None

    def write(self, mark: Mark) -> None:
        """Replaces the copy; a keyring that does not take it leaves the file to speak alone."""
        sealed = base64.b64encode(self._codec.sealed(mark)).decode()
        keyrings.put_mark(self._backend, self._store_id, sealed)

    def reseal(self, old: ChainSealer, new: ChainSealer) -> None:
        """Goes over to a new key."""
        reseal_copy(self._backend, self._store_id, old, new)
        self._codec = self._codec.under(new)


class HighWater:
    """Applies the mark to a ledger that was opened, and keeps it up to date from then on."""

    def __init__(
        self,
        file: MarkFile,
        attributes: Sequence[Attribute],
        notices: Callable[[str], None],
        copy: KeyringMark | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            attributes: all that the policy has.
            notices: takes sentences for the owner.
            copy: where the store's key is in a keyring.
        """
        self._file = file
        self._copy = copy
        self._attributes = tuple(attributes)
        self._notices = notices
        self._read: Mark | None = None

    def applied(self, ledger: Ledger, sequence: int) -> Ledger:
        """The ledger, never less than the mark; exhausted where the mark says nothing.

        What the policy makes of the entries now is kept at once, before anything rests on it: a
        group that grew and gets small again leaves its sum where it was.
        """
        mark = self._read = self._file.read()
        if mark is None:
            self._notices(_NO_MARK)
            return ledger.until_next_epoch()
        copied = None if self._copy is None else self._copy.read()
        known = ledger.not_below(mark, self._attributes)
        if copied is not None:
            known = known.not_below(copied, self._attributes)
        newest = max(mark.sequence, 0 if copied is None else copied.sequence)
        if known.exhausted:
            self._notices(_OLDER_EPOCH)
        elif newest > sequence or any(known.lost.values()) or known.fused.is_short:
            self._notices(_ROLLED_BACK)
        self.keep(known, sequence)
        self.keep_copy(known, sequence)
        return known

    def on_disk(self) -> Mark | None:
        """What the file says now."""
        return self._file.read()

    def regrouped(self, ledger: Ledger, sequence: int, attributes: Sequence[Attribute]) -> Ledger:
        """The ledger under other attributes, never less than it was under those before.

        What the policy makes of the entries now is kept at once, before anything rests on it.
        """
        before, covered = mark_of(ledger, sequence, self._attributes), self._attributes
        if not ledger.exhausted:
            self._read = self._write(before)
        self._attributes = tuple(attributes)
        known = _with_all_lost(ledger.not_below(before, attributes), covered, attributes)
        self.keep(known, sequence)
        return known

    def reseal(self, new: ChainSealer) -> None:
        """Puts the mark under a new key; does nothing where it is.

        Raises:
            OSError: the operating system refuses.
        """
        self._file.reseal(new)

    def reseal_copy(self, old: ChainSealer, new: ChainSealer) -> None:
        """Puts the copy in the keyring under a new key, where there is one; may take a while."""
        if self._copy is not None:
            self._copy.reseal(old, new)

    def keep_copy(self, ledger: Ledger, sequence: int) -> None:
        """Writes the copy in the keyring, where there is one; may take a while."""
        if self._copy is not None and not ledger.exhausted:
            self._copy.write(mark_of(ledger, sequence, self._attributes))

    def united(self, ledger: Ledger, sequence: int, before: Ledger) -> Ledger:
        """The union of the ledger `before` with another copy, never less than was known.

        An epoch that this machine does not know was opened by a copy elsewhere, which may still
        spend in it: here it is exhausted. The mark says so before the union becomes durable.
        """
        mark = self._read
        known = ledger.not_below(mark_of(before, sequence, self._attributes), self._attributes)
        if mark is not None:
            known = known.not_below(mark, self._attributes)
        opened_elsewhere = ledger.epoch > before.epoch
        if (mark is not None and ledger.epoch <= mark.epoch) or not (
            opened_elsewhere or before.exhausted
        ):
            return known
        if mark is not None or not before.exhausted:
            self._forbid(known, sequence)
        return known.until_next_epoch()

    def keep(self, ledger: Ledger, sequence: int) -> None:
        """Writes the mark, but never over one that says more than the entries can show."""
        if not ledger.exhausted:
            self._write(mark_of(ledger, sequence, self._attributes))

    def _forbid(self, ledger: Ledger, sequence: int) -> None:
        """Writes a mark that knows of one more epoch: nothing is admitted before that is opened."""
        mark = mark_of(ledger, sequence, self._attributes)
        self._read = self._write(
            replace(
                mark,
                epoch=ledger.epoch + 1,
                settled=MappingProxyType({}),
                unprotected=frozenset(),
                fused=mark.fused.in_later_epoch(),
            )
        )

    def _write(self, mark: Mark) -> Mark:
        whole = mark if self._read is None else _not_forgetting(mark, self._read)
        try:
            self._file.write(whole)
        except OSError:
            self._notices(_NOT_WRITTEN)
        return whole


def _with_all_lost(
    ledger: Ledger, before: Sequence[Attribute], after: Sequence[Attribute]
) -> Ledger:
    """The ledger, where all that is lost counts for each group that grew or appeared.

    What lost entries read is not known, so all of it may have been read there.
    """
    covered = {attribute.name: attribute.positions for attribute in before}
    total = sum(ledger.lost.values())
    grown = [a.name for a in after if not a.positions <= covered.get(a.name, frozenset())]
    lost = {**ledger.lost, **dict.fromkeys(grown, total)} if total else ledger.lost
    fused = ledger.fused.lost_to(grown)
    return replace(ledger, lost=MappingProxyType(dict(lost)), fused=fused)


def reseal_mark(path: Path, old: ChainSealer, new: ChainSealer) -> None:
    """The mark in a file under a new key, durably; what does not open under the old one stays.

    Nothing happens where the two are the same.

    Raises:
        OSError: the operating system refuses.
    """
    if old is new:
        return
    try:
        sealed = path.read_bytes()
    except FileNotFoundError:
        return
    renewed = _resealed(sealed, old, new)
    if renewed is not None:
        replace_file(path, renewed, durably=True)


def reseal_copy(
    backend: KeyringBackend, store_id: bytes, old: ChainSealer, new: ChainSealer
) -> None:
    """The copy in a keyring under a new key, as far as the keyring lets it."""
    kept = keyrings.get_mark(backend, store_id)
    try:
        renewed = None if kept is None else _resealed(base64.b64decode(kept), old, new)
    except ValueError:
        return
    if renewed is not None:
        keyrings.put_mark(backend, store_id, base64.b64encode(renewed).decode())


def _resealed(sealed: bytes, old: ChainSealer, new: ChainSealer) -> bytes | None:
    try:
        return new.seal(old.open(sealed, 0, ChainSealer.FIRST), 0, ChainSealer.FIRST)
    except SealError:
        return None


def mark_file(path: Path, sealer: ChainSealer, store_id: bytes) -> MarkFile:
    """The mark of one store on this machine."""
    return MarkFile(path, sealer, machine_name(store_id))


def new_mark(path: Path, sealer: ChainSealer, store_id: bytes, mark: Mark) -> None:
    """Writes the first mark of a store.

    Raises:
        IoFailed, NoPermission: the operating system refuses.
    """
    try:
        mark_file(path, sealer, store_id).write(mark)
    except OSError as problem:
        raise refusal(
            problem, f"{path} could not be written ({problem.strerror}); check the folder."
        ) from problem


def forbid_until_new_epoch(path: Path, sealer: ChainSealer, store_id: bytes, epoch: int) -> None:
    """Makes the mark beside a ledger that was put there from elsewhere, up to this epoch.

    What a mark that is left here knows of the store's lifetime stays; one that says nothing goes,
    and what has no mark is exhausted.

    Raises:
        OSError: the operating system refuses.
    """
    file = mark_file(path, sealer, store_id)
    mark = file.read()
    if mark is None:
        path.unlink(missing_ok=True)
        return
    file.write(
        replace(
            mark,
            epoch=max(mark.epoch, epoch) + 1,
            settled=MappingProxyType({}),
            unprotected=frozenset(),
            fused=mark.fused.in_later_epoch(),
        )
    )


def machine_name(store_id: bytes) -> str:
    """Names this machine to this store, and to nobody else."""
    known = next((text for path in _MACHINE_FILES if (text := _text(path))), _network_name())
    return hashlib.sha256(store_id + known.encode()).hexdigest()


def _network_name() -> str:
    """The hardware address; nothing where Python has to invent one, a new one in each process."""
    node = uuid.getnode()
    return "" if node & _INVENTED else hex(node)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _fused_mark(record: _FusedRecord | None) -> FusedMark:
    if record is None:
        return FusedMark()
    return FusedMark(
        settled=_units(record.settled),
        open=MappingProxyType({EntryId(key): _units(each) for key, each in record.open.items()}),
        lifetime=_units(record.lifetime),
        alpha=record.alpha,
    )


def _fused_record(mark: FusedMark) -> _FusedRecord | None:
    if not mark.alpha:
        return None
    return _FusedRecord(
        settled=_named(mark.settled),
        open={str(key): _named(each) for key, each in mark.open.items()},
        lifetime=_named(mark.lifetime),
        alpha=mark.alpha,
    )


def _named(amounts: Mapping[AttributeName, Units]) -> dict[str, int]:
    return {str(name): units for name, units in amounts.items()}


def _units(amounts: dict[str, int]) -> MappingProxyType[AttributeName, Units]:
    return MappingProxyType({AttributeName(name): Units(n) for name, n in amounts.items()})


def _not_forgetting(mark: Mark, before: Mark) -> Mark:
    """The mark, with what one before it knew and the ledger does not show.

    That is what attributes had that the policy does not have now, and how many entries there were
    in this epoch, so that the owner is told again.
    """
    lifetime = MappingProxyType({**before.lifetime, **mark.lifetime})
    fused = mark.fused.not_forgetting(before.fused, in_same_epoch=before.epoch == mark.epoch)
    if before.epoch != mark.epoch:
        return replace(mark, lifetime=lifetime, fused=fused)
    return replace(
        mark,
        sequence=max(mark.sequence, before.sequence),
        settled=MappingProxyType({**before.settled, **mark.settled}),
        lifetime=lifetime,
        fused=fused,
    )
