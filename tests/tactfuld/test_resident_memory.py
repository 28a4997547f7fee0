"""What the daemon has of the machine's memory is what the system says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tactfuld import resident_memory
from tactfuld.resident_memory import resident_bytes


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_memory_that_is_used_is_counted(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    if platform == "darwin" and not Path("/bin/ps").exists():
        pytest.skip("This machine has no `ps`.")
    monkeypatch.setattr(sys, "platform", platform)
    before = resident_bytes()
    held = bytearray(b"x" * (64 << 20))
    after = resident_bytes()
    assert before is not None
    assert after is not None
    assert (32 << 20) < after - before < (256 << 20)
    assert held


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_system_that_does_not_say_is_no_error(
    monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setattr(resident_memory, "STATM", Path("/absent"))
    monkeypatch.setattr(resident_memory, "PS", ("/absent",))
    monkeypatch.setattr(sys, "platform", platform)
    assert resident_bytes() is None
