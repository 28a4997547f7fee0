"""Active slots: those an app names within its grant, else those that a query is about."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.daemon_site import PROMISES

from tactful.errors import Denied
from tactful_core.layout import GENERIC, ReadRule, Slot, View
from tactful_core.promises import Grant
from tactful_core.values import AppId, ShelfName, SlotName, ViewName
from tactfuld.inference.embedder import Embedder, WordLlamaEmbedder
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.router import ABOUT, BESIDE, FOLLOW_UP_WORDS, Router

SLOTS = PROMISES.layout.slots
NAMES = tuple(slot.name for slot in SLOTS)
UNRELATED = "Why did the Roman empire fall?"


def granted(*names: str) -> Grant:
    return Grant(AppId("meals"), frozenset(SlotName(name) for name in names))


EVERYTHING = granted(*NAMES)


def router_of(embedder: Embedder, slots: Sequence[Slot] = SLOTS) -> Router:
    router = Router(embedder)
    router.prepare(tuple(slots))
    return router


async def active(
    router: Router, query: str, grant: Grant = EVERYTHING, named: tuple[str, ...] | None = None
) -> tuple[str, ...]:
    return tuple(slot.name for slot in await router.active_slots(query, grant, named))


@pytest.fixture(scope="module")
def by_meaning() -> Router:
    """A router with the real embeddings."""
    return router_of(WordLlamaEmbedder.load())


FOUR_WORDS = {
    "health": "sleep symptoms medicine exercise",
    "food": "dinner recipes cooking meals",
    "finance": "savings bank loans bills",
}


@pytest.fixture
def by_words() -> Router:
    """For which only words in common count: a query of n words has a cosine of k / (2 √n) with a
    slot that has k of them."""
    slots = [
        replace(slot, description=FOUR_WORDS[slot.name], vocabulary=(View(GENERIC, "Answer."),))
        for slot in SLOTS
    ]
    return router_of(HashEmbedder(dimension=4096), slots)


# --- slots that the app names -------------------------------------------------------------------


@given(st.lists(st.sampled_from(NAMES), max_size=6))
async def test_named_slots_are_active_in_the_order_of_the_policy(names: list[str]) -> None:
    router = router_of(HashEmbedder())
    expected = tuple(name for name in NAMES if name in names)
    assert await active(router, UNRELATED, named=tuple(names)) == expected


async def test_named_slots_are_active_whatever_the_query_is(by_words: Router) -> None:
    assert await active(by_words, UNRELATED, named=("finance",)) == ("finance",)
    assert await active(by_words, "dinner recipes", named=("finance",)) == ("finance",)


async def test_naming_no_slot_is_not_the_same_as_leaving_it_to_the_router(
    by_words: Router,
) -> None:
    assert await active(by_words, "meals dinner recipes", named=()) == ()
    assert await active(by_words, "meals dinner recipes", named=None) == ("food",)


@pytest.mark.parametrize("named", [("finance",), ("food", "finance"), ("finance", "food")])
async def test_one_slot_that_is_not_granted_refuses_all(
    by_words: Router, named: tuple[str, ...]
) -> None:
    with pytest.raises(Denied, match="'finance'"):
        await active(by_words, "dinner", granted("food"), named)


async def test_refusal_does_not_tell_whether_a_slot_exists(by_words: Router) -> None:
    sentences = []
    for name in ("finance", "no_such_slot"):
        with pytest.raises(Denied) as refused:
            await active(by_words, "dinner", granted("food"), (name,))
        sentences.append(str(refused.value).replace(name, "…"))
    assert sentences[0] == sentences[1]


# --- slots that a query is about ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What is an affordable dinner for tonight?", ("food",)),
        ("What could I have for breakfast?", ("food",)),
        ("Which daily habits would be good for my health?", ("health",)),
        ("What exercise can I do today?", ("health",)),
        ("How can I save more money?", ("finance",)),
        ("Which bill comes first this month?", ("finance",)),
        (
            "Can you plan cheap meals for the week, and where do I begin with my budget?",
            ("food", "finance"),
        ),
        (
            "Bills keep me awake: how do I sleep better, and which bill should I pay first?",
            ("health", "finance"),
        ),
        (UNRELATED, ()),
        ("Recite the periodic table of the elements.", ()),
        ("", ()),
        ("?!", ()),
    ],
)
async def test_query_activates_the_slots_that_it_is_about(
    by_meaning: Router, query: str, expected: tuple[str, ...]
) -> None:
    assert await active(by_meaning, query) == expected


async def test_only_granted_slots_are_considered(by_meaning: Router) -> None:
    both = "Can you plan cheap meals for the week, and where do I begin with my budget?"
    assert await active(by_meaning, both, granted("finance")) == ("finance",)
    assert await active(by_meaning, both, granted("food")) == ("food",)
    assert await active(by_meaning, both, granted()) == ()


async def test_slot_that_is_not_granted_does_not_crowd_out_others(by_words: Router) -> None:
    """A slot far ahead hides the ones behind it, unless the app may not ask about it."""
    query = "meals dinner sleep"
    assert await active(by_words, query) == ("food",)
    assert await active(by_words, query, granted("health", "finance")) == ("health",)


async def test_slot_that_is_the_best_is_still_too_far_away(by_words: Router) -> None:
    assert await active(by_words, "sleep when the moon is full") == ()


async def test_slots_that_are_nearly_as_close_are_active_together(by_words: Router) -> None:
    assert await active(by_words, "dinner savings") == ("food", "finance")
    assert await active(by_words, "savings dinner") == ("food", "finance")


async def test_examples_of_views_speak_for_their_slot() -> None:
    """A query that shares no word with any description, and all of them with one example."""
    example = View(ViewName("a"), "A.", examples=("unheard questions",))
    slots = [
        replace(slot, vocabulary=(slot.generic, *((example,) if slot.name == "food" else ())))
        for slot in SLOTS
    ]
    router = router_of(HashEmbedder(dimension=4096), slots)
    assert await active(router, "unheard questions") == ("food",)


async def test_what_others_asked_before_changes_nothing(by_words: Router) -> None:
    """C4: no query leaves a trace that another app's query could meet."""
    before = await active(by_words, "dinner savings", granted("food", "finance"))
    for query in ("savings bank loans", "sleep", UNRELATED, "dinner " * 300):
        await active(by_words, query)
    assert await active(by_words, "dinner savings", granted("food", "finance")) == before


