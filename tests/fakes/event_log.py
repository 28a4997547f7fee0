"""Ports that write down in which order they are used, around other ports."""

from dataclasses import dataclass, field, replace

from tactful_core.entries import Charge, UnprotectedRead, ViewReleased
from tactful_core.interface import ChargeStore, MemoryReader, OwnerNotices, Ports, Scorer
from tactful_core.layout import Slot
from tactful_core.ledger import Admitted, Ledger, Refused, UnreadableLedger
from tactful_core.promises import Promises
from tactful_core.sampling import Randomness
from tactful_core.scoring import Evidence
from tactful_core.values import Position, Secret, SlotName


@dataclass(slots=True)
class EventLog:
    """What happened, oldest first."""

    events: list[str] = field(default_factory=list)

    def around(self, ports: Ports) -> Ports:
        """The same ports, each of whose uses becomes an event."""
        return replace(
            ports,
            charges=_LoggedCharges(ports.charges, self.events),
            memory=_LoggedRows(ports.memory, self.events),
            scorer=_LoggedScorer(ports.scorer, self.events),
            randomness=_LoggedRandomness(ports.randomness, self.events),
            notices=_LoggedNotices(ports.notices, self.events),
        )


@dataclass(frozen=True, slots=True)
class _LoggedCharges:
    inner: ChargeStore
    events: list[str]

    def snapshot(self) -> Ledger | UnreadableLedger:
        return self.inner.snapshot()

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        admission = await self.inner.admit(charge, promises)
        self.events.append("charge written" if isinstance(admission, Admitted) else "refused")
        return admission

    async def record(self, entry: UnprotectedRead | ViewReleased) -> bool:
        written = await self.inner.record(entry)
        kind = "view" if isinstance(entry, ViewReleased) else "read"
        self.events.append(f"{kind} recorded" if written else f"{kind} not recorded")
        return written


@dataclass(frozen=True, slots=True)
class _LoggedRows:
    inner: MemoryReader
    events: list[str]

    async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
        self.events.append("rows opened")
        return await self.inner.open_rows(read_set)


@dataclass(frozen=True, slots=True)
class _LoggedScorer:
    inner: Scorer
    events: list[str]

    async def relevance(self, query: str, slot: Slot) -> tuple[float, ...]:
        self.events.append("relevance found")
        return await self.inner.relevance(query, slot)

    async def evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        self.events.append("rows scored")
        return await self.inner.evidence(slot, rows)


@dataclass(frozen=True, slots=True)
class _LoggedRandomness:
    inner: Randomness
    events: list[str]

    def below(self, limit: int) -> int:
        self.events.append("view drawn")
        return self.inner.below(limit)


@dataclass(frozen=True, slots=True)
class _LoggedNotices:
    inner: OwnerNotices
    events: list[str]

    def scoring_failed(self, slot: SlotName) -> None:
        self.events.append("owner told")
        self.inner.scoring_failed(slot)
