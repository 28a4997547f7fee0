"""Resource limits of an app's processes, set before any code of the app runs.

Decides how much a child may use, and how the limits get onto it. What is *not* here: the walls
around it (`sandbox`), and how much may be sent over its connection (`tactfuld.server`).

An environment of an app's own runs code when its interpreter starts (`.pth` files), so that
interpreter cannot be trusted to limit itself. The daemon's base interpreter does it instead: it
starts isolated and without site packages, lowers its own limits for good, and becomes the child.

Invariants:

- limits are lowered once and can never be raised again by the child;
- a child is nicer than the daemon, so it gets what processor time the daemon leaves.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NICENESS = 10
"""Added to the daemon's own; its work is about ten times as urgent for the kernel."""

_LIMITER = f"""
import os, resource, sys
end = sys.argv.index("--")
for limit in sys.argv[1:end]:
    name, _, most = limit.partition("=")
    try:
        which = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(which)[1]
        bound = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
        resource.setrlimit(which, (bound, bound))
    except (AttributeError, OSError, ValueError):
        print("This system does not set the limit " + limit + ".", file=sys.stderr, flush=True)
os.nice({NICENESS})
os.execv(sys.argv[end + 1], sys.argv[end + 1:])
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one child.

    Attributes:
        memory_bytes: address space of each process.
        file_bytes: size of each file it writes, its log included.
        processes: inside the sandbox, the app's own; without one, all of the owner's.
        descriptors: open at a time in each process.
    """

    memory_bytes: int = 4 * 1024**3
    file_bytes: int = 64 * 1024**2
    processes: int = 64
    descriptors: int = 256

    def words(self) -> list[str]:
        """`NAME=MOST` of each limit, as the kernel's manual names them."""
        limits = {
            "AS": self.memory_bytes,
            "FSIZE": self.file_bytes,
            "NPROC": self.processes,
            "NOFILE": self.descriptors,
            "CORE": 0,
        }
        return [f"{name}={most}" for name, most in limits.items()]


UNCONFINED_PROCESSES = 4096
"""Without a sandbox the kernel counts all processes and threads of the owner, not only the app's;
a small number would stop an app because a browser is open."""


def limited(argv: Sequence[str], limits: Limits) -> list[str]:
    """`argv`, whose first word is a whole path, under the limits."""
    limiter = [str(Path(sys.executable).resolve()), "-I", "-S", "-c", _LIMITER]
    return [*limiter, *limits.words(), "--", *argv]
