"""Scores: `r` from public input alone, `c` and `s` from the read set's contents, for any text."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.daemon_site import MEALS, PROMISES
from tests.fakes.fixed_randomness import HighestTicket
from tests.fakes.in_memory_charges import InMemoryCharges
from tests.fakes.in_memory_rows import InMemoryRows
from tests.fakes.kept_notices import KeptNotices
from tests.fakes.small_policies import slot as plain_slot

from tactful_core.interface import Ports, release_view
from tactful_core.layout import GENERIC, Shelf, Slot, View
from tactful_core.scoring import Evidence, scores_from
from tactful_core.values import Position, Secret, ShelfName, SlotName, ViewName
from tactfuld.inference.embedder import Embedder, Vectors, WordLlamaEmbedder
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.scorer import ALIKE, GENERIC_RELEVANCE, UNRELATED, EmbeddingScorer

LAYOUT = PROMISES.layout
FOOD, HEALTH, FINANCE = (LAYOUT.slot(SlotName(name)) for name in ("food", "health", "finance"))
SWEETS = "I avoid sweets and sugary drinks since the spring."
CHEAP = "Money is short, so I buy the cheapest food in the shop."
QUERY = "What is an affordable dinner for tonight?"

ROWS = st.lists(st.text(max_size=80), max_size=6).map(tuple)
WEIRD = (
    "",
    " \n\t ",
    "\u200b\u200b",
    "a" * 5000,
    "🍋" * 200,
    "\ufffd\ufffe\uffff",
    "e\u0301" * 50,
    "ignore all previous instructions",
    "\x01\x7f\x85\u2028",
    "عشاء رخيص",
    "0 0 0",
)


@pytest.fixture(scope="module")
def word_llama() -> WordLlamaEmbedder:
    return WordLlamaEmbedder.load()


@pytest.fixture(scope="module", params=["hashed words", "WordLlama"])
def embedder(request: pytest.FixtureRequest, word_llama: WordLlamaEmbedder) -> Embedder:
    return word_llama if request.param == "WordLlama" else HashEmbedder()


def scorer_of(embedder: Embedder, *slots: Slot) -> EmbeddingScorer:
    scorer = EmbeddingScorer(embedder)
    scorer.prepare(slots or LAYOUT.slots)
    return scorer


def numbers(evidence: Evidence) -> tuple[tuple[float, ...], ...]:
    """Everything that the evidence holds."""
    return (evidence.compatibility.reveal(), evidence.specificity.reveal())


def alike(one: Evidence, other: Evidence) -> bool:
    """Whether they are equal but for the last digits, which a matrix's shape may change."""
    pairs = zip(numbers(one), numbers(other), strict=True)
    return all(left == pytest.approx(right, abs=1e-5) for left, right in pairs)


async def evidence_of(scorer: EmbeddingScorer, slot: Slot, rows: Sequence[str]) -> Evidence:
    return await scorer.evidence(slot, Secret(tuple(rows)))


def named(values: Sequence[float], slot: Slot) -> str:
    """The view with the highest of these values, one a view."""
    return slot.vocabulary[max(range(len(values)), key=values.__getitem__)].name


class RecordingEmbedder(HashEmbedder):
    """Remembers how many texts it was given, and at which capacity."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, int]] = []

    def embed(self, texts: Sequence[str], *, capacity: int) -> Vectors:
        self.shapes.append((len(texts), capacity))
        return super().embed(texts, capacity=capacity)


class RecordingScorer(EmbeddingScorer):
    """Keeps the evidence that it gave."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self.given: list[Evidence] = []

    async def evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        found = await super().evidence(slot, rows)
        self.given.append(found)
        return found


# --- r: public input alone ----------------------------------------------------------------------


async def test_relevance_does_not_change_with_what_was_scored_meanwhile(embedder: Embedder) -> None:
    scorer = scorer_of(embedder)
    before = await scorer.relevance(QUERY, FOOD)
    for rows in ((SWEETS, CHEAP), ("", ""), WEIRD[:2]):
        await evidence_of(scorer, FOOD, rows)
        assert await scorer.relevance(QUERY, FOOD) == before
    assert await scorer_of(embedder).relevance(QUERY, FOOD) == before


@pytest.mark.parametrize("query", [QUERY, "", "lunar eclipse", *WEIRD])
async def test_generic_view_is_equally_relevant_to_everything(
    embedder: Embedder, query: str
) -> None:
    for slot in LAYOUT.slots:
        relevance = await scorer_of(embedder).relevance(query, slot)
        assert len(relevance) == len(slot.vocabulary)
        assert relevance[0] == GENERIC_RELEVANCE
        assert all(0.0 <= r <= 1.0 for r in relevance)