# --- follow-ups ---------------------------------------------------------------------------------


async def follow_up(
    router: Router, query: str, *earlier: str, named: tuple[str, ...] | None = None
) -> tuple[str, ...]:
    slots = await router.active_slots(query, EVERYTHING, named, earlier)
    return tuple(slot.name for slot in slots)


async def test_few_words_about_nothing_are_read_with_what_was_asked_before(
    by_words: Router,
) -> None:
    assert await follow_up(by_words, "and tomorrow", "meals dinner recipes") == ("food",)
    assert await follow_up(by_words, "and tomorrow", "savings bank loans", "meals dinner") == (
        "food",
    )
    assert await follow_up(by_words, "and tomorrow") == ()


async def test_follow_ups_lead_back_to_the_first_full_question_and_no_further(
    by_words: Router,
) -> None:
    assert await follow_up(by_words, "why", "meals dinner recipes", "and tomorrow") == ("food",)
    full = "why did the whole roman empire fall"
    assert len(full.split()) > FOLLOW_UP_WORDS
    assert await follow_up(by_words, "why", "meals dinner recipes", full) == ()


async def test_question_that_is_about_something_by_itself_is_no_follow_up(
    by_words: Router,
) -> None:
    assert await follow_up(by_words, "savings bank", "meals dinner recipes") == ("finance",)


async def test_question_of_many_words_is_no_follow_up(by_words: Router) -> None:
    full = "why did the whole roman empire fall"
    assert await follow_up(by_words, full, "meals dinner recipes") == ()


