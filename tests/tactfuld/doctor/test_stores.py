"""Integrity and ledger are judged by every fact about them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tactfuld.doctor.check import State
from tactfuld.doctor.stores import (
    Database,
    LedgerFacts,
    check_integrity,
    check_ledger,
)
from tactfuld.store.examined import Examined

MEMORY = Database("memory.db", examined=Examined(5, (), whole=True))
HISTORY = Database("history.db", examined=Examined(0, (), whole=True))
LEDGER = LedgerFacts(entries=3, epoch=2, marked=3)


def test_rows_that_all_open_are_counted() -> None:
    check = check_integrity([MEMORY, HISTORY], "")
    assert check.state is State.OK
    assert check.detail == "Every row opens as it was written: 5 of memory.db, 0 of history.db."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"structure": ("page 3 is never used",)}, "memory.db damaged: page 3 is never used"),
        ({"refusal": "memory.db is older than it was."}, "older than it was"),
        ({"examined": Examined(5, (2, 4), whole=False)}, "do not open as they were written: 2, 4"),
        ({"examined": Examined(5, (), whole=False)}, "are not all those written last"),
        ({"witnessed": False}, "witness of memory.db is missing"),
    ],
)
def test_each_damage_is_a_problem_in_its_own_words(change: dict[str, object], words: str) -> None:
    damaged = replace(MEMORY, **change)  # type: ignore[arg-type]
    check = check_integrity([damaged, HISTORY], "")
    assert (check.state, words in check.detail) == (State.PROBLEM, True)
    assert check.advice


def test_rows_that_nobody_opened_are_unknown_but_a_damaged_page_is_a_problem() -> None:
    closed = replace(MEMORY, examined=None)
    assert check_integrity([closed], "the profile is locked.").state is State.UNKNOWN
    damaged = replace(closed, structure=("a page is wrong",))
    assert check_integrity([damaged], "the profile is locked.").state is State.PROBLEM


def test_a_thousand_damaged_rows_are_told_in_short() -> None:
    many = replace(MEMORY, examined=Examined(1000, tuple(range(1, 1001)), whole=False))
    assert "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 990 more." in check_integrity([many], "").detail


def test_a_ledger_that_fits_its_mark_is_well_also_when_the_mark_is_behind() -> None:
    assert check_ledger(LEDGER, "").state is State.OK
    assert check_ledger(replace(LEDGER, marked=2), "").state is State.OK


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"refusal": "It cannot be read."}, "counts as exhausted"),
        ({"adds_up": False}, "do not give the sums"),
        ({"marked": None}, "mark is missing"),
        ({"marked": 4}, "knows more"),
        ({"lost": True}, "knows more"),
        ({"exhausted": True}, "exhausted"),
    ],
)
def test_each_fault_of_a_ledger_is_a_problem(change: dict[str, object], words: str) -> None:
    check = check_ledger(replace(LEDGER, **change), "")  # type: ignore[arg-type]
    assert (check.state, words in check.detail) == (State.PROBLEM, True)
    assert check.advice


def test_a_ledger_that_nobody_opened_is_unknown() -> None:
    assert check_ledger(None, "the profile is locked.").state is State.UNKNOWN
