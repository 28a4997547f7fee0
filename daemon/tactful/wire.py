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


class HostedMethod(StrEnum):
    """What the daemon calls on a hosted app: `start` once, before any event."""

    START = "start"
    EVENT = "event"


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


class EventKind(StrEnum):
    """What happens that an app may react to; never caused by memory."""

    MESSAGE = "message"


class Event(Message):
    """Something happened: the owner sent the app a message."""

    kind: EventKind
    text: QueryText


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
