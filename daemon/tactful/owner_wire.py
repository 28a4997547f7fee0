"""What the owner's tools may say and hear: one typed request and reply a method (docs/protocol.md).

Decides names and types, nothing else. What is *not* here: what apps may say (`wire`), what a method
does (`tactfuld.server`).

Invariant: `OwnerMethod` shares nothing with `wire.AppMethod` but `authenticate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from tactful.wire import Ask, Detail, Message, Name, QueryText, Slots, ThreadName

ShelfPath = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}\.[a-z][a-z0-9_]{0,39}$")]
MemoryText = Annotated[str, Field(min_length=1, max_length=8000)]


class OwnerMethod(StrEnum):
    """What the owner's tools may call."""

    AUTHENTICATE = "authenticate"
    STATUS = "status"
    STOP = "stop"
    LOCK = "lock"
    UNLOCK = "unlock"
    RELOAD = "reload"
    KEYS_ROTATE = "keys.rotate"
    DOCTOR = "doctor"
    POLICY_APPLY = "policy.apply"
    REMEMBER = "remember"
    MEMORY_PROPOSE = "memory.propose"
    MEMORY_LIST = "memory.list"
    MEMORY_SHOW = "memory.show"
    MEMORY_EDIT = "memory.edit"
    MEMORY_MOVE = "memory.move"
    MEMORY_FORGET = "memory.forget"
    MEMORY_SEARCH = "memory.search"
    MEMORY_SUGGEST = "memory.suggest"
    POLICY_LINT = "policy.lint"
    LEDGER = "ledger"
    EPOCH_SHOW = "epoch.show"
    EPOCH_NEW = "epoch.new"
    EPOCH_HISTORY = "epoch.history"
    AUDIT_DISTANCE = "audit.distance"
    AUDIT_REPLAY = "audit.replay"
    ASK_OWNER = "ask.owner"
    ASK_AS = "ask.as"
    TELL = "tell"
    HISTORY_LIST = "history.list"
    HISTORY_SHOW = "history.show"
    HISTORY_FORGET = "history.forget"
    INBOX_LIST = "inbox.list"
    INBOX_REMOVE = "inbox.remove"
    EVENTS_TAIL = "events.tail"
    APPS_LIST = "apps.list"
    APPS_GRANT = "apps.grant"
    APPS_REVOKE = "apps.revoke"
    APPS_RESTART = "apps.restart"


class GpuStatus(Message):
    """Whether llama.cpp can use a GPU here, and where it put the model's layers.

    `offloaded`: whether any is on a GPU. `place`: the devices' names, or the processor.
    """

    supported: bool
    offloaded: bool
    layers: int = 0
    offloaded_layers: int = 0
    place: str = "the processor"


class ModelStatus(Message):
    """`state` is loading, ready, asleep, paused or failed (docs/models.md).

    `progress` is in [0, 1]. `memory_bytes` is what weights and caches take; it and `gpu` are null
    unless the model is loaded. `answers_from`: the host that apps are answered from, null for this
    machine.
    """

    name: str
    state: str
    progress: float
    problem: str | None = None
    gpu: GpuStatus | None = None
    memory_bytes: int | None = None
    answers_from: str | None = None


class AppStatus(Message):
    """An app: hosted (`running`, `stopped`, `parked`), named by the policy and not installed
    (`outside`), or installed and not granted anything (`disabled`)."""

    app: str
    slots: tuple[str, ...]
    state: str
    problem: str | None = None


class StagedPolicy(Message):
    """What of the policy file, as it is written, is not in force.

    `written`: its digest. `at_tick`: dotted keys that change at the next tick, at `tick_at`
    (seconds since 1970). `at_epoch`: dotted keys that change in a new epoch. `other_shelves`:
    nothing of it holds but what it takes away from apps. `at_once`: in this epoch the owner put a
    policy in force at once, which is outside of the promise.
    """

    written: str
    at_tick: tuple[str, ...]
    tick_at: int
    at_epoch: tuple[str, ...]
    other_shelves: bool
    at_once: bool


class PolicyApply(Message):
    """Puts the policy file in force at once; `written` is the digest that the owner was shown."""

    written: Annotated[str, Field(min_length=1, max_length=64)]


class Status(Message):
    """What the daemon is doing; while it is locked, nothing about memory, apps and the model.

    `ready`: the owner's questions are answered, or will be once the model is loaded again.
    `resident_bytes`: how much of the machine's memory the daemon has, null where it is not told.
    `inbox`: how many things apps have put there.
    """

    locked: bool = False
    version: str
    pid: int
    ready: bool
    profile: str
    key_source: str
    sandbox: str
    policy: str
    positions: int
    model: ModelStatus
    apps: tuple[AppStatus, ...]
    notices: tuple[str, ...]
    staged: StagedPolicy | None = None
    resident_bytes: int | None = None
    inbox: int = 0


