"""The filter is a sound program that refuses what it names; a small machine runs it here.

That the kernel takes it and that it holds is shown in `tests/security/test_sandbox_escapes.py`.
"""

from __future__ import annotations

import errno
import struct

import pytest

from tactfuld.apps import system_calls
from tactfuld.apps.system_calls import REFUSED, filter_program

ALLOWED = 0x7FFF0000
REFUSED_WITH = {errno.EPERM, errno.ENOSYS}
X86, ARM = 0xC000003E, 0xC00000B7


def outcome(machine: str, number: int, *, audit: int, first: int = 0) -> int:
    """What the filter says to a system call: 0 to let it through, or an error number."""
    program = filter_program(machine)
    assert program is not None
    rows = list(struct.iter_unpack("=HBBI", program))
    call = struct.pack("=IIQQ", number, audit, 0, first)
    value, at = 0, 0
    while True:
        code, if_true, if_false, operand = rows[at]
        at += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("=I", call, operand)
            case 0x15:
                at += if_true if value == operand else if_false
            case 0x35:
                at += if_true if value >= operand else if_false
            case 0x45:
                at += if_true if value & operand else if_false
            case 0x06:
                return 0 if operand == ALLOWED else operand & 0xFFFF
            case _:
                raise AssertionError(f"no instruction {code:#x}")


MACHINES = [("x86_64", X86, 0), ("aarch64", ARM, 1)]


@pytest.mark.parametrize(("machine", "audit", "column"), MACHINES)
def test_every_named_call_is_refused(machine: str, audit: int, column: int) -> None:
    for name in REFUSED:
        number = system_calls._REFUSED[name][column]
        assert outcome(machine, number, audit=audit) == errno.EPERM, name


@pytest.mark.parametrize(("machine", "audit", "column"), MACHINES)
def test_every_other_call_is_let_through(machine: str, audit: int, column: int) -> None:
    named = {numbers[column] for numbers in system_calls._REFUSED.values()} | {435}
    for number in set(range(450)) - named:
        assert outcome(machine, number, audit=audit) == 0, number


@pytest.mark.parametrize(
    ("machine", "audit", "clone"), [("x86_64", X86, 56), ("aarch64", ARM, 220)]
)
def test_threads_and_processes_can_be_made_but_no_namespaces(
    machine: str, audit: int, clone: int
) -> None:
    assert outcome(machine, clone, audit=audit, first=0x003D0F00) == 0
    for namespace in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert outcome(machine, clone, audit=audit, first=0x11 | namespace) == errno.EPERM
    assert outcome(machine, 435, audit=audit) == errno.ENOSYS


@pytest.mark.parametrize(("machine", "audit"), [("x86_64", ARM), ("aarch64", X86), ("x86_64", 3)])
def test_call_in_another_numbering_is_refused(machine: str, audit: int) -> None:
    assert outcome(machine, 0, audit=audit) == errno.EPERM


def test_call_in_the_x32_numbering_is_refused() -> None:
    assert outcome("x86_64", 0x40000000, audit=X86) == errno.EPERM


def test_unknown_machine_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert filter_program("vax") is None
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    for system, known in (("Linux", True), ("Darwin", False)):
        monkeypatch.setattr("platform.system", lambda system=system: system)
        assert (filter_program() is not None) == known
