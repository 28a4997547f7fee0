"""The command `tactfuld`: the daemon in the foreground, or one command that needs no daemon.

Decides arguments, exit statuses and what is written where (docs/cli.md). What is *not* here: the
daemon (`lifecycle`) and the commands (`one_shot`).

Invariants:

- an error of the owner's is one sentence and a documented exit status, never a traceback;
- nothing but the declared JSON goes to `--ready-fd` and to the standard output of `one-shot`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from tactful.errors import InternalError, TactfulError, from_system
from tactful.profile import Profile
from tactfuld import one_shot
from tactfuld.journal import LogLevel, failure, open_journal
from tactfuld.passphrases import Handed, passphrase_from
from tactfuld.scrubbing import scrub_what_is_freed

INTERRUPTED = 130
"""Exit status after SIGINT before the daemon was ready to stop in order (docs/cli.md)."""


def main() -> None:
    """Entry point; ends the process."""
    os.umask(0o077)
    arguments = _parser().parse_args()
    if arguments.command == "serve":
        scrub_what_is_freed(os.environ)
    try:
        passphrase = Handed(
            passphrase_from(os.environ, arguments.passphrase_fd, arguments.passphrase_file)
        )
        profile = Profile.chosen(arguments.profile)
        if arguments.command == "serve":
            _serve(profile, passphrase, arguments.ready_fd)
        else:
            one_shot.run(profile, passphrase.take(), arguments)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - whatever it is ends as one sentence
        _fail(_named(error), arguments)


def _serve(profile: Profile, passphrase: Handed, ready_fd: int | None) -> None:
    from tactfuld.lifecycle import Start, serve

    def journal(level: LogLevel) -> FilteringBoundLogger:
        return open_journal(sys.stderr, level)

    def announce() -> None:
        if ready_fd is not None:
            _tell(ready_fd, {"ready": True})

    asyncio.run(serve(Start(profile, passphrase, journal, announce)))


def _named(error: BaseException) -> TactfulError:
    """What people are told: an error of ours, also one alone in a task group, as it is."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, TactfulError):
        return error
    if isinstance(error, OSError):
        return from_system(error)
    # An unknown message may hold anything.
    return InternalError(f"A defect ended tactfuld ({failure(error)}).")


def _fail(error: TactfulError, arguments: argparse.Namespace) -> None:
    report: dict[str, object] = {"error": error.described()}
    if arguments.command == "serve":
        if arguments.ready_fd is not None:
            _tell(arguments.ready_fd, report)
        with suppress(OSError):  # a log on a full disk
            print(f"tactfuld: {error}", file=sys.stderr, flush=True)  # noqa: T201 - last words
    else:
        one_shot.write_line(report)
    sys.exit(error.exit_status)


def _tell(descriptor: int, message: dict[str, object]) -> None:
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps(message) + "\n")
    except OSError:
        return  # nobody waits for it any more


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--profile", type=Path, metavar="DIR", help="the folder of a profile")
    shared.add_argument(
        "--passphrase-fd", type=int, metavar="N", help="read the passphrase from this descriptor"
    )
    shared.add_argument(
        "--passphrase-file", type=Path, metavar="FILE", help="read it from a file of mode 0600"
    )
    parser = argparse.ArgumentParser(
        prog="tactfuld", description="The tactful daemon. People use the command `tactful`."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", parents=[shared], help="run in the foreground")
    serve.add_argument(
        "--ready-fd", type=int, metavar="N", help="write one line of JSON here when ready or failed"
    )
    single = commands.add_parser("one-shot", help="run one command without a daemon")
    one_shot.add_commands(single, shared)
    return parser
