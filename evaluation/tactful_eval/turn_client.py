"""The app that `turn_speed` measures: a process of its own, as apps are.

Decides when a turn begins, has its first piece, and has ended: seconds of the machine's monotonic
clock, which is the same in all processes. What is *not* here: what is made of them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tactful.app_client import AppClient
from tactful.profile import Profile


@dataclass(frozen=True, slots=True)
class Heard:
    """Moments of one turn, in seconds."""

    began: float
    first: float
    ended: float


async def turns_heard(folder: Path, token: str, turns: int) -> list[Heard]:
    """Asks so often over the app's socket of the profile under `folder`, in a process of its own.

    Raises:
        RuntimeError: that process failed; its own error is on standard error.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, str(folder), str(turns), stdin=pipe, stdout=pipe
    )
    try:
        printed, _ = await process.communicate(token.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"The app that asks ended with exit status {process.returncode}.")
    return [Heard(*moments) for moments in json.loads(printed)]


async def _asked(folder: Path, token: str, turns: int) -> list[tuple[float, float, float]]:
    heard = []
    async with AppClient.connect(Profile.at(folder), token) as app:
        for _ in range(turns):
            pieces: list[float] = []

            def hear(_piece: str, at: list[float] = pieces) -> None:
                at.append(time.monotonic())

            began = time.monotonic()
            await app.ask("What shall I cook for dinner?", slots=["food"], on_text=hear)
            heard.append((began, pieces[0], time.monotonic()))
    return heard


if __name__ == "__main__":
    where, number = sys.argv[1:]
    print(json.dumps(asyncio.run(_asked(Path(where), sys.stdin.read(), int(number)))))
