"""Giving memory the shelves that the policy has now. Works without a daemon.

Decides what changes, what the owner has to be told first, and in which order it is done. What is
*not* here: the rows (`store.memory`), and what a policy without a record means (`policy_in_force`).

Shelves are known by their names. Positions are numbered through the policy, so entries of the open
epoch name positions that mean something else afterwards. Therefore the record of the policy in
force is put aside first: an epoch in which something was released and whose policy is not known
admits nothing any more, and the next one counts from nothing (GUARANTEE §3). Sums of earlier epochs
count each entry for the attributes that were charged, and for those that cover its numbers now:
never for less than was paid (decision 0008).

Invariants:

- no memory is lost, none changes its shelf, and none is moved to a shelf of other attributes
  without the owner's explicit word (C7);
- killed at any moment, it can be run again; the ledgers never count less than before.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tactful.errors import Denied, Unusable, WouldUncover
from tactful.profile import Profile
from tactful_core.layout import Layout, Shelf
from tactful_core.ledger import Ledger
from tactful_core.values import Position, Secret
from tactfuld.keys.values import StoreKeys
from tactfuld.locking import hold
from tactfuld.policy.loading import load_policy
from tactfuld.policy.promises import promises_of
from tactfuld.policy.record import RECORD_FILE, read_record
from tactfuld.refusals import refusal
from tactfuld.store.filing import rehoused
from tactfuld.store.ledger import LedgerStore, ledger_place
from tactfuld.store.memory import MemoryStore, layout_fingerprint, made_for, memory_place
from tactfuld.unlocking import unlock

ASIDE_FILE = "policy-before-migration.json"
"""The record of the policy that memory still has the shelves of, while it is given others."""


@dataclass(frozen=True, slots=True)
class ShelfChange:
    """What becomes of one shelf; `None` where it is not there.

    Attributes:
        uncovers: attributes that cover it now and will not, if something is remembered there.
    """

    shelf: str
    positions_before: int | None
    positions_after: int | None
    tokens_before: int | None
    tokens_after: int | None
    uncovers: tuple[str, ...]


def shelf_changes(
    before: Layout, after: Layout, full: Iterable[Position]
) -> tuple[ShelfChange, ...]:
    """The shelves that change, in order: those that stay or go, then those that are new."""
    taken = frozenset(full)
    old = {shelf.name: shelf for shelf in before.shelves}
    new = {shelf.name: shelf for shelf in after.shelves}
    changes = []
    for name in dict.fromkeys((*old, *new)):
        was, will = old.get(name), new.get(name)
        uncovers: tuple[str, ...] = ()
        if was is not None and will is not None and taken.intersection(was.positions):
            lost = before.required_charge_set(was.positions) - after.required_charge_set(
                will.positions
            )
            uncovers = tuple(sorted(lost))
        if _size(was) != _size(will) or uncovers:
            (p0, t0), (p1, t1) = _size(was), _size(will)
            changes.append(ShelfChange(name, p0, p1, t0, t1, uncovers))
    return tuple(changes)


def _size(shelf: Shelf | None) -> tuple[int | None, int | None]:
    return (None, None) if shelf is None else (len(shelf.positions), shelf.tokens)


def migrate_memory(
    profile: Profile, passphrase: Secret[str] | None, *, commit: bool, uncover: bool
) -> dict[str, object]:
    """Gives memory the policy's shelves, or only says what that would change.

    Args:
        commit: whether to do it.
        uncover: the owner's word that memories may lose the cover of attributes.

    Raises:
        DoesNotFit: a memory would have no place.
        WouldUncover: a memory would lose the cover of an attribute, and `uncover` was not given.
        TactfulError: the profile cannot be opened or written; nothing was changed.
    """
    with hold(profile.data):
        keys = unlock(profile, passphrase).store_keys()
        return asyncio.run(_migrated(profile, keys, commit=commit, uncover=uncover))


async def _migrated(
    profile: Profile, keys: StoreKeys, *, commit: bool, uncover: bool
) -> dict[str, object]:
    after = (await asyncio.to_thread(load_policy, profile.policy_file)).layout
    place, notices = memory_place(profile), list[str]()
    if await asyncio.to_thread(made_for, place.database) == layout_fingerprint(after):
        await asyncio.to_thread(_forget_aside, profile)
        return _told((), memories=None, migrated=False, exhausts=False)
    before = await asyncio.to_thread(_layout_before, profile)
    async with MemoryStore.open(place, before, keys, notices.append) as store:
        held = await store.listing()
        changes = shelf_changes(before, after, (position for position, _ in held))
        kept = dict(held)
        in_order = [kept.get(Position(number)) for number in range(1, before.size + 1)]
        rehoused(in_order, before, after)  # refuses what has no place, before anything is done
        exhausts = await _is_used(profile, keys, before)
        if commit:
            _require_word(changes, uncover=uncover)
            await asyncio.to_thread(_put_aside, profile)
            await store.rehouse(after, keys)
    if commit:
        await asyncio.to_thread(_forget_aside, profile)
    return _told(changes, memories=len(held), migrated=commit, exhausts=exhausts)


def _told(
    changes: tuple[ShelfChange, ...], *, memories: int | None, migrated: bool, exhausts: bool
) -> dict[str, object]:
    return {
        "changes": [asdict(change) for change in changes],
        "memories": memories,
        "migrated": migrated,
        "exhausts": exhausts,
    }


def _require_word(changes: Iterable[ShelfChange], *, uncover: bool) -> None:
    lost = [f"{c.shelf} ({', '.join(c.uncovers)})" for c in changes if c.uncovers]
    if lost and not uncover:
        raise WouldUncover(
            "What is remembered on these shelves would no longer be covered by the attributes that "
            f"cover it now, so nothing was changed: {'; '.join(lost)}. If that is what you want, "
            "say so with --uncover."
        )


def _layout_before(profile: Profile) -> Layout:
    """The shelves that memory has: those of the policy that was in force last."""
    for name in (RECORD_FILE, ASIDE_FILE):
        record = read_record(profile.state / name)
        if record:
            return promises_of(record[-1].document).layout
    raise Unusable(
        "It is not known which shelves memory has, because the record of the policy in force is "
        "missing or damaged. Put policy.yaml back as it was, start the daemon once, stop it, and "
        "migrate then."
    )


async def _is_used(profile: Profile, keys: StoreKeys, layout: Layout) -> bool:
    """Whether something was released in the open epoch.

    Raises:
        Denied: shelves without protection were read in it, which only their numbers tell.
    """
    notices: list[str] = []
    async with LedgerStore.open(
        ledger_place(profile), keys, layout.attributes, notices.append
    ) as store:
        ledger = store.snapshot()
        if not isinstance(ledger, Ledger):
            return True
        if ledger.unprotected:
            raise Denied(
                "Shelves without protection were read in this epoch, and which these were would "
                "not be known any more. Open a new epoch (`tactful epoch new`), stop the daemon "
                "before an app asks, and migrate then."
            )
        return bool(ledger.settled or ledger.lost or ledger.exhausted)


def _put_aside(profile: Profile) -> None:
    """Until the next epoch nobody knows what was in force, so that nothing is admitted."""
    record = profile.state / RECORD_FILE
    try:
        if record.exists():
            record.replace(profile.state / ASIDE_FILE)
            _sync(profile.state)
    except OSError as problem:
        raise refusal(
            problem, f"{record} could not be put aside ({problem.strerror}); nothing was changed."
        ) from problem


def _forget_aside(profile: Profile) -> None:
    with suppress(OSError):
        (profile.state / ASIDE_FILE).unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
