"""An app's log: one line for each text, and not too many of them."""

from __future__ import annotations

from tactful.app_log import BURST, MOST_CHARACTERS, PER_SECOND, AppLog


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def test_a_text_is_one_line_with_the_time_whatever_it_has() -> None:
    written: list[str] = []
    log = AppLog(written.append, monotonic=Clock(), now=Clock())
    log.line("a\nb\x1b[2J\r")
    log.line("x" * 10_000)
    assert written[0] == "1970-01-01T00:00:00Z a b [2J \n"
    assert len(written[1]) == len("1970-01-01T00:00:00Z \n") + MOST_CHARACTERS


def test_lines_beyond_the_rate_are_counted_and_left_out() -> None:
    written: list[str] = []
    clock = Clock()
    log = AppLog(written.append, monotonic=clock, now=Clock())
    for number in range(BURST + 7):
        log.line(str(number))
    assert len(written) == BURST
    clock.time += 1 / PER_SECOND
    log.line("later")
    assert [line.split(" ", 1)[1] for line in written[BURST:]] == [
        "(7 lines were left out: there were too many at a time)\n",
        "later\n",
    ]
    clock.time += 3600
    for number in range(BURST + 1):
        log.line(str(number))
    assert len(written) == BURST + 2 + BURST