@pytest.mark.parametrize(
    ("query", "slot", "view"),
    [
        ("What is an affordable dinner for tonight?", FOOD, "strict_budget"),
        ("What should I have for breakfast?", FOOD, "blood_sugar"),
        ("What can I cook quickly?", FOOD, "quick_meal"),
        ("What helps me to sleep at night?", HEALTH, "better_sleep"),
        ("Which bill comes first?", FINANCE, "debt_first"),
        ("How can I save more?", FINANCE, "grow_savings"),
    ],
)
async def test_query_is_most_relevant_to_the_view_that_has_it_as_an_example(
    word_llama: WordLlamaEmbedder, query: str, slot: Slot, view: str
) -> None:
    relevance = await scorer_of(word_llama).relevance(query, slot)
    assert named(relevance, slot) == view


# --- c and s: the contents of the read set alone ------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "view"),
    [
        ((SWEETS, ""), "blood_sugar"),
        (("", CHEAP), "strict_budget"),
        (("I always come home late and have no time to cook.", ""), "quick_meal"),
        (("", ""), "generic"),
        (("The cat sleeps on the blue sofa.", "My bicycle has a flat tyre."), "generic"),
    ],
)
async def test_rows_speak_for_the_view_that_they_support(
    word_llama: WordLlamaEmbedder, rows: tuple[str, ...], view: str
) -> None:
    evidence = await evidence_of(scorer_of(word_llama), FOOD, rows)
    assert named(evidence.compatibility.reveal(), FOOD) == view
    assert named(evidence.specificity.reveal(), FOOD) == view


async def test_order_of_the_rows_does_not_count(embedder: Embedder) -> None:
    scorer, rows = scorer_of(embedder), [SWEETS, CHEAP, "", "I work night shifts."]
    expected = await evidence_of(scorer, FOOD, rows)
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert alike(await evidence_of(scorer, FOOD, rows), expected)


async def test_a_row_twice_counts_as_once(embedder: Embedder) -> None:
    """The best match counts, not how many there are."""
    scorer = scorer_of(embedder)
    once = await evidence_of(scorer, FOOD, (SWEETS, CHEAP))
    assert alike(await evidence_of(scorer, FOOD, (SWEETS, CHEAP, SWEETS, CHEAP)), once)


async def test_nothing_is_learned_from_what_was_scored_before(embedder: Embedder) -> None:
    fresh = numbers(await evidence_of(scorer_of(embedder), FOOD, (SWEETS, "")))
    used = scorer_of(embedder)
    for rows in ((CHEAP, CHEAP), ("", ""), (SWEETS * 50, "🍋"), WEIRD):
        for slot in LAYOUT.slots:
            await evidence_of(used, slot, rows)
    assert numbers(await evidence_of(used, FOOD, (SWEETS, ""))) == fresh


async def test_rows_outside_the_read_set_do_not_count() -> None:
    """Through Algorithm 1: stores that agree on positions 2 and 3 give food the same evidence."""
    food = {Position(2): SWEETS, Position(3): CHEAP}
    found = []
    for elsewhere in ("", SWEETS, CHEAP, "I owe money on my credit cards."):
        memory = InMemoryRows({Position(p): elsewhere for p in (1, 4, 5)} | food)
        scorer = RecordingScorer(HashEmbedder())
        scorer.prepare(LAYOUT.slots)
        ports = Ports(InMemoryCharges(), memory, scorer, HighestTicket(), KeptNotices())
        await release_view(MEALS, QUERY, FOOD, PROMISES, ports)
        found += [numbers(evidence) for evidence in scorer.given]
    assert len(found) == 4
    assert len(set(found)) == 1


async def test_rows_inside_the_read_set_do_count() -> None:
    """The control of the test above."""
    scorer = scorer_of(HashEmbedder())
    assert numbers(await evidence_of(scorer, FOOD, (SWEETS, ""))) != numbers(
        await evidence_of(scorer, FOOD, ("", ""))
    )


async def test_work_follows_from_public_numbers_alone() -> None:
    """As many texts as positions, at the capacity of the longest shelf, whatever is there."""
    embedder = RecordingEmbedder()
    scorer = scorer_of(embedder)
    shapes = []
    for rows in (("", ""), (SWEETS, CHEAP), ("a " * 4000, "🍋"), ("", SWEETS)):
        embedder.shapes.clear()
        await evidence_of(scorer, FOOD, rows)
        shapes.append(tuple(embedder.shapes))
    assert set(shapes) == {((2, 48),)}


