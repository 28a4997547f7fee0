"""What the daemon frees is overwritten at once, as far as its allocators can be told to.

Decides how the process allocates memory. What is *not* here: which secrets it holds, and for how
long.

A text that was opened leaves copies wherever it passed: decrypted rows, strings, JSON, buffers.
None of them can be overwritten by name. But all of them are freed, and the C library of GNU/Linux
can overwrite what is freed (`glibc.malloc.perturb`), if it keeps no small blocks back unseen
(`tcache_count=0`) and Python gives its own blocks to it (`PYTHONMALLOC=malloc`). It is told before
the process begins, so the daemon replaces itself once when it is started without. It costs about a
tenth of the time of arithmetic, and twice the time of reading and writing JSON.

Elsewhere than on GNU/Linux nothing of this happens. Nowhere does it reach what is still in use,
what was on a stack, and what the kernel has buffered or swapped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping

TUNABLES = "GLIBC_TUNABLES"
ALLOCATOR = "PYTHONMALLOC"

_OVERWRITING = "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"


def scrub_what_is_freed(environ: MutableMapping[str, str]) -> None:
    """Replaces this process by one that overwrites what it frees, unless it is one.

    Takes the variables that say so out of the environment: children need not be slower.
    """
    if not _has_glibc():
        return
    if environ.get(ALLOCATOR) == "malloc" and _OVERWRITING in environ.get(TUNABLES, ""):
        environ.pop(ALLOCATOR)
        environ.pop(TUNABLES)
        return
    os.execve(sys.executable, sys.orig_argv, overwriting(environ))  # noqa: S606 - ourselves


def overwriting(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that overwrites what it frees."""
    others = [each for each in environ.get(TUNABLES, "").split(":") if each]
    kept = [each for each in others if not each.startswith("glibc.malloc.")]
    return {**environ, ALLOCATOR: "malloc", TUNABLES: ":".join([*kept, _OVERWRITING])}


def _has_glibc() -> bool:
    try:
        return sys.platform == "linux" and "glibc" in (os.confstr("CS_GNU_LIBC_VERSION") or "")
    except ValueError:
        return False
