"""Which policy is in force: the owner's file, less what has to wait for a tick or an epoch.

Decides at each public moment what of the written policy comes into force, and keeps it so that a
restart decides alike. What is *not* here: what may come when (`policy.staging`), watching the file
(`reload`), how a version answers (`gate`).

| moment                               | what comes into force          | what is done first       |
| ------------------------------------ | ------------------------------ | ------------------------ |
| the file was changed                 | `narrowed`: what apps lose     |                          |
| the daily tick, or a start after it  | `tightened`                    | ledgers are counted anew |
| a new epoch                          | `renewed`: all of it           | the record is durable    |
| the owner's `policy apply --at-once` | all of it, outside the promise | the record says so       |

Invariants (GUARANTEE §3):

- within an epoch nothing is loosened, whether or not the daemon is restarted; an epoch whose policy
  is not known any more, and in which something was released, admits nothing until the next one;
- a change is made between two releases of views (`Gate.exchange`), wholly or not at all, also if
  whoever asked for it is gone;
- nothing here depends on memory, nor on what was asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from structlog.typing import FilteringBoundLogger

from tactful.errors import IoFailed, Unusable
from tactful_core.ledger import Ledger, UnreadableLedger
from tactful_core.promises import Promises
from tactfuld.clock import Clock
from tactfuld.epochs import LOOK_SECONDS, local_time, next_tick, tick_day
from tactfuld.notices import Notices
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.promises import digest_of, promises_of
from tactfuld.policy.record import InEpoch, read_record, write_record
from tactfuld.policy.staging import (
    differing,
    narrowed,
    rehoused,
    renewed,
    shelves_of,
    tightened,
)
from tactfuld.store.ledger import LedgerStore

Exchange = Callable[[Promises, Callable[[], Awaitable[bool]]], Awaitable[bool]]
"""Puts promises in force if the second argument says so, between two releases."""

T = TypeVar("T")

_SUBJECT = "policy in force"
_MOST_KEYS = 6

_UNKNOWN = (
    "It is not known which policy was in force in this epoch, because the record of it in the "
    "state folder is missing or damaged. Apps get generic answers until a new epoch (`tactful "
    "epoch new`)."
)
_NOT_KEPT = (
    "Which policy is in force could not be written to the state folder; check the disk. Until it "
    "can, no epoch opens."
)
_OTHER_SHELVES = (
    "policy.yaml now has other shelves than the memory of this profile, and the daemon would not "
    "start with it. Nothing of it holds but what it takes away from apps. Take that back, or give "
    "memory these shelves: `tactful stop`, then `tactful memory migrate`."
)


@dataclass(frozen=True, slots=True)
class Staged:
    """What of the written policy is not in force yet.

    Attributes:
        written: the digest of the policy as it is written.
        at_tick: dotted keys that change at the next tick, which is at `tick_at` (since 1970).
        at_epoch: dotted keys that change in the next epoch.
        other_shelves: its shelves are others, so it waits until they are taken back.
        at_once: in this epoch the owner put a policy in force at once, outside of the promise.
    """

    written: str
    at_tick: tuple[str, ...]
    tick_at: int
    at_epoch: tuple[str, ...]
    other_shelves: bool
    at_once: bool


@dataclass(frozen=True, slots=True)
class _Unlocked:
    """What a change acts on while the profile is unlocked."""

    ledger: LedgerStore
    exchange: Exchange


class PolicyInForce:
    """Keeps the policy in force, for as long as the daemon runs."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        file: Path,
        written: PolicyDocument,
        host: Callable[[], Awaitable[None]],
        clock: Clock,
        notices: Notices,
        journal: FilteringBoundLogger,
    ) -> None:
        """Nothing is in force yet.

        Args:
            file: the record.
            written: what the policy file says.
            host: makes the hosted apps those that `document` grants something.
        """
        self._group = group
        self._file = file
        self._written = written
        self._host = host
        self._clock = clock
        self._notices = notices
        self._journal = journal
        self._record: tuple[InEpoch, ...] = ()
        self._now: InEpoch | None = None
        self._is_known = True
        self._unlocked: _Unlocked | None = None
        self._changing = asyncio.Lock()

    # --- opening and closing ---------------------------------------------------------------------

    @property
    def promises(self) -> Promises:
        """What is in force, or was last; what was written before anything was. Has the shelves that
        memory must have."""
        return promises_of(self.document)

    @property
    def document(self) -> PolicyDocument:
        """The same as a document, with what the promise does not depend on."""
        return self._written if self._now is None else self._now.document

    async def recalled(self) -> Promises:
        """What was in force last, as far as it is known; by it a ledger can be opened."""
        self._record = await asyncio.to_thread(read_record, self._file)
        return promises_of(self._record[-1].document if self._record else self._written)

    async def begin(self, ledger: LedgerStore) -> Promises:
        """What is in force from now on, after `recalled`; the ledger is counted by it."""
        async with self._changing:
            found = ledger.snapshot()
            epoch = found.epoch if isinstance(found, Ledger) else 0
            kept = self._kept(epoch)
            self._is_known = kept is not None or not _used(found)
            if not self._is_known:
                await ledger.exhaust()
                self._notices.add(_UNKNOWN)
            self._now = self._resumed(kept) or InEpoch(
                epoch, self._day(self._written), at_once=False, document=self._written
            )
            promises = promises_of(self._now.document)
            await ledger.regroup(promises.layout.attributes)
            await self._keep(self._now)
            self._tell()
            return promises

    async def opened(self, ledger: LedgerStore, exchange: Exchange, begun: Promises) -> None:
        """From now on changes act on these; one since `begin` does so at once."""
        async with self._changing:
            self._unlocked = _Unlocked(ledger, exchange)
            promises = self.promises
            if promises.digest != begun.digest:
                await self._exchanged(self._unlocked, promises)

    async def closing(self) -> None:
        """No change acts on anything any more."""
        async with self._changing:
            self._unlocked = None

    def _kept(self, epoch: int) -> InEpoch | None:
        """What was in force in an epoch, as this process knows it, or else the record."""
        if self._now is not None and self._now.epoch == epoch:
            return self._now if self._is_known else None
        return next((each for each in self._record if each.epoch == epoch), None)

    def _resumed(self, kept: InEpoch | None) -> InEpoch | None:
        """What is in force of what was, after some time in which nobody looked."""
        if kept is None:
            return None
        before, day = kept.document, self._day(kept.document)
        if self._now is None and shelves_of(before) != shelves_of(self._written):
            return replace(kept, tick=day, document=rehoused(before, self._written))
        after = tightened if day != kept.tick else narrowed
        return replace(kept, tick=day, document=after(before, self._written))

    # --- public moments --------------------------------------------------------------------------

    async def take(self, written: PolicyDocument) -> str | None:
        """The file says something else now; what is to be said about it."""
        await self._whole(lambda: self._take(written))
        return self._told()

    async def run(self) -> None:
        """Looks for the tick until it is cancelled."""
        while True:
            await self._whole(self._tick)
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_SECONDS)

    async def open_epoch(self, period: int, after: int | None) -> int | None:
        """Opens the next epoch, with all that was written in force; as `LedgerStore` does."""
        return await self._whole(lambda: self._open_epoch(period, after))

    async def apply_at_once(self, written: str) -> None:
        """Puts all that was written in force within the epoch: outside of the promise.

        Args:
            written: the digest of what the owner saw.

        Raises:
            Unusable: the file says something else by now, or has other shelves.
            IoFailed: it could not be recorded; nothing was changed.
        """
        await self._whole(lambda: self._apply_at_once(written))

    async def _take(self, written: PolicyDocument) -> None:
        self._written = written
        if self._now is not None:
            await self._put(replace(self._now, document=narrowed(self._now.document, written)))

    async def _tick(self) -> None:
        now = self._now
        if now is None or (day := self._day(now.document)) == now.tick:
            return
        await self._put(replace(now, tick=day, document=tightened(now.document, self._written)))

    async def _open_epoch(self, period: int, after: int | None) -> int | None:
        now, unlocked = self._now, self._unlocked
        found = None if unlocked is None else unlocked.ledger.snapshot()
        if now is None or unlocked is None or not isinstance(found, Ledger):
            return None
        document = renewed(now.document, self._written)
        following = InEpoch(found.epoch + 1, self._day(document), at_once=False, document=document)
        if not await self._keep(now, following):
            return None
        opened: list[int] = []

        async def opening() -> bool:
            epoch = await unlocked.ledger.open_next_epoch(period, after, parameters)
            if epoch is None:
                return False
            opened.append(epoch)
            await unlocked.ledger.regroup(promises.layout.attributes)
            return True

        promises = promises_of(document)
        parameters = await asyncio.to_thread(promises.calibrated)
        if not await unlocked.exchange(promises, opening):
            return None
        self._now, self._is_known = following, True
        await self._in_force(promises)
        return opened[0]

    async def _apply_at_once(self, written: str) -> None:
        now = self._now
        if now is None or digest_of(self._written) != written:
            raise Unusable(
                "policy.yaml has changed since it was shown, so nothing was put in force. Look at "
                "`tactful policy apply` and decide again."
            )
        if shelves_of(now.document) != shelves_of(self._written):
            raise Unusable(_OTHER_SHELVES)
        after = replace(now, at_once=True, document=self._written)
        if not await self._keep(after):
            raise IoFailed(f"{_NOT_KEPT} Nothing was put in force.")
        await self._put(after)

    # --- one change ------------------------------------------------------------------------------

    async def _put(self, after: InEpoch) -> None:
        """Puts a policy in force within the epoch."""
        now, unlocked = self._now, self._unlocked
        if after == now:
            return
        await self._keep(after)
        self._now = after
        if now is not None and after.document == now.document:
            return
        promises = promises_of(after.document)
        if unlocked is not None:
            await self._exchanged(unlocked, promises)
        await self._in_force(promises)

    async def _exchanged(self, unlocked: _Unlocked, promises: Promises) -> None:
        """Counts the ledger anew, then puts the promises in force."""

        async def counted() -> bool:
            await unlocked.ledger.regroup(promises.layout.attributes)
            return True

        await unlocked.exchange(promises, counted)

    async def _in_force(self, promises: Promises) -> None:
        self._journal.info("policy_in_force", policy=promises.digest)
        await self._host()

    async def _keep(self, *epochs: InEpoch) -> bool:
        """Whether it is kept; what is not known, and an epoch that is none, need not be."""
        unknown = None if self._is_known or self._now is None else self._now.epoch
        known = [each for each in epochs if each.epoch not in (0, unknown)]
        try:
            if known:
                await asyncio.to_thread(write_record, self._file, known)
        except OSError as problem:
            self._journal.warning("policy_not_kept", errno=problem.errno)
            self._notices.add(_NOT_KEPT)
            return False
        return True

    async def _whole(self, change: Callable[[], Awaitable[T]]) -> T:
        """Makes a change to its end, also if the caller is cancelled meanwhile."""
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def changing() -> None:
            try:
                async with self._changing:
                    made = await change()
                    self._tell()
            except Exception as error:  # noqa: BLE001 - for the caller, who may be gone
                if not outcome.done():
                    outcome.set_exception(error)
            else:
                if not outcome.done():
                    outcome.set_result(made)

        self._group.create_task(changing(), name="policy")
        return await outcome

    # --- what waits ------------------------------------------------------------------------------

    @property
    def staged(self) -> Staged:
        """What of the written policy waits, and until when."""
        written = self._written
        now = self._now or InEpoch(0, 0, at_once=False, document=written)
        at_tick = tightened(now.document, written)
        return Staged(
            written=digest_of(written),
            at_tick=differing(now.document, at_tick),
            tick_at=next_tick(promises_of(now.document).epochs, self._clock.now()),
            at_epoch=differing(at_tick, renewed(now.document, written)),
            other_shelves=shelves_of(now.document) != shelves_of(written),
            at_once=now.at_once,
        )

    @property
    def in_next_epoch(self) -> Promises:
        """What would be in force if an epoch were opened now."""
        before = self._written if self._now is None else self._now.document
        return promises_of(renewed(before, self._written))

    def _tell(self) -> None:
        self._notices.replace(_SUBJECT, self._told())

    def _told(self) -> str | None:
        """A sentence for the owner; nothing where all that was written is in force."""
        staged = self.staged
        if staged.other_shelves:
            return _OTHER_SHELVES
        said = []
        if staged.at_tick:
            when = local_time(staged.tick_at).strftime("%Y-%m-%d %H:%M")
            said.append(f"from the next tick on ({when}): {_listed(staged.at_tick)}")
        if staged.at_epoch:
            said.append(f"in a new epoch only: {_listed(staged.at_epoch)}")
        return f"policy.yaml was changed. What holds {'; '.join(said)}." if said else None

    def _day(self, document: PolicyDocument) -> int:
        return tick_day(promises_of(document).epochs, self._clock.now())


def _used(ledger: Ledger | UnreadableLedger) -> bool:
    """Whether something was released in the open epoch, or may have been."""
    if isinstance(ledger, UnreadableLedger):
        return False  # nothing is admitted anyway
    views = ledger.settled or ledger.unprotected or ledger.lost
    return bool(views or ledger.fused.is_used or ledger.exhausted)


def _listed(keys: tuple[str, ...]) -> str:
    more = f" and {len(keys) - _MOST_KEYS} more" if len(keys) > _MOST_KEYS else ""
    return ", ".join(keys[:_MOST_KEYS]) + more
