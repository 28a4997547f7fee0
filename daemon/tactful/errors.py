"""Errors that people and programs see, one code for each. A leaf: it imports nothing of ours.

Each error has a `code` (a stable word, in `--json` envelopes and in `error.data.code` on the wire),
an `rpc` number (JSON-RPC 2.0 `error.code`) and an `exit_status` (sysexits where one fits). Families
by who must act: the owner, the author of an app, or whoever operates the daemon.

What is *not* here: how an error is shown (`tactful.cli.output`, docs/protocol.md).

Invariant: a message is a whole sentence about what was refused, what was expected and what to do;
never memory text, keys, prompts or scores.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a file that the owner wrote.

    Attributes:
        line: from 1; 0 when the file as a whole is meant.
        column: from 1, in characters; 0 when the file as a whole is meant.
        key: dotted, such as `attributes.debt.implied_by[1]`; empty when no key is meant.
        sentence: what was refused, what was expected, what to do.
    """

    file: str
    line: int
    column: int
    key: str
    sentence: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (place, self.key, self.sentence) if part)


class TactfulError(Exception):
    """Base of every error with a code."""

    code: ClassVar[str] = "internal_error"
    rpc: ClassVar[int] = -32603
    exit_status: ClassVar[int] = 70

    def described(self) -> dict[str, object]:
        """What stands under `error` in an envelope; `from_description` reads it back."""
        return {"code": self.code, "message": str(self)}


class OwnerError(TactfulError):
    """The owner must act."""


class AppError(TactfulError):
    """The author of the calling program must act."""


class OperatorError(TactfulError):
    """Whoever runs the daemon must act."""


class ParseError(AppError):
    """A line that is not JSON."""

    code, rpc, exit_status = "parse_error", -32700, 65


class InvalidRequest(AppError):
    """JSON that is not a JSON-RPC 2.0 request."""

    code, rpc, exit_status = "invalid_request", -32600, 65


class UnknownMethod(AppError):
    """A method that this connection does not have."""

    code, rpc, exit_status = "unknown_method", -32601, 64


class InvalidParams(AppError):
    """Parameters of the wrong names or types."""

    code, rpc, exit_status = "invalid_params", -32602, 64


class InternalError(OperatorError):
    """A defect of the daemon; its log has the kind of failure, never its content."""

    code, rpc, exit_status = "internal_error", -32603, 70


class NotAuthenticated(AppError):
    """The first request must authenticate; or the token or secret is wrong."""

    code, rpc, exit_status = "not_authenticated", -32001, 77


class Denied(OwnerError):
    """The policy does not grant this."""

    code, rpc, exit_status = "denied", -32002, 77


class Busy(OperatorError):
    """Too much is in flight; try again later."""

    code, rpc, exit_status = "busy", -32003, 75


class NotReady(OperatorError):
    """The daemon is still loading."""

    code, rpc, exit_status = "not_ready", -32004, 75


class Cancelled(AppError):
    """The request was cancelled; what it was charged stays charged."""

    code, rpc, exit_status = "cancelled", -32005, 75


class LineTooLong(AppError):
    """A line over the limit; the connection closes."""

    code, rpc, exit_status = "line_too_long", -32006, 65


class IdleTimeout(AppError):
    """A line was begun and not finished, or nobody authenticated in time; the connection closes."""

    code, rpc, exit_status = "idle_timeout", -32007, 75


class ModelFailed(OperatorError):
    """The language model could not be loaded or did not answer."""

    code, rpc, exit_status = "model_failed", -32008, 69


class NotFound(OwnerError):
    """Something that was named does not exist."""

    code, rpc, exit_status = "not_found", -32009, 66


class DoesNotFit(OwnerError):
    """A text or a shelf has no room."""

    code, rpc, exit_status = "does_not_fit", -32010, 65


class ShuttingDown(OperatorError):
    """The daemon is stopping."""

    code, rpc, exit_status = "shutting_down", -32011, 75


class DaemonDown(OwnerError):
    """No daemon answers on the socket."""

    code, rpc, exit_status = "daemon_down", -32012, 69


class AlreadyRunning(OwnerError):
    """Another daemon holds this data folder."""

    code, rpc, exit_status = "already_running", -32013, 75


