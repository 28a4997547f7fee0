"""What a command prints: for people on a terminal or in a pipe, or one JSON line for programs.

Decides the envelope and how an error looks. What is *not* here: what any command has to say, and
which characters may reach a terminal (`tactful.visible_text`).

Invariants:

- with `--json`, standard output is exactly one line, `{"data": ...}` or `{"error": ...}`;
- progress and errors for people go to standard error, progress only if that is a terminal;
- without a terminal no control character but the line feed is written, and never one that came from
  a memory, a model or an app; and no line ends in spaces.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TextIO, cast

from rich.console import Console
from rich.text import Text

from tactful.visible_text import visible

Data = Mapping[str, object]
"""What stands under `data`: only what `json.dumps` takes."""

MOST_COLUMNS = 100


class OwnerConsole(Console):
    """A console that reports a closed pipe to its caller instead of ending the program."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


class TrimmedStream(io.TextIOBase):
    """Passes text on, without the spaces at the end of a line that tables are filled up with."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._held = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute there
        return self._stream.encoding

    def write(self, text: str) -> int:
        lines = (self._held + text).split("\n")
        kept = [line.rstrip(" ") for line in lines]
        self._held = lines[-1][len(kept[-1]) :]
        self._stream.write("\n".join(kept))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command prints.

    Attributes:
        as_json: whether the command was given `--json`.
        console: standard output for people; silent with `--json`.
        notes: standard error, for progress and problems.
    """

    as_json: bool
    console: Console
    notes: Console

    def finish(self, data: Data) -> None:
        """The command's result, for programs; people have been told on the way."""
        if self.as_json:
            write_line(envelope(data))

    def show(self, data: Data, render: Callable[[Console], None]) -> None:
        """The command's result, for whoever asked."""
        render(self.console)
        self.finish(data)


def open_output(*, as_json: bool) -> Output:
    """Consoles on the present standard streams."""
    return Output(as_json, _console(sys.stdout, quiet=as_json), _console(sys.stderr))


def envelope(data: Data) -> str:
    """One line of JSON."""
    return json.dumps({"data": data}, ensure_ascii=False, separators=(",", ":"))


def error_envelope(error: Data) -> str:
    """One line of JSON; `error` is a `TactfulError.described()`."""
    return json.dumps({"error": error}, ensure_ascii=False, separators=(",", ":"))


def report(error: Data, *, as_json: bool) -> None:
    """Tells whoever asked that the command failed."""
    if as_json:
        write_line(error_envelope(error))
        return
    _console(sys.stderr).print(
        Text.assemble(("tactful: ", "bold red"), visible(_in_words(error), keep="\n")),
        soft_wrap=True,
    )


def _in_words(error: Data) -> str:
    """The message; above a file's problems, how many they are, so that each has a line of its own.

    Those lines begin with file and line, as editors and terminals want them to.
    """
    message, problems = str(error["message"]), error.get("problems")
    match problems:
        case [_]:
            return f"There is a problem:\n{message}"
        case [_, *_]:
            return f"There are {len(problems)} problems:\n{message}"
        case _:
            return message


def write_line(line: str) -> None:
    """One whole line to standard output, in one write."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _console(stream: TextIO, *, quiet: bool = False) -> Console:
    terminal = stream.isatty()
    file = stream if terminal else cast("TextIO", TrimmedStream(stream))
    console = OwnerConsole(
        file=file, quiet=quiet, highlight=False, markup=False, emoji=False,
        force_terminal=terminal,
    )  # fmt: skip
    if not terminal:
        console.no_color = True
        console.width = 80
    console.width = min(console.width, MOST_COLUMNS)
    return console
