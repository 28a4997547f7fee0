"""docs/doctor.md has every check and every state, in order."""

import re
from pathlib import Path

from tactful.cli.doctor import _SIGNS
from tactfuld.doctor.check import Name, State
from tactfuld.doctor.machine import EARLIEST, TOLERANCE
from tactfuld.doctor.places import LEAST_ROOM, ROOM_FOR_MEMORY

DOCUMENT = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")
NAMES = re.findall(r"^\| `([a-z_]+)` \|", DOCUMENT, re.MULTILINE)


def test_it_has_every_state_and_every_check() -> None:
    assert [*State, *Name] == NAMES


def test_states_are_shown_as_it_says() -> None:
    shown = re.findall(r"^\| `([a-z_]+)` \| ([a-z?-]+) \|", DOCUMENT, re.MULTILINE)
    assert dict(shown) == {state: sign for state, (sign, _style) in _SIGNS.items()}


def test_its_numbers_are_the_real_ones() -> None:
    assert f"{LEAST_ROOM // 2**20} MiB" in DOCUMENT
    assert {3: "three times the databases"}[ROOM_FOR_MEMORY] in DOCUMENT
    assert {300: "more than five minutes behind"}[TOLERANCE] in DOCUMENT
    assert (EARLIEST // 86_400, "before 2026" in DOCUMENT) == (20_454, True)
