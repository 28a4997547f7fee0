"""What an app says about itself: its name, and what it asks for.

Decides the form of a manifest. What is *not* here: what an app gets, which only the policy says; a
manifest asks and grants nothing.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from tactful.wire import EventKind, Message, Name


def _one_printable_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line without control characters.")
    return text


Line = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_one_printable_line)]


class Manifest(Message):
    """An app's own statement, returned by its hook `tactful_manifest`.

    Attributes:
        name: what the policy, the command line and the entry point call the app.
        title: what people read.
        version: the app's own version.
        slots: the topics it would like to ask about.
        events: the kinds of events it takes; the daemon delivers no others.
    """

    name: Name
    title: Line
    version: Line
    slots: Annotated[tuple[Name, ...], Field(max_length=32)] = ()
    events: tuple[EventKind, ...] = ()