class Unlock(Message):
    """`passphrase` where the key follows from one."""

    passphrase: Annotated[str, Field(min_length=1, max_length=4096)] | None = None

    def __repr__(self) -> str:
        return "Unlock(…)"


class Reloaded(Message):
    """What a look at settings.yaml and policy.yaml found.

    `waiting`: settings that hold from the next start on. `settings_problem`: why the settings file
    was not taken over. `policy_problem`: what is wrong with the policy file, which then changes
    nothing. `policy_waits`: what of the policy file is not in force yet, and when it will be.
    """

    waiting: tuple[str, ...]
    settings_problem: str | None
    policy_problem: str | None
    policy_waits: str | None


class KeysRotated(Message):
    """Which data keys were replaced."""

    rotated: tuple[str, ...]


class DoctorCheck(Message):
    """One line of a report: `state` is ok, problem, unknown or not_applicable (docs/doctor.md)."""

    name: str
    state: str
    detail: str
    advice: str


class DoctorReply(Message):
    """What the running daemon finds when it looks itself over."""

    checks: tuple[DoctorCheck, ...]


class Remember(Message):
    """A text for a shelf (`slot.shelf`); `position` chooses one, else the first empty one.

    With `split`, a text that is longer than a position is parted between sentences, as
    `memory.propose` shows, and the parts go to the next empty positions of the same shelf.
    """

    text: MemoryText
    shelf: ShelfPath
    position: int | None = None
    split: bool = False


class CoverageWarning(Message):
    """Attributes that a text seems to imply, or may, and that do not cover its shelf.

    `better`: the likeliest shelf that they cover, and all that covers this one; null without one.
    """

    likely: tuple[str, ...]
    possible: tuple[str, ...]
    better: str | None


class Remembered(Message):
    """Where it went, and what is to be said about it standing there."""

    positions: tuple[int, ...]
    shelf: str
    warning: CoverageWarning | None = None


class MemoryPropose(Message):
    """A text; `shelf` if the owner has chosen one already and asks only how it fits."""

    text: MemoryText
    shelf: ShelfPath | None = None


class ShelfChoice(Message):
    """A shelf for a text: `free` of its `positions` are empty; `parts` are what each would hold.

    `parts` is empty where a sentence of the text is longer than a position.
    """

    shelf: str
    positions: int
    free: int
    tokens: int
    covered_by: tuple[str, ...]
    parts: tuple[str, ...]
    warning: CoverageWarning | None = None


class Proposal(Message):
    """Shelves for the text, the likeliest first; the one that was named, if one was."""

    choices: tuple[ShelfChoice, ...]


class MemoryOf(Message):
    """Whose memories to list: those of one shelf, or all."""

    shelf: ShelfPath | None = None


class MemoryAt(Message):
    """One memory."""

    position: int


class MemoryEdit(Message):
    """Another text for a memory."""

    position: int
    text: MemoryText


class MemoryMove(Message):
    """A memory, and the shelf that it is to stand on."""

    position: int
    shelf: ShelfPath


class Moved(Message):
    """Where a memory stands now; `joined`: the attributes that cover it and did not before."""

    position: int
    shelf: str
    joined: tuple[str, ...]


class MemoryForget(Message):
    """What to forget, in exactly one way: memories by position, those of a shelf, or all."""

    positions: Annotated[tuple[int, ...], Field(min_length=1, max_length=10_000)] | None = None
    shelf: ShelfPath | None = None
    everything: bool = False


class MemorySearch(Message):
    """Words, and at most how many memories to show."""

    words: QueryText
    limit: Annotated[int, Field(ge=1, le=500)] = 10


class MemoryFound(Message):
    """Memories, the best first."""

    items: tuple[MemoryItem, ...]


class MemorySuggestion(Message):
    """A memory that would stand better on `better`; `joining` would then cover it as well."""

    item: MemoryItem
    better: str
    joining: tuple[str, ...]


class MemorySuggestions(Message):
    """In order of position."""

    suggestions: tuple[MemorySuggestion, ...]


class LintFinding(Message):
    """A memory with what is to be said about it standing where it does."""

    item: MemoryItem
    warning: CoverageWarning


class LintReply(Message):
    """In order of position; `looked_for` and `unknown` are the attributes of the policy."""

    findings: tuple[LintFinding, ...]
    looked_for: tuple[str, ...]
    unknown: tuple[str, ...]