class Unusable(OwnerError):
    """The profile cannot be used as it is: not initialised, damaged, or of another version."""

    code, rpc, exit_status = "unusable", -32014, 65


class AlreadyExists(OwnerError):
    """Something that must not be overwritten is there already."""

    code, rpc, exit_status = "already_exists", -32015, 73


class KeyUnavailable(OwnerError):
    """No key: wrong passphrase, no keyring, or a keyring without this store's key."""

    code, rpc, exit_status = "key_unavailable", -32016, 77


class PassphraseNeeded(OwnerError):
    """The key is locked by a passphrase and none was given."""

    code, rpc, exit_status = "passphrase_needed", -32020, 77


class Locked(OwnerError):
    """The profile is locked: nothing is served until its owner unlocks it."""

    code, rpc, exit_status = "locked", -32022, 77


class TryLater(OwnerError):
    """There were too many wrong passphrases; the message says how long to wait."""

    code, rpc, exit_status = "try_later", -32023, 75


class PolicyRefused(OwnerError):
    """The policy or settings file has problems; the message lists file, line and key."""

    code, rpc, exit_status = "policy_refused", -32017, 78

    def __init__(self, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems

    def described(self) -> dict[str, object]:
        told = [
            {
                "file": problem.file,
                "line": problem.line,
                "column": problem.column,
                "key": problem.key,
                "message": problem.sentence,
            }
            for problem in self.problems
        ]
        return {**super().described(), "problems": told}


class UsageError(OwnerError):
    """A command was called in a way it does not have."""

    code, rpc, exit_status = "usage", -32018, 64


class NoPermission(OwnerError):
    """The operating system refused to read or write."""

    code, rpc, exit_status = "no_permission", -32019, 77


class IoFailed(OwnerError):
    """Reading or writing failed: the disk is full or damaged, or a device does not answer."""

    code, rpc, exit_status = "io_failed", -32021, 74


class InUse(OwnerError):
    """Something that was to be removed is in use."""

    code, rpc, exit_status = "in_use", -32024, 75


class WouldUncover(OwnerError):
    """On another shelf, attributes that cover a memory would no longer cover it."""

    code, rpc, exit_status = "would_uncover", -32025, 65


def _all(base: type[TactfulError]) -> list[type[TactfulError]]:
    found = [base] if "code" in base.__dict__ else []
    for child in base.__subclasses__():
        found.extend(_all(child))
    return found


def by_code(code: str) -> type[TactfulError]:
    """The class for a code from the wire; `InternalError` for one that is not known here."""
    return {kind.code: kind for kind in ERRORS}.get(code, InternalError)


def from_description(told: Mapping[str, object]) -> TactfulError:
    """The error that a program of ours described in an envelope."""
    kind, message = by_code(str(told.get("code"))), str(told.get("message"))
    listed = told.get("problems")
    if kind is not PolicyRefused or not isinstance(listed, list):
        return kind(message)
    return PolicyRefused(message, tuple(_problem(each) for each in listed))


def _problem(told: Mapping[str, object]) -> Problem:
    return Problem(
        file=str(told["file"]),
        line=int(str(told["line"])),
        column=int(str(told["column"])),
        key=str(told["key"]),
        sentence=str(told["message"]),
    )


def from_system(error: OSError) -> TactfulError:
    """The error for what the operating system refused or could not do."""
    where = f" {error.filename}" if isinstance(error.filename, str) else ""
    why = error.strerror or type(error).__name__
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return NoPermission(
            f"The operating system refused access to{where or ' a file'}: {why}. "
            "Check who owns it, or choose another folder with --profile."
        )
    return IoFailed(
        f"Reading or writing{where or ' a file'} failed: {why}. "
        "Check that its disk has room and is in order, and try again."
    )


def from_defect(error: BaseException | None) -> InternalError:
    """The sentence for a failure that nobody foresaw: its kind and place, never its content."""
    at = error.__traceback__ if error is not None else None
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f" at {Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}" if at else ""
    return InternalError(
        f"This is a defect of tactful ({type(error).__name__}{where}); please report it."
    )


ERRORS: tuple[type[TactfulError], ...] = tuple(
    kind for kind in _all(TactfulError) if kind is not TactfulError
)
"""Every error with a code, in the order above."""
