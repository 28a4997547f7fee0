"""What an app asks for, beside what the policy grants it: the facts of `tactful apps show`.

Decides how wishes and grants are compared. What is *not* here: what the app asks for (its
manifest), what a policy means (`tactfuld.policy`), editing it (`tactfuld.policy_file`).

A wish is never a grant: what stands in a manifest and not in the policy is not given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from tactful.manifest import Manifest
from tactful_core.promises import Grant, Promises
from tactful_core.values import AppId, SlotName
from tactfuld.policy.document import AppPart, PolicyDocument
from tactfuld.policy.explanation import Release, explained
from tactfuld.policy.promises import promises_of


@dataclass(frozen=True, slots=True)
class SlotWish:
    """A topic that an app asks about.

    Attributes:
        fresh: how many fresh answers it could use in an epoch; `None` if it does not say.
        known: whether the policy has the slot.
        granted: whether it may ask about it.
        release: what a fresh answer costs and how many there can be; `None` where none is drawn.
    """

    slot: str
    fresh: int | None
    known: bool
    granted: bool
    release: Release | None


@dataclass(frozen=True, slots=True)
class EventWish:
    """A kind of events that an app takes."""

    event: str
    granted: bool


@dataclass(frozen=True, slots=True)
class TimerWish:
    """A time that an app would like to be told.

    Attributes:
        cron: when, as the app writes it.
        granted: whether the policy has a timer of that name for it, whatever its time.
    """

    timer: str
    cron: str
    granted: bool


@dataclass(frozen=True, slots=True)
class FolderWished:
    """A folder that an app would like to open, whichever the owner chooses."""

    purpose: str
    mode: str


@dataclass(frozen=True, slots=True)
class Granted:
    """What the policy grants an app."""

    slots: tuple[str, ...]
    events: tuple[str, ...]
    folders: dict[str, str]
    quota: dict[str, float]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What an app asks for."""

    slots: tuple[SlotWish, ...]
    events: tuple[EventWish, ...]
    folders: tuple[FolderWished, ...]
    timers: tuple[TimerWish, ...] = ()


def wishes_of(manifest: Manifest, document: PolicyDocument) -> Wishes:
    """What an app asks for, and what that would mean under a policy."""
    part = document.apps.get(manifest.name, AppPart())
    promises = promises_of(document)
    slots = tuple(
        SlotWish(
            slot=slot,
            fresh=manifest.fresh.get(slot),
            known=slot in document.slots,
            granted=slot in part.slots,
            release=_release(promises, AppId(manifest.name), slot),
        )
        for slot in manifest.slots
    )
    return Wishes(
        slots,
        tuple(EventWish(str(kind), str(kind) in part.events) for kind in manifest.events),
        tuple(FolderWished(folder.purpose, folder.mode) for folder in manifest.folders),
        tuple(TimerWish(name, cron, name in part.timers) for name, cron in manifest.timers.items()),
    )


def granted(part: AppPart) -> Granted:
    """What the policy grants an app."""
    return Granted(
        part.slots,
        part.events,
        {folder: str(mode) for folder, mode in part.folders.items()},
        {name: float(share) for name, share in part.quota.items()},
    )


def more(before: Manifest, after: Manifest) -> tuple[str, ...]:
    """What an app asks for now and did not before, as phrases."""
    found = [f"slot {slot}" for slot in after.slots if slot not in before.slots]
    found += [
        f"{count} fresh answers about {slot}"
        for slot, count in after.fresh.items()
        if count > before.fresh.get(slot, 0)
    ]
    found += [f"events {kind}" for kind in after.events if kind not in before.events]
    found += [f"the timer {name}" for name in after.timers if name not in before.timers]
    had = [(folder.purpose, folder.mode) for folder in before.folders]
    found += [
        f"a folder to {folder.mode}: {folder.purpose}"
        for folder in after.folders
        if (folder.purpose, folder.mode) not in had
    ]
    return tuple(found)


def _release(promises: Promises, app: AppId, slot: str) -> Release | None:
    """As for an app that is granted the slot and has no quota."""
    found = next((each for each in promises.layout.slots if each.name == slot), None)
    if found is None:
        return None
    others = tuple(grant for grant in promises.grants if grant.app != app)
    mine = promises.grant(app)
    alone = Grant(
        app, frozenset({SlotName(slot)}), mine.quota if mine is not None else MappingProxyType({})
    )
    return explained(replace(promises, grants=(*others, alone)), app, found).release