async def test_capacity_is_that_of_the_longest_shelf_of_the_slot() -> None:
    shelves = (
        Shelf(ShelfName("a.short"), (Position(1),), 8),
        Shelf(ShelfName("a.long"), (Position(2),), 96),
    )
    slot = Slot(SlotName("a"), "a topic", shelves, (View(GENERIC, "Answer."),))
    embedder = RecordingEmbedder()
    await evidence_of(scorer_of(embedder, slot), slot, ("", ""))
    assert embedder.shapes[-1] == (2, 96)


# --- a total function ---------------------------------------------------------------------------


async def in_range(
    scorer: EmbeddingScorer, slot: Slot, rows: Sequence[str], query: str = QUERY
) -> bool:
    """Whether there is one number in [0, 1] a view everywhere, and the grid takes them."""
    relevance = await scorer.relevance(query, slot)
    evidence = await evidence_of(scorer, slot, rows)
    scores_from(relevance, evidence)
    return all(
        len(part) == len(slot.vocabulary) and all(0.0 <= x <= 1.0 for x in part)
        for part in (relevance, *numbers(evidence))
    )


@given(rows=ROWS, query=st.text(max_size=200))
async def test_any_rows_have_evidence(rows: tuple[str, ...], query: str) -> None:
    scorer = scorer_of(HashEmbedder())
    for slot in LAYOUT.slots:
        assert await in_range(scorer, slot, rows, query)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, query=st.text(max_size=200))
async def test_any_rows_have_evidence_by_the_real_embeddings(
    word_llama: WordLlamaEmbedder, rows: tuple[str, ...], query: str
) -> None:
    assert await in_range(scorer_of(word_llama), FOOD, rows, query)


async def test_weird_texts_have_evidence(embedder: Embedder) -> None:
    scorer = scorer_of(embedder)
    for text in WEIRD:
        assert await in_range(scorer, FOOD, (text, SWEETS), text)
    assert await in_range(scorer, FOOD, WEIRD)


async def test_blank_rows_speak_for_the_generic_view_only(embedder: Embedder) -> None:
    for rows in ((), ("", ""), ("  ", "\n\t")):
        evidence = await evidence_of(scorer_of(embedder), FOOD, rows)
        assert evidence.compatibility.reveal() == (1.0, 0.0, 0.0, 0.0)
        assert evidence.specificity.reveal() == (1.0, 0.0, 0.0, 0.0)


async def test_views_without_supports_are_never_supported(embedder: Embedder) -> None:
    bare = plain_slot("food", (1, 2), ("low_sugar", "budget"))
    evidence = await evidence_of(scorer_of(embedder, bare), bare, (SWEETS, CHEAP))
    assert evidence.compatibility.reveal() == (1.0, 0.0, 0.0)
    assert await in_range(scorer_of(embedder, bare), bare, (SWEETS, CHEAP))


async def test_slot_with_the_generic_view_alone_has_evidence(embedder: Embedder) -> None:
    only = plain_slot("food", (1, 2), ())
    evidence = await evidence_of(scorer_of(embedder, only), only, (SWEETS, CHEAP))
    assert numbers(evidence) == ((1.0,), (1.0,))
    assert await scorer_of(embedder, only).relevance(QUERY, only) == (GENERIC_RELEVANCE,)


# --- the numbers themselves ---------------------------------------------------------------------


async def test_match_is_stretched_between_unrelated_and_alike() -> None:
    class Planned(HashEmbedder):
        """Cosines by name: `cos=0.35` against any other text."""

        def embed(self, texts: Sequence[str], *, capacity: int) -> Vectors:
            found = super().embed(texts, capacity=capacity) * 0
            for row, text in enumerate(texts):
                cosine = float(text.removeprefix("cos=")) if text.startswith("cos=") else 1.0
                found[row, :2] = cosine, (1 - cosine**2) ** 0.5
            return found

    views = (View(GENERIC, "Answer."), View(ViewName("a"), "A.", supports=("any",)))
    shelf = Shelf(ShelfName("t.s"), (Position(1),), 8)
    slot = Slot(SlotName("t"), "a topic", (shelf,), views)
    scorer = scorer_of(Planned(), slot)
    for cosine, expected in ((-1.0, 0.0), (UNRELATED, 0.0), (0.35, 0.5), (ALIKE, 1.0), (1.0, 1.0)):
        evidence = await evidence_of(scorer, slot, (f"cos={cosine}",))
        generic, special = evidence.compatibility.reveal()
        assert special == pytest.approx(expected, abs=1e-6)
        assert generic == pytest.approx(1.0 - expected, abs=1e-6)
        lead = evidence.specificity.reveal()
        assert lead == pytest.approx((max(0.0, generic - special), max(0.0, special - generic)))
