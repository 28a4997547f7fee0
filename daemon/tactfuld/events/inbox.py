"""The owner's inbox: what apps wanted them to read, and memories that apps suggest.

Decides what is kept, how much of it, and how. What is *not* here: who may put something there
(`tactfuld.server.outlet_methods`), and what the owner does about it.

The file lies in the state folder, open to nobody else, and is not sealed: what is in it is an app's
own, which it may as well have written to its own folder beside it.

Invariants:

- at most `MOST_ITEMS` of each app: the oldest gives way, so no app can push out another's;
- nothing that an app gets, nor when, depends on what is in it or on its file: an item is put in at
  once and written afterwards, so a crash can lose those of the last moment;
- the file is replaced whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from structlog.typing import FilteringBoundLogger

from tactful_core.values import AppId, SlotName
from tactfuld.events.whole import Keeping
from tactfuld.store.whole_file import replace_file

INBOX_FILE = "inbox.json"
MOST_ITEMS = 100
"""Of one app."""


class ItemKind(StrEnum):
    """A notice is to be read, a proposal to be taken over or thrown away."""

    NOTICE = "notice"
    PROPOSAL = "proposal"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in the inbox.

    Attributes:
        id: from 1; never given twice, as long as the file is there.
        at: seconds since 1970.
        slot: what a proposal is about; `None` for a notice.
    """

    id: int
    kind: ItemKind
    app: AppId
    at: int
    title: str
    text: str
    slot: SlotName | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """What is there, oldest first, and the id that was given last."""

    items: tuple[Item, ...] = ()
    last: int = 0


def with_item(before: Contents, item: Item) -> Contents:
    """With one more, under a new id, and without the oldest of its app if there are too many.

    What is there already, word for word, is not added again.
    """
    own = [each for each in before.items if each.app == item.app]
    if any(replace(each, id=0, at=0) == replace(item, id=0, at=0) for each in own):
        return before
    gone = {each.id for each in own[: max(0, len(own) + 1 - MOST_ITEMS)]}
    kept = tuple(each for each in before.items if each.id not in gone)
    return Contents((*kept, replace(item, id=before.last + 1)), before.last + 1)


def without(before: Contents, ids: Collection[int]) -> Contents:
    """Without those that have these ids."""
    return replace(before, items=tuple(each for each in before.items if each.id not in ids))


class Inbox:
    """The inbox, and its file."""

    def __init__(
        self,
        file: Path,
        contents: Contents,
        journal: FilteringBoundLogger,
        shown: Callable[[Item], None],
    ) -> None:
        self._contents = contents
        self._journal = journal
        self._shown = shown
        self._changed = asyncio.Event()
        write = partial(replace_file, file, durably=True)
        self._keeping = Keeping(lambda: _written(self._contents), write)

    @classmethod
    def load(
        cls,
        file: Path,
        journal: FilteringBoundLogger,
        shown: Callable[[Item], None] = lambda _item: None,
    ) -> Inbox:
        """The inbox in a file, an empty one if there is none; reads, so call it in a thread.

        A file that is damaged is put aside under another name.

        Args:
            shown: is told of each item that is new.
        """
        return cls(file, _read(file, journal), journal, shown)

    @property
    def items(self) -> tuple[Item, ...]:
        """Oldest first."""
        return self._contents.items

    def add(self, item: Item) -> None:
        """Puts something in; `run` writes it."""
        before, self._contents = self._contents, with_item(self._contents, item)
        if self._contents is not before:
            self._change()
            self._shown(self._contents.items[-1])

    def remove(self, ids: Collection[int]) -> tuple[int, ...]:
        """Takes items out; the ids that were there."""
        found = tuple(item.id for item in self._contents.items if item.id in ids)
        if found:
            self._contents = without(self._contents, ids)
            self._change()
        return found

    async def run(self) -> None:
        """Writes what has changed, until it is cancelled; then once more."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._keep()
        finally:
            await self._keep()

    def _change(self) -> None:
        self._keeping.change()
        self._changed.set()

    async def _keep(self) -> None:
        try:
            await self._keeping.keep()
        except OSError as problem:
            self._journal.warning("inbox_not_kept", errno=problem.errno)


class _Item(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: Annotated[int, Field(ge=1)]
    kind: str
    app: str
    at: int
    title: str
    text: str
    slot: str | None


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    last: Annotated[int, Field(ge=0)]
    items: list[_Item]


def _written(contents: Contents) -> bytes:
    items = [
        _Item(
            id=item.id,
            kind=str(item.kind),
            app=item.app,
            at=item.at,
            title=item.title,
            text=item.text,
            slot=item.slot,
        )
        for item in contents.items
    ]
    return _Record(last=contents.last, items=items).model_dump_json().encode()


def _read(file: Path, journal: FilteringBoundLogger) -> Contents:
    try:
        record = _Record.model_validate_json(file.read_bytes())
        return Contents(tuple(_item(each) for each in record.items), record.last)
    except FileNotFoundError:
        return Contents()
    except (OSError, ValidationError, ValueError):
        journal.warning("inbox_damaged")
        if file.exists():
            file.replace(file.with_suffix(".damaged"))
        return Contents()


def _item(each: _Item) -> Item:
    return Item(
        id=each.id,
        kind=ItemKind(each.kind),
        app=AppId(each.app),
        at=each.at,
        title=each.title,
        text=each.text,
        slot=None if each.slot is None else SlotName(each.slot),
    )
