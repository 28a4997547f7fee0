"""What the host knows of one app: its conditions, its state, and the child that runs.

Decides nothing but what belongs together, and that every change of state is seen by whoever waits.
What is *not* here: when a state is entered (`host`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from tactful.peer import Peer
from tactful.wire import SettingGiven
from tactful_core.values import AppId
from tactfuld.apps.child import Child
from tactfuld.apps.folders import FolderGrant, OpenFolder


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the owner decided for one app.

    Attributes:
        folders: what the policy opens to it.
        settings: what the owner set of its settings.
    """

    folders: tuple[FolderGrant, ...] = ()
    settings: tuple[SettingGiven, ...] = ()


NO_CONDITIONS = Conditions()


@dataclass(frozen=True, slots=True)
class AppState:
    """What the owner is shown; `problem` is a whole sentence."""

    state: Literal["running", "stopped", "parked"]
    problem: str | None = None


class Life:
    """A running child and its connection.

    Attributes:
        begun: set when the child takes events, or never will.
        over: set when the app's state says how the life ended.
        hangs: set when the child does not answer any more.
        last_words: a sentence about how it ended, if more than its status is known.
    """

    def __init__(self, child: Child, peer: Peer) -> None:
        self.child = child
        self.peer = peer
        self.last_words = ""
        self.begun = asyncio.Event()
        self.over = asyncio.Event()
        self.hangs = asyncio.Event()


class Hosted:
    """What the host knows of one app.

    Attributes:
        folders: those of its conditions, once they were looked at.
        life: while a child runs.
        begun: set when the app has run or was parked for the first time.
        turn: held while an event is handled.
    """

    def __init__(self, app: AppId, conditions: Conditions) -> None:
        self.app = app
        self.conditions = conditions
        self.folders: tuple[OpenFolder, ...] = ()
        self.state = AppState("stopped")
        self.task: asyncio.Task[None] | None = None
        self.life: Life | None = None
        self.begun = asyncio.Event()
        self.turn = asyncio.Lock()

    def runs(self, life: Life) -> None:
        """A child runs."""
        self.life = life
        self.state = AppState("running")
        self.begun.set()

    def enter(self, state: AppState) -> None:
        """No child runs any more, or none ever did."""
        self.state = state
        if self.life is not None:
            self.life.over.set()
            self.life.begun.set()
            self.life = None
        self.begun.set()

    def sentence(self) -> str:
        return self.state.problem or f"The app {self.app} is not running yet. Try again."