class MemoryItem(Message):
    """A full position; `written_at` in seconds since 1970."""

    position: int
    shelf: str
    text: str
    written_at: int


class MemoryList(Message):
    """Full positions, and their shelves with their public capacity."""

    items: tuple[MemoryItem, ...]
    shelves: tuple[ShelfInfo, ...]


class ShelfInfo(Message):
    """A shelf: positions, how many are full, capacity of each, attributes that cover it."""

    shelf: str
    positions: tuple[int, ...]
    full: int
    tokens: int
    covered_by: tuple[str, ...]


class FusedLine(Message):
    """An attribute's fused text, as epsilons at `delta`; what is reserved counts as drawn.

    `epsilon`: the most that the policy allows in an epoch; null where it allows none any more.
    `promised`: the larger of that and `spent`, or `spent` where this epoch fuses no text.
    `odds`, `promised_odds`, `lifetime_odds`: how far the same moves log-odds, except with a
    probability of `delta`. `draws_left`: how many tokens more, if one private context each touches
    the attribute.
    """

    delta: float
    spent: float
    epsilon: float | None
    promised: float
    lifetime: float
    odds: float
    promised_odds: float
    lifetime_odds: float
    draws_left: int


class LedgerLine(Message):
    """One attribute's account, in epsilon; `closed` if no slot's next charge would fit.

    `promised` is the larger of cap and spent: what holds for the open epoch, even if the cap was
    lowered meanwhile. `exposed`: shelves that now imply the attribute were read without protection
    in this epoch. `fused`: null where no text may be fused from it, and none ever was.
    """

    attribute: str
    spent: float
    cap: float
    promised: float
    lifetime: float
    closed: bool
    exposed: bool
    fused: FusedLine | None = None


class LedgerReply(Message):
    """Every ledger; `readable` is false if it is damaged and everything counts as exhausted."""

    epoch: int
    readable: bool
    lines: tuple[LedgerLine, ...]


class EpochLine(Message):
    """An attribute's lifetime bound, in epsilon: as it is, and after a new epoch was opened.

    Both add what the open epoch may still cost to what earlier ones did. `lifetime_after` is null
    where the policy that would then be in force does not protect the attribute any more.
    `fused_now` and `fused_after`: how much further fused text of all epochs may move log-odds,
    except with a probability of `delta`; 0 where there is none.
    """

    attribute: str
    lifetime_now: float
    lifetime_after: float | None
    fused_now: float = 0.0
    fused_after: float = 0.0
    delta: float = 0.0


class EpochReply(Message):
    """The open epoch; `renewal` is manual, weekly or monthly."""

    epoch: int
    renewal: str
    lines: tuple[EpochLine, ...]
    staged: StagedPolicy


class EpochNew(Message):
    """Opens an epoch; `after` is the one that the owner saw open, so that one wish opens one."""

    after: int


class EpochSums(Message):
    """What one epoch cost each attribute, in epsilon, by today's shelves.

    `fused`: what fused text cost besides, at the delta of the policy.
    """

    epoch: int
    spent: dict[str, float]
    fused: dict[str, float] = Field(default_factory=dict)


class EpochHistory(Message):
    """All epochs, oldest first."""

    epochs: tuple[EpochSums, ...]


class AuditDistance(Message):
    """Two memories that differ at these positions."""

    positions: Annotated[tuple[int, ...], Field(min_length=1, max_length=100_000)]


class FusedDistance(Message):
    """What fused text of the open epoch tells apart, in epsilon at `delta`; None means infinity."""

    afterwards: float | None
    delta: float


class Distance(Message):
    """How far all views can tell the two apart, in epsilon (DP-MemView, Corollary 1).

    `beforehand` is promised, by the attributes in `cover`; `afterwards` is what really was released
    in the open epoch. None means infinity. `fused` comes on top of `afterwards`; it is null where
    the epoch has fused no text.
    """

    beforehand: float | None
    cover: tuple[str, ...]
    afterwards: float | None
    fused: FusedDistance | None = None


class Replay(Message):
    """Whether all entries, read anew, give the sums that the daemon works with."""

    entries: int
    matches: bool


class AskOwner(Message):
    """A question of the owner's own, answered from all of memory."""

    question: MemoryText


class OwnersAnswer(Message):
    """The whole answer, and how many of how many memories it was written from."""

    text: str
    read: int
    remembered: int


class AskAs(Message):
    """A question that the owner asks as an app; the rest as in the app's own `ask`."""

    refused: ClassVar[Mapping[str, str]] = Ask.refused

    app: Name
    query: QueryText
    slots: Slots | None = None
    thread: ThreadName | None = None
    detail: Detail = "views"


