"""How much of the machine's memory this process has now.

Decides whom to ask: Linux's /proc, elsewhere `ps`. What is *not* here: what a model takes of it
(`inference.footprint`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

STATM = Path("/proc/self/statm")
PS = ("/bin/ps", "-o", "rss=", "-p")
PATIENCE = 5


def resident_bytes() -> int | None:
    """Bytes of this process that are in memory; `None` where the system does not say. Blocks."""
    if sys.platform != "linux":
        return _told_by_ps()
    with suppress(OSError, ValueError, IndexError):
        return int(STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None


def _told_by_ps() -> int | None:
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        command = (*PS, str(os.getpid()))
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
        return int(done.stdout) << 10
    return None
