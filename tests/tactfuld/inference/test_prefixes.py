"""What was computed of a thread serves that thread, and the one idle longest goes first."""

import pytest

from tactfuld.inference.prefixes import Prefix, Prefixes
from tactfuld.inference.requests import NOBODY, Source

MEALS, GUEST = Source("meals", "a"), Source("guest", "a")


@pytest.mark.parametrize(
    ("tokens", "common"), [([1, 2, 3, 4], 3), ([1, 2], 2), ([1, 9, 3], 1), ([9], 0), ([], 0)]
)
def test_serves_as_far_as_token_ids_agree(tokens: list[int], common: int) -> None:
    assert Prefix(0, (1, 2, 3)).common(tokens) == common


def test_serves_its_own_app_and_thread_and_nothing_else() -> None:
    kept = Prefixes()
    assert kept.keep(MEALS, Prefix(0, (1, 2))) == ()
    assert kept.take(GUEST) is None
    assert kept.take(Source("meals", "b")) is None
    assert kept.take(Source("meals")) is None
    assert kept.take(MEALS) == Prefix(0, (1, 2))
    assert kept.take(MEALS) is None


@pytest.mark.parametrize("alone", [NOBODY, Source("meals")])
def test_a_request_alone_leaves_nothing(alone: Source) -> None:
    kept = Prefixes()
    assert kept.keep(alone, Prefix(3, (1,))) == (Prefix(3, (1,)),)
    assert len(kept) == 0


def test_the_newest_of_a_thread_replaces_the_one_before() -> None:
    kept = Prefixes()
    kept.keep(MEALS, Prefix(0, (1,)))
    assert kept.keep(MEALS, Prefix(1, (1, 2, 3))) == (Prefix(0, (1,)),)
    assert (len(kept), kept.cells) == (1, 3)


def test_the_thread_that_was_idle_longest_goes_first() -> None:
    kept = Prefixes(most=2)
    for number, thread in enumerate("ab"):
        kept.keep(Source("meals", thread), Prefix(number, (1,)))
    used = kept.take(Source("meals", "a"))
    assert used is not None
    kept.keep(Source("meals", "a"), used)
    assert kept.keep(Source("meals", "c"), Prefix(2, (1,))) == (Prefix(1, (1,)),)
    assert kept.drop_oldest() == Prefix(0, (1,))
    assert kept.drop_oldest() == Prefix(2, (1,))
    assert kept.drop_oldest() is None


def test_its_text_form_shows_no_token() -> None:
    assert "987654" not in repr(Prefix(0, (987654,)))