class Tell(Message):
    """A message from the owner to a hosted app."""

    app: Name
    text: QueryText


class Selection(Message):
    """What one slot contributed to a turn; for the owner's eyes.

    `reason` says why nobody was charged; it is `None` where somebody was.
    """

    slot: str
    view: str
    epsilon: float
    charged: tuple[str, ...]
    fallback: bool
    reason: str | None = None


class FusedText(Message):
    """What the text of a turn cost that was asked for with `detail: fused`.

    `draws` of the `reserved` ones were made with memory, and each was charged to the attributes in
    `charged`; `free` ones came from the public row, which was certain. `reason` says why none could
    be fused, and is `None` where it could.
    """

    cells: int
    charged: tuple[str, ...]
    reserved: int
    draws: int
    free: int
    seconds: float
    reason: str | None = None


class Turn(Message):
    """One turn of an app as the owner sees it; `fused` where it was asked for fused text."""

    turn: int
    app: str
    query: str
    selections: tuple[Selection, ...]
    answer: str
    fused: FusedText | None = None


class TurnStarted(Message):
    """Sent to the owner while `tell` or `ask.as` (the request with this id) runs: views are chosen.

    The answer's pieces follow as `Progress` notifications for the same request.
    """

    request: int | str
    turn: int
    app: str
    query: str
    selections: tuple[Selection, ...]


class TellReply(Message):
    """The turns that the app took because of the message."""

    turns: tuple[Turn, ...]


class HistoryList(Message):
    """The newest turns that are kept: of all apps, of one app, or of one of its threads."""

    app: Name | None = None
    thread: ThreadName | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 20


class HistoryView(Message):
    """The view that conditioned an answer for one slot; `fallback` if nothing could be charged."""

    slot: str
    view: str
    fallback: bool


class HistoryItem(Message):
    """A turn in a list; `beginning` is how its answer begins.

    `at` is in seconds since 1970. `complete` is false for an answer that was cancelled or failed:
    what is kept is what was released of it.
    """

    id: int
    app: str
    thread: str | None
    at: int
    query: str
    views: tuple[HistoryView, ...]
    beginning: str
    complete: bool


class HistoryListReply(Message):
    """Newest first."""

    turns: tuple[HistoryItem, ...]


class HistoryShow(Message):
    """One turn."""

    id: int


class HistoryTurn(Message):
    """A whole turn, as `HistoryItem` has it but for the answer."""

    id: int
    app: str
    thread: str | None
    at: int
    query: str
    views: tuple[HistoryView, ...]
    answer: str
    complete: bool


class HistoryForget(Message):
    """What to forget, in exactly one way: turns by id, an app's or one of its threads', or all."""

    ids: Annotated[tuple[int, ...], Field(min_length=1, max_length=10_000)] | None = None
    app: Name | None = None
    thread: ThreadName | None = None
    everything: bool = False


class Forgotten(Message):
    """How many turns or memories were forgotten."""

    forgotten: int


class InboxItem(Message):
    """Something from an app: `kind` is notice or proposal; `slot` is what a proposal is about.

    `at` is in seconds since 1970.
    """

    id: int
    kind: str
    app: str
    at: int
    title: str
    text: str
    slot: str | None


class InboxReply(Message):
    """All of the inbox, oldest first."""

    items: tuple[InboxItem, ...]


class InboxRemove(Message):
    """What to take out of the inbox, in one way; apps are told nothing of it."""

    ids: Annotated[tuple[int, ...], Field(min_length=1, max_length=10_000)] | None = None
    everything: bool = False


class InboxRemoved(Message):
    """The items that were there and are not any more."""

    removed: tuple[int, ...]


class EventsTail(Message):
    """Asks for the records after that number; `seconds`: for how long to wait for one."""

    after: Annotated[int, Field(ge=0)] = 0
    seconds: Annotated[float, Field(ge=0, le=60)] = 0


class EventLine(Message):
    """One thing that happened to an event: `fate` is waiting, handled, failed, again or dropped.

    `about`: the timer, path, app or slot that it is about. `at` is in seconds since 1970.
    """

    number: int
    at: int
    app: str
    id: int
    kind: str
    about: str
    fate: str


class EventsReply(Message):
    """Oldest first; none if nothing happened in time."""

    events: tuple[EventLine, ...]


class AppsList(Message):
    apps: tuple[AppStatus, ...]


class AppName(Message):
    app: Name


class AppToken(Message):
    """A new token for an outside program; shown once, kept only as a hash."""

    app: str
    token: str


for _kind in (MemoryList, MemoryFound, MemorySuggestion, MemorySuggestions, LintFinding, LintReply):
    _kind.model_rebuild()
