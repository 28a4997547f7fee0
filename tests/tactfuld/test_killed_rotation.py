"""Rotations that are killed at any moment leave a store that opens, with everything in it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile

from tactful.profile import Profile
from tactful_core.values import Secret, ShelfName
from tactfuld.keys.key_file import KEY_FILE
from tactfuld.keys.values import Purpose
from tactfuld.policy.loading import load_policy
from tactfuld.store.memory import MEMORY_FILE, MemoryStore
from tactfuld.unlocking import unlock

REPOSITORY = Path(__file__).parents[2]
LONGEST = 0.05
"""Seconds that a process rotates before it is killed, at most; a rotation takes about a tenth."""


async def remembered(profile: Profile, text: str | None = None) -> list[str]:
    """What a daemon that starts now would find, and would add if it is given a text."""
    ring = await asyncio.to_thread(unlock, profile, Secret(PASSPHRASE))
    layout = (await asyncio.to_thread(load_policy, profile.policy_file)).layout
    keys = ring.store_keys()
    async with MemoryStore.open(profile.data / MEMORY_FILE, layout, keys, print) as store:
        if text is not None:
            await store.remember(text, ShelfName("food.diet"), None, 1)
        return [memory.text for _, memory in await store.listing()]


def kept_keys(profile: Profile) -> dict[str, int]:
    written = json.loads((profile.data / KEY_FILE).read_bytes())
    return {purpose: len(written[purpose]) for purpose in Purpose}


def survives(profile: Profile, kills: int) -> set[int]:
    """Kills rotations and looks what is left; how many keys of memory were found."""
    asyncio.run(remembered(profile, "I eat no nuts."))
    found = set[int]()
    command = [sys.executable, "-m", "tests.fakes.rotating", str(profile.config.parent)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as zygote:
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        for _ in range(kills):
            zygote.stdin.write("again\n")
            pid = int(zygote.stdout.readline())
            time.sleep(random.uniform(0, LONGEST))
            os.kill(pid, signal.SIGKILL)
            assert zygote.stdout.readline() == "dead\n"
            found.add(kept_keys(profile)["memory"])
            assert asyncio.run(remembered(profile)) == ["I eat no nuts."]
            assert set(kept_keys(profile).values()) == {1}
        zygote.stdin.close()
    return found


def test_rotation_killed_at_twenty_moments_loses_nothing(tmp_path: Path) -> None:
    survives(make_profile(tmp_path / "profile"), 20)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_rotation_killed_at_two_hundred_moments_loses_nothing(tmp_path: Path) -> None:
    found = survives(make_profile(tmp_path / "profile"), 200)
    assert found == {1, 2}, "some were killed between the first step and the last"
