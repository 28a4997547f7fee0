"""What the owner is told: named, bounded, said once, and never in the log."""

import io
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactful_core.interface import OwnerNotices
from tactful_core.values import SlotName
from tactfuld.journal import open_journal
from tactfuld.notices import LIMIT, Notices


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def notices(log: io.StringIO) -> Notices:
    return Notices(open_journal(log))


def test_newest_is_last(notices: Notices) -> None:
    for sentence in ("One.", "Two.", "Three."):
        notices.add(sentence)
    assert notices.sentences == ("One.", "Two.", "Three.")


def test_what_is_there_already_is_neither_added_nor_moved(
    notices: Notices, log: io.StringIO
) -> None:
    for sentence in ("One.", "Two.", "One.", "One."):
        notices.add(sentence)
    assert notices.sentences == ("One.", "Two.")
    assert len(log.getvalue().splitlines()) == 2


@given(st.lists(st.integers(0, 2 * LIMIT)))
def test_list_is_bounded_and_has_nothing_twice(numbers: list[int]) -> None:
    notices = Notices(open_journal(io.StringIO()))
    for number in numbers:
        notices.add(f"Number {number}.")
        assert notices.sentences[-1] == f"Number {number}." or len(notices.sentences) > 1
        assert f"Number {number}." in notices.sentences
    assert len(notices.sentences) == len(set(notices.sentences)) <= LIMIT


def test_oldest_makes_room_for_the_newest(notices: Notices) -> None:
    for number in range(LIMIT + 1):
        notices.add(f"Number {number}.")
    assert notices.sentences[0] == "Number 1."
    assert notices.sentences[-1] == f"Number {LIMIT}."


def test_log_has_their_number_and_not_their_words(notices: Notices, log: io.StringIO) -> None:
    notices.add("Position 7 could not be opened.")
    notices.scoring_failed(SlotName("food"))
    notices.deadline_missed()
    events = [json.loads(line) for line in log.getvalue().splitlines()]
    for event in events:
        del event["timestamp"]
    assert events == [
        {"event": "notice", "level": "warning", "count": number} for number in (1, 2, 3)
    ]


def test_owner_is_told_which_slot_could_not_be_scored(notices: Notices) -> None:
    port: OwnerNotices = notices
    port.scoring_failed(SlotName("food"))
    (sentence,) = notices.sentences
    assert "slot food" in sentence
    assert "charge stands" in sentence


def test_owner_is_told_which_setting_ends_missed_deadlines(notices: Notices) -> None:
    notices.deadline_missed()
    (sentence,) = notices.sentences
    assert "turn.deadline_ms" in sentence
    assert "settings.yaml" in sentence


def test_other_threads_may_add(notices: Notices) -> None:
    threads = [
        threading.Thread(target=notices.add, args=(f"Thread {number}.",)) for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(notices.sentences) == [f"Thread {number}." for number in range(8)]


def test_a_subject_has_one_notice_which_is_replaced_and_goes(notices: Notices) -> None:
    notices.add("One.")
    notices.replace("settings", "Line 3 is wrong.")
    notices.replace("policy", "Line 4 is wrong.")
    notices.replace("settings", "Line 5 is wrong.")
    assert list(notices.sentences) == ["One.", "Line 4 is wrong.", "Line 5 is wrong."]
    notices.replace("settings", None)
    notices.replace("nothing", None)
    assert list(notices.sentences) == ["One.", "Line 4 is wrong."]


def test_a_subject_that_says_the_same_is_neither_moved_nor_logged(
    notices: Notices, log: io.StringIO
) -> None:
    notices.replace("settings", "Line 3 is wrong.")
    notices.add("Two.")
    notices.replace("settings", "Line 3 is wrong.")
    assert notices.sentences == ("Line 3 is wrong.", "Two.")
    assert len(log.getvalue().splitlines()) == 2
