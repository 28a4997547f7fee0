"""What apps and front ends import: wire types, the async client, hooks, errors, and the CLI.

`from tactful import hookimpl, Agent` and the like works; what is named there is loaded when it is
asked for, so that a program which needs none of it loads none of it.

Nothing here holds domain logic, and nothing here imports the daemon or the trusted base.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tactful.agent import Agent
    from tactful.hooks import hookimpl
    from tactful.manifest import FolderWish, Manifest, Setting
    from tactful.wire import Event, EventKind

__all__ = ["Agent", "Event", "EventKind", "FolderWish", "Manifest", "Setting", "hookimpl"]

_MODULES = {
    "Agent": "agent",
    "Event": "wire",
    "EventKind": "wire",
    "FolderWish": "manifest",
    "Manifest": "manifest",
    "Setting": "manifest",
    "hookimpl": "hooks",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
