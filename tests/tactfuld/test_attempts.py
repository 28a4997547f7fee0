"""Wrong passphrases slow down, whoever restarts or kills what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tactful.errors import KeyUnavailable, NoPermission, TryLater
from tactful_core.sealing import PassphraseParameters
from tactful_core.values import Secret
from tactfuld.keys.attempts import FILE_NAME, FREE_ATTEMPTS, LONGEST_PAUSE, Attempts, pause_after
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import Asked, PassphraseSource

CHEAP = PassphraseParameters(salt=b"0123456789abcdef", iterations=1, lanes=1, memory_kib=8)


class Clock:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


def wrong(state: Path, clock: Clock) -> None:
    """One wrong attempt, by a process of its own."""
    with pytest.raises(KeyUnavailable), Attempts(state, clock).trying():
        raise KeyUnavailable("That is not it.")


def right(state: Path, clock: Clock) -> None:
    with Attempts(state, clock).trying():
        pass


def refused(state: Path, clock: Clock) -> str:
    with pytest.raises(TryLater) as refusal, Attempts(state, clock).trying():
        raise AssertionError("It was tried.")
    return str(refusal.value)


def test_pauses_double_up_to_five_minutes() -> None:
    pauses = [pause_after(number) for number in range(16)]
    assert pauses[:FREE_ATTEMPTS] == [0] * FREE_ATTEMPTS
    assert pauses[FREE_ATTEMPTS:] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300]
    assert pause_after(10**6) == LONGEST_PAUSE == 300


def test_third_wrong_attempt_makes_the_fourth_wait_as_long_as_it_says(
    tmp_path: Path, clock: Clock
) -> None:
    for _ in range(FREE_ATTEMPTS):
        wrong(tmp_path, clock)
    assert "possible in 1 seconds" in refused(tmp_path, clock)
    clock.time += 1
    wrong(tmp_path, clock)
    assert "4 wrong attempts" in refused(tmp_path, clock)
    assert "possible in 2 seconds" in refused(tmp_path, clock)
    clock.time += 2
    right(tmp_path, clock)


def test_right_attempt_begins_anew(tmp_path: Path, clock: Clock) -> None:
    for _ in range(3):
        for _ in range(FREE_ATTEMPTS - 1):
            wrong(tmp_path, clock)
        right(tmp_path, clock)
    assert not (tmp_path / FILE_NAME).exists()


def test_attempt_that_is_killed_counts(tmp_path: Path, clock: Clock) -> None:
    """A generator that is never resumed is a process that was killed."""
    for _ in range(FREE_ATTEMPTS):
        Attempts(tmp_path, clock).trying().__enter__()
    refused(tmp_path, clock)


def test_refused_attempts_do_not_lengthen_the_pause(tmp_path: Path, clock: Clock) -> None:
    for _ in range(FREE_ATTEMPTS):
        wrong(tmp_path, clock)
    for _ in range(10):
        refused(tmp_path, clock)
    clock.time += 1
    right(tmp_path, clock)


def test_clock_that_was_set_back_shuts_nobody_out(tmp_path: Path, clock: Clock) -> None:
    for _ in range(FREE_ATTEMPTS):
        wrong(tmp_path, clock)
    clock.time -= 1_000_000
    assert "possible in 1 seconds" in refused(tmp_path, clock)
    clock.time += 1
    right(tmp_path, clock)


@pytest.mark.parametrize("content", ["", "null", '{"wrong": -1, "last": 0}', '{"wrong": 1e9}'])
def test_damaged_count_is_as_bad_as_the_first_pause(
    tmp_path: Path, clock: Clock, content: str
) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    wrong(tmp_path, clock)
    assert json.loads((tmp_path / FILE_NAME).read_text())["wrong"] == FREE_ATTEMPTS + 1


def test_attempt_that_cannot_be_counted_is_not_made(tmp_path: Path, clock: Clock) -> None:
    tried: list[None] = []
    with (
        pytest.raises(NoPermission, match="none was made"),
        Attempts(tmp_path / "absent", clock).trying(),
    ):
        tried.append(None)
    assert tried == []


def test_opening_a_ring_counts_wrong_passphrases_only(tmp_path: Path, clock: Clock) -> None:
    KeyRing.create(tmp_path, PassphraseSource(Secret("right"), CHEAP))
    attempts = Attempts(tmp_path, clock)
    for _ in range(FREE_ATTEMPTS):
        KeyRing.open(tmp_path, Asked(Secret("right"), attempts=attempts))
    for _ in range(FREE_ATTEMPTS):
        with pytest.raises(KeyUnavailable):
            KeyRing.open(tmp_path, Asked(Secret("wrong"), attempts=attempts))
    with pytest.raises(TryLater):
        KeyRing.open(tmp_path, Asked(Secret("right"), attempts=attempts))
