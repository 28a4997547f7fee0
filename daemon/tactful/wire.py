"""What apps may say and hear: one typed request and one typed reply a method (docs/protocol.md).

Decides names and types, and what every message has in common, nothing else. What is *not* here: the
owner's methods (`owner_wire`), framing (`framing`), the connection (`peer`), what a method does
(`tactfuld.server`).

Invariants:

- unknown fields are refused; text has a bounded length;
- nothing in an app's replies is an attribute, a cap, a charge, a score or a layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt

PROTOCOL = 1

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
ThreadName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
QueryText = Annotated[str, Field(min_length=1, max_length=2000)]
Slots = Annotated[tuple[Name, ...], Field(max_length=32)]
Detail = Literal["views", "fused"]
"""What conditions the text of an answer: released views, or views and memory (GUARANTEE §5)."""
SettingText = Annotated[str, Field(max_length=500)]


class Message(BaseModel):
    """Base of everything on the wire.

    Pydantic's cache of strings would keep short memories and passphrases for as long as it likes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="keys")

    refused: ClassVar[Mapping[str, str]] = {}
    """Fields that programs may look for here, and why there are none: whole sentences."""


class AppMethod(StrEnum):
    """What an app may call."""

    AUTHENTICATE = "authenticate"
    ASK = "ask"
    BUDGET = "budget"
    QUOTE = "quote"
    VOCABULARY = "vocabulary"
    NOTIFY = "notify"
    PROPOSE = "propose"
    SEND = "send"


class HostedMethod(StrEnum):
    """What the daemon calls on a hosted app: `start` once, before any event; `ping` at any time."""

    START = "start"
    EVENT = "event"
    PING = "ping"


class Notification(StrEnum):
    """Messages without a reply, in either direction."""

    PROGRESS = "notifications/progress"
    CANCELLED = "notifications/cancelled"
    TURN = "notifications/turn"


class Empty(Message):
    """No parameters, or a reply that says only that it was done."""


class Authenticate(Message):
    """`token` is an app's token on `app.sock`, the owner's secret on `owner.sock`."""

    protocol: Literal[1] = 1
    token: Annotated[str, Field(min_length=1, max_length=200)]


class Progress(Message):
    """A piece of the answer to the request with this id."""

    request: int | str
    text: str


class CancelledNotice(Message):
    """The sender no longer wants the reply to the request with this id."""

    request: int | str


class Ask(Message):
    """A question; `slots` narrows what the router may activate, `None` leaves it to the router.

    `thread` names one of the app's conversations: earlier turns of it come before the question.
    Without it the question stands alone. `detail` is what the text may be drawn from; where nothing
    is left to fuse with, the answer is one of views.
    """

    refused: ClassVar[Mapping[str, str]] = {
        "logprobs": "`logprobs` is not offered: likelihoods would show how far memory moved them",
        "n": "`n` is not offered: an answer is drawn once; ask again for another one, at its price",
        "best_of": "`best_of` is not offered: a draft that is thrown away is charged as well",
        "seed": "`seed` is not offered: tokens are drawn by chance that nobody can repeat",
    }

    query: QueryText
    slots: Slots | None = None
    thread: ThreadName | None = None
    detail: Detail = "views"


class ReleasedView(Message):
    """The view that conditioned an answer, of one granted slot."""

    slot: str
    view: str


class Answer(Message):
    """The whole answer, its views, an opaque version of the policy, and what the text came from."""

    text: str
    views: tuple[ReleasedView, ...]
    policy: str
    detail: Detail = "views"


class AnswerKind(StrEnum):
    """What an answer about a slot would be shaped by now."""

    FRESH = "fresh"
    STANDING = "standing"
    GENERIC = "generic"


class SlotBudget(Message):
    """What is left for one slot: how many fresh answers; None where nothing is used up."""

    slot: str
    answer: AnswerKind
    fresh_left: int | None


class Budget(Message):
    """Every granted slot (`budget`), or those that a question would activate (`quote`)."""

    slots: tuple[SlotBudget, ...]


class OfferedView(Message):
    """A view of a slot's public vocabulary, and the sentence that the model is given for it."""

    view: str
    guidance: str


class SlotVocabulary(Message):
    """The views that an answer about one granted slot may be shaped by; the generic one first."""

    slot: str
    views: tuple[OfferedView, ...]


class Vocabulary(Message):
    """Every granted slot, and the version of the policy that these views are of."""

    slots: tuple[SlotVocabulary, ...]
    policy: str


class Notify(Message):
    """Something for the owner to read; `title` in a line above it, if there is one."""

    text: Annotated[str, Field(min_length=1, max_length=1000)]
    title: Annotated[str, Field(max_length=80)] = ""


class Propose(Message):
    """A text that the owner might want to remember about a granted slot."""

    text: QueryText
    slot: Name


class Send(Message):
    """A text for another app, which hears of it if the policy lets it hear this one."""

    app: Name
    text: QueryText


class EventKind(StrEnum):
    """What happens that an app may react to; never caused by memory."""

    MESSAGE = "message"
    TIMER = "timer"
    FILE = "file"
    APP = "app"
    BUDGET = "budget"
    POLICY = "policy"


class FileChange(StrEnum):
    """What happened to a file in a granted folder; `MANY`: more than are told one by one."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    MANY = "many"


class Event(Message):
    """Something happened. Which fields are set depends on its kind; the others are empty.

    Attributes:
        id: counts an app's events, from 1; an event that comes again has the id that it had. 0 for
            a message of the owner's, which comes once.
        at: when it happened, in seconds since 1970; of a timer: for when it was set.
        text: what the owner (`message`) or another app (`app`) said.
        timer: the timer's name in the policy (`timer`).
        sender: the app that said it (`app`).
        path, change: the file, or the folder, and what happened to it (`file`).
        slot, fresh_left: how many fresh answers are left for which slot (`budget`).
        policy: the opaque version that is in force now (`policy`).
    """

    kind: EventKind
    id: int = 0
    at: int = 0
    text: Annotated[str, Field(max_length=2000)] = ""
    timer: Name | None = None
    sender: Name | None = None
    path: Annotated[str, Field(max_length=4096)] | None = None
    change: FileChange | None = None
    slot: Name | None = None
    fresh_left: int | None = None
    policy: Annotated[str, Field(max_length=64)] | None = None


class SettingGiven(Message):
    """What the owner set one of the app's settings to."""

    key: Name
    value: StrictBool | StrictInt | StrictFloat | SettingText


class FolderGiven(Message):
    """A folder that the app may open, by its whole path; to write in it only if `writable`."""

    path: Annotated[str, Field(min_length=1, max_length=4096)]
    writable: bool


class Begin(Message):
    """What a hosted app is started with: the owner's settings, and the folders it was granted."""

    settings: Annotated[tuple[SettingGiven, ...], Field(max_length=64)] = ()
    folders: Annotated[tuple[FolderGiven, ...], Field(max_length=64)] = ()