async def test_named_slots_are_active_whatever_was_asked_before(by_words: Router) -> None:
    assert await follow_up(by_words, "why", "meals dinner", named=("finance",)) == ("finance",)
    assert await follow_up(by_words, "why", "meals dinner", named=()) == ()


def test_router_is_given_nothing_that_holds_memory() -> None:
    assert list(inspect.signature(Router).parameters) == ["embedder"]
    assert list(inspect.signature(Router.active_slots).parameters) == [
        "self",
        "query",
        "grant",
        "requested",
        "earlier",
    ]


def test_thresholds_are_public_constants_that_leave_room() -> None:
    assert 0.0 < BESIDE < ABOUT < 1.0


# --- words of the policy ------------------------------------------------------------------------


def with_words(words: dict[str, tuple[str, ...]], never: dict[str, tuple[str, ...]]) -> Router:
    slots = [
        replace(
            slot,
            description=FOUR_WORDS[slot.name],
            vocabulary=(View(GENERIC, "Answer."),),
            words=words.get(slot.name, ()),
            never=never.get(slot.name, ()),
        )
        for slot in SLOTS
    ]
    return router_of(HashEmbedder(dimension=4096), slots)


async def test_a_word_makes_a_slot_active_whatever_the_descriptions_say() -> None:
    router = with_words({"finance": ("tax return",)}, {})
    assert await active(router, "my Tax-Return") == ("finance",)
    assert await active(router, "meals dinner recipes tax return") == ("food", "finance")
    assert await active(router, "a return of taxes") == ()


async def test_a_word_makes_no_other_slot_inactive() -> None:
    router = with_words({"finance": ("please",)}, {})
    assert await active(router, "meals dinner recipes please") == ("food", "finance")


async def test_a_word_activates_no_slot_that_is_not_granted() -> None:
    router = with_words({"finance": ("tax",)}, {})
    assert await active(router, "tax", granted("food", "health")) == ()


async def test_a_word_keeps_a_slot_out_as_if_it_were_not_granted() -> None:
    """The slot does not crowd out others either."""
    router = with_words({}, {"food": ("dog",)})
    assert await active(router, "meals dinner sleep") == ("food",)
    assert await active(router, "meals dinner sleep dog") == ("health",)
    assert await active(router, "meals dinner recipes dog") == ()


async def test_an_app_that_names_its_slots_is_not_bound_by_words() -> None:
    router = with_words({"finance": ("dinner",)}, {"food": ("dinner",)})
    assert await active(router, "dinner", named=("food",)) == ("food",)


async def test_words_count_in_what_a_follow_up_is_read_with() -> None:
    router = with_words({"finance": ("tax",)}, {})
    assert await follow_up(router, "and tomorrow", "my tax") == ("finance",)


# --- read rules ---------------------------------------------------------------------------------


def shopping_router() -> Router:
    """Of food, a query about shopping reads the groceries only."""
    rule = ReadRule(("shopping",), (ShelfName("food.groceries"),))
    slots = [replace(s, reads=(rule,)) if s.name == "food" else s for s in SLOTS]
    return router_of(HashEmbedder(dimension=4096), slots)


async def positions(router: Router, query: str, *earlier: str, named: bool = True) -> set[int]:
    slots = await router.active_slots(query, EVERYTHING, ("food",) if named else None, earlier)
    return {position for slot in slots for position in slot.positions}


async def test_active_slots_have_the_shelves_that_the_query_reads() -> None:
    router = shopping_router()
    assert await positions(router, "shopping") == {3}
    assert await positions(router, "dinner") == {2, 3}
    assert await positions(router, "meals dinner recipes shopping", named=False) == {3}
    assert await positions(router, "meals dinner recipes", named=False) == {2, 3}


async def test_a_follow_up_reads_what_the_queries_together_read() -> None:
    router = shopping_router()
    asked = "meals dinner recipes shopping"
    assert await positions(router, "and tomorrow", asked, named=False) == {3}
