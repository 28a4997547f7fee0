"""How the owner knows a profile."""

from pathlib import Path

import pytest

from tactful_tui.__main__ import name_of


def test_a_profile_is_named_as_the_owner_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert name_of(None) == "default"
    assert name_of(Path("/home/ada/agents/one")) == "~/agents/one"
    assert name_of(Path("/srv/agent")) == "/srv/agent"
