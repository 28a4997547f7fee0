"""Running the command line as its users do: as a program, with or without a terminal.

`Tactful` runs `tactful` against the stand-in daemon of `fake_tactfuld`, or the installed programs.
"""

import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FAKE = Path(__file__).with_name("fake_tactfuld.py")
WITH_FAKE = (
    "import sys\n"
    "from tactful.cli import main, process\n"
    f"process.daemon_command = lambda: [sys.executable, {str(FAKE)!r}]\n"
    "main.main()\n"
)
INSTALLED = (str(Path(sys.executable).with_name("tactful")),)
"""The installed command, which runs the installed `tactfuld`."""

PATIENCE = 50.0
"""Seconds after which a test gives up waiting; under the limit of one test."""


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        """What stands under `data`, where standard output is one line of JSON."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self
        found = json.loads(lines[0])
        assert list(found) == ["data"], found
        return dict(found["data"])

    @property
    def error(self) -> dict[str, str]:
        """Code and message under `error`, likewise."""
        return {name: told for name, told in self._error().items() if name != "problems"}

    @property
    def problems(self) -> list[dict[str, Any]]:
        """What is wrong with a file, under `error`."""
        return list(self._error()["problems"])

    def _error(self) -> dict[str, Any]:
        lines = self.out.splitlines()
        assert len(lines) == 1, self
        found = json.loads(lines[0])
        assert list(found) == ["error"], found
        return dict(found["error"])


@dataclass
class Tactful:
    """The command, in surroundings of its own."""

    program: Sequence[str] = (sys.executable, "-c", WITH_FAKE)
    environment: dict[str, str] = field(default_factory=dict)
    patience: float = PATIENCE
    preparation: Callable[[], None] | None = None
    """Called in the new process before the program, of `run`."""

    def run(self, *arguments: str, stdin: str = "", **environment: str) -> Result:
        """Runs a command without a terminal."""
        run = subprocess.run(
            [*self.program, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.surroundings(environment),
            timeout=self.patience,
            preexec_fn=self.preparation,
            check=False,
        )
        return Result(run.returncode, run.stdout, run.stderr)

    def json(self, *arguments: str, **environment: str) -> dict[str, Any]:
        """The data of a command that succeeds."""
        result = self.run(*arguments, "--json", **environment)
        assert result.status == 0, result
        return result.data

    def popen(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Starts a command without a terminal, in a process group of its own."""
        return subprocess.Popen(
            [*self.program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.surroundings(environment),
            start_new_session=True,
        )

    def terminal(self, *arguments: str, **environment: str) -> "Terminal":
        """Starts a command on a pseudo-terminal of 80 columns."""
        given = {"TERM": "xterm-256color", **environment}
        return Terminal([*self.program, *arguments], self.surroundings(given), self.patience)

    def surroundings(self, extra: Mapping[str, str]) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM"}
        }
        return {**kept, **self.environment, **extra}


class Terminal:
    """A program on a pseudo-terminal, as somebody who types and reads sees it."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], patience: float
    ) -> None:
        self._ours, theirs = os.openpty()
        self._patience = patience
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._child = subprocess.Popen(
            argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=dict(environment),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads
        )
        os.close(theirs)
        self.seen = ""
        self._from = 0

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
        os.close(self._ours)

    @property
    def text(self) -> str:
        """Everything seen so far, without what steers the terminal."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", self.seen)

    def expect(self, words: str) -> None:
        """Waits until these words are seen after those expected before."""
        deadline = time.monotonic() + self._patience
        while (at := self.text.find(words, self._from)) < 0:
            assert time.monotonic() < deadline, f"{words!r} was not seen in:\n{self.text}"
            assert self._read(1.0), f"the program ended without {words!r}:\n{self.text}"
        self._from = at + len(words)

    def type(self, line: str) -> None:
        """Types a line and the return key."""
        os.write(self._ours, f"{line}\n".encode())

    def press(self, key: str) -> None:
        """Presses a control key: `C` or `D`."""
        os.write(self._ours, bytes([ord(key) - 64]))

    def end(self) -> int:
        """Waits until the program has ended, and returns its exit status."""
        deadline = time.monotonic() + self._patience
        while self._read(1.0):
            assert time.monotonic() < deadline, f"the program still runs:\n{self.text}"
        return self._child.wait(self._patience)

    def _read(self, seconds: float) -> bool:
        """Takes what is there; False once the program's side is closed."""
        if not select.select([self._ours], [], [], seconds)[0]:
            return True
        try:
            piece = os.read(self._ours, 65536)
        except OSError:
            return False
        self.seen += piece.decode("utf-8", errors="replace")
        return bool(piece)
