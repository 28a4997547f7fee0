"""What one look at a profile comes to.

Decides which checks there are and what their states mean. What is *not* here: any check (each
module beside this one has a few), and what is printed (`tactful.cli.doctor`).

A check is a plain function over facts that were gathered before, so that each can be tried with
facts that no test could bring about on a real machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Name(StrEnum):
    """All checks, in the order in which they are told (docs/doctor.md)."""

    PERMISSIONS = "permissions"
    DISK = "disk"
    LOCK = "lock"
    SOCKET = "socket"
    SETTINGS = "settings"
    POLICY = "policy"
    KEYRING = "keyring"
    KEYS = "keys"
    INTEGRITY = "integrity"
    LEDGER = "ledger"
    CLOCK = "clock"
    MODEL = "model"
    GPU = "gpu"
    REMOTE = "remote"
    SANDBOX = "sandbox"
    LINGER = "linger"


class State(StrEnum):
    """`ok` and `not_applicable` are well; `unknown` is what could not be looked at."""

    OK = "ok"
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of a report.

    Attributes:
        detail: what was found, in whole sentences.
        advice: what to do, or what could be better; may be empty where all is well.
    """

    name: Name
    state: State
    detail: str
    advice: str = ""


def ok(name: Name, detail: str, advice: str = "") -> Check:
    """All is well, and `advice` says what could be better."""
    return Check(name, State.OK, detail, advice)


def problem(name: Name, detail: str, advice: str) -> Check:
    """Something is wrong."""
    return Check(name, State.PROBLEM, detail, advice)


def unknown(name: Name, detail: str, advice: str) -> Check:
    """It could not be looked at."""
    return Check(name, State.UNKNOWN, detail, advice)


def not_applicable(name: Name, detail: str) -> Check:
    """There is nothing to look at on this machine or in this profile."""
    return Check(name, State.NOT_APPLICABLE, detail)
