"""What an app says about itself: its name, what it asks for, and which settings it has.

Decides the form of a manifest and of a setting. What is *not* here: what an app gets, which only
the policy says; a manifest asks and grants nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt, model_validator

from tactful.wire import EventKind, Message, Name, SettingText

SettingValue = StrictBool | StrictInt | StrictFloat | SettingText
"""What a setting can hold: yes or no, a number, or one line of text."""


def _one_printable_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line without control characters.")
    return text


Line = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_one_printable_line)]


class FolderWish(Message):
    """A folder that the app would like to open; which one it is, the owner says.

    Attributes:
        purpose: what for, as people read it: "recipes to choose from".
        mode: whether it only reads there.
    """

    purpose: Line
    mode: Literal["read", "write"] = "read"


class Setting(Message):
    """A switch of the app that the owner can set; its default says what it holds.

    Attributes:
        key: its name on the command line and in `settings.yaml`.
        title: what people read.
        default: what it is where the owner set nothing. A value must be of the same kind: yes or
            no, a whole number, a number, or a line of text.
        choices: the texts that it may be; any text if there are none.
    """

    key: Name
    title: Line
    default: SettingValue
    choices: Annotated[tuple[Line, ...], Field(max_length=32)] = ()

    @model_validator(mode="after")
    def _default_is_a_choice(self) -> Self:
        if self.choices and self.default not in self.choices:
            raise ValueError("the default must be one of the choices.")
        return self

    def refusal(self, value: SettingValue) -> str | None:
        """Why the setting cannot have this value, as what it must be instead; `None` if it can."""
        if self.choices:
            return None if value in self.choices else f"must be one of {', '.join(self.choices)}"
        if isinstance(self.default, bool) or isinstance(value, bool):
            fits = isinstance(self.default, bool) and isinstance(value, bool)
        elif isinstance(self.default, float):
            fits = isinstance(value, int | float)
        else:
            fits = type(value) is type(self.default)
        return None if fits else f"must be {_KINDS[type(self.default)]}"


_KINDS: dict[type[object], str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


class Manifest(Message):
    """An app's own statement, returned by its hook `tactful_manifest`.

    Attributes:
        name: what the policy, the command line and the entry point call the app.
        title: what people read.
        version: the app's own version.
        slots: the topics it would like to ask about.
        fresh: for some of these topics, how many fresh answers it could use in an epoch.
        events: the kinds of events it takes; the daemon delivers no others.
        timers: when it would like to be told the time, as in crontab, by names of its choice.
        folders: the folders it would like to open.
    """

    name: Name
    title: Line
    version: Line
    slots: Annotated[tuple[Name, ...], Field(max_length=32)] = ()
    fresh: dict[Name, Annotated[int, Field(ge=1, le=1000)]] = Field(default_factory=dict)
    events: tuple[EventKind, ...] = ()
    timers: Annotated[dict[Name, Line], Field(max_length=16)] = Field(default_factory=dict)
    folders: Annotated[tuple[FolderWish, ...], Field(max_length=8)] = ()

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        for field, names in (("slots", self.slots), ("events", self.events)):
            for name in repeated(names):
                raise ValueError(f"{field} names {name} twice.")
        if self.timers and EventKind.TIMER not in self.events:
            raise ValueError("timers needs timer among the events.")
        for name in self.fresh.keys() - set(self.slots):
            raise ValueError(f"fresh names {name}, which is not one of the slots.")
        return self


class Description(Message):
    """All that an app says about itself."""

    manifest: Manifest
    settings: Annotated[tuple[Setting, ...], Field(max_length=64)] = ()


def repeated(names: Iterable[str]) -> list[str]:
    """The names that stand there more than once, each once."""
    return [name for name, times in Counter(names).items() if times > 1]
