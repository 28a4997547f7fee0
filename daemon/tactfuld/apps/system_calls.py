"""The system calls that a sandboxed app is refused: a filter in the kernel's own form.

Decides which calls those are: what tells of the machine's load or of other processes, what reaches
the kernel's key rings, and what would build walls or doors anew. What is *not* here: how the filter
gets onto a child (`child`), and the other walls (`sandbox`).

Namespaces hide other processes and files from an app; they do not hide how busy the machine is
(`sysinfo`), and a child inherits its session's kernel keys (`keyctl`). Hence the filter.

Invariants:

- a call of another architecture's numbering is refused, whatever its number;
- a refused call fails with EPERM and nothing else happens; `clone3`, whose arguments no filter can
  look at, fails as on a kernel that does not have it, so that the C library uses `clone`;
- on a machine whose numbers are not known here there is no filter: `None`, never half of one.

Source: seccomp(2) and bpf(4) of the Linux manual; numbers from the kernel's tables.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass

_REFUSED: Mapping[str, tuple[int, int]] = {
    # name: number on x86-64, on ARM64
    "sysinfo": (99, 179),
    "syslog": (103, 116),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
}

REFUSED = frozenset(_REFUSED)
"""The names of the calls that fail."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """A numbering of system calls; `column` of `_REFUSED`, and the kernel's name for it."""

    audit: int
    column: int
    clone: int
    clone3: int = 435
    foreign: int | None = None


_MACHINES = {
    "x86_64": _Machine(audit=0xC000003E, column=0, clone=56, foreign=0x40000000),
    "aarch64": _Machine(audit=0xC00000B7, column=1, clone=220),
}

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_IF_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NEW_NAMESPACES = 0x7E020000
"""The flags CLONE_NEW* of `clone`."""


def filter_program(machine: str | None = None) -> bytes | None:
    """The filter as an array of `struct sock_filter`; `None` where it is not known.

    Args:
        machine: as `platform.machine` names it on Linux; this one if `None`.
    """
    if machine is None and platform.system() == "Linux":
        machine = platform.machine()
    known = None if machine is None else _MACHINES.get(machine)
    return None if known is None else _program(known)


def _program(machine: _Machine) -> bytes:
    refuse = _ERROR | errno.EPERM
    rows = [
        _row(_LOAD, _ARCHITECTURE),
        _row(_JUMP_EQUAL, machine.audit, 1, 0),
        _row(_RETURN, refuse),
        _row(_LOAD, _NUMBER),
    ]
    if machine.foreign is not None:
        rows += [_row(_JUMP_AT_LEAST, machine.foreign, 0, 1), _row(_RETURN, refuse)]
    for numbers in _REFUSED.values():
        rows += [_row(_JUMP_EQUAL, numbers[machine.column], 0, 1), _row(_RETURN, refuse)]
    rows += [
        _row(_JUMP_EQUAL, machine.clone3, 0, 1),
        _row(_RETURN, _ERROR | errno.ENOSYS),
        _row(_JUMP_EQUAL, machine.clone, 0, 3),
        _row(_LOAD, _FIRST_ARGUMENT),
        _row(_JUMP_IF_ANY, _NEW_NAMESPACES, 0, 1),
        _row(_RETURN, refuse),
        _row(_RETURN, _ALLOW),
    ]
    return b"".join(rows)


def _row(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
