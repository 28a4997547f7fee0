"""The model scorer: `c` and `s` from a read set's contents alone, always in the same time."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest
from tests.fakes.daemon_site import MEALS, PROMISES
from tests.fakes.fixed_randomness import HighestTicket
from tests.fakes.in_memory_charges import InMemoryCharges
from tests.fakes.in_memory_rows import InMemoryRows
from tests.fakes.kept_notices import KeptNotices
from tests.fakes.leaping_clock import LeapingClock
from tests.fakes.scripted_judge import Rule, ScriptedJudge
from tests.fakes.small_policies import slot as plain_slot

from tactful_core.interface import Ports, release_view
from tactful_core.layout import Slot, View
from tactful_core.scoring import Evidence, scores_from
from tactful_core.values import Position, Secret, SlotName, ViewName
from tactfuld import model_scorer
from tactfuld.clock import fixed_time
from tactfuld.inference.errors import ModelError
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.model_scorer import CERTAIN, ModelScorer, Seconds, capacities, judgement
from tactfuld.scorer import EmbeddingScorer

FOOD, HEALTH = (PROMISES.layout.slot(SlotName(name)) for name in ("food", "health"))
SWEETS = "I avoid sweets and sugary drinks since the spring."
CHEAP = "Money is short, so I buy the cheapest food in the shop."
CONTENTS = ((SWEETS, CHEAP), ("", ""), (CHEAP, SWEETS), ("🍋" * 300, "\udcff"), (SWEETS, ""))

Find = Callable[[ModelScorer, Sequence[str]], Awaitable[Evidence]]


class KeptTelling:
    """What was told about scoring."""

    def __init__(self) -> None:
        self.takes: list[Seconds] = []
        self.missed = 0

    def scoring_takes(self, seconds: Seconds) -> None:
        self.takes.append(seconds)

    def scoring_missed(self) -> None:
        self.missed += 1


def by_words(question: str, texts: tuple[str, ...]) -> float:
    """A model that says no to everything, to some statements more, and less where words agree."""
    words = {word for word in question.splitlines()[0].lower().split() if len(word) > 3}
    best = max((len(words & set(text.lower().split())) for text in texts), default=0)
    return CERTAIN * best / 4 - 3.0 - len(question) % 3


class Site:
    """A scorer, its judge, its clock, and what it told."""

    def __init__(self, rule: Rule = by_words) -> None:
        self.judge, self.clock, self.told = ScriptedJudge(rule), LeapingClock(), KeptTelling()
        # A judgement takes time, or a measurement of it would find none.
        self.judge.during = lambda _texts: self.clock_ticks(1.0)
        public = EmbeddingScorer(HashEmbedder())
        self.scorer = ModelScorer(public, self.judge, self.clock, self.told)
        self.scorer.prepare(PROMISES.layout.slots)

    def clock_ticks(self, seconds: float) -> None:
        self.clock.time += seconds


async def evidence_of(
    scorer: ModelScorer, rows: Sequence[str], slot: Slot = FOOD
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    found = await scorer.evidence(slot, Secret(tuple(rows)))
    return found.compatibility.reveal(), found.specificity.reveal()


# --- what the numbers are -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "view"),
    [((SWEETS, ""), "blood_sugar"), (("", CHEAP), "strict_budget"), (("", ""), "generic")],
)
async def test_rows_speak_for_the_view_that_the_model_says_yes_to(
    rows: tuple[str, ...], view: str
) -> None:
    compatibility, specificity = await evidence_of(Site().scorer, rows)
    for values in (compatibility, specificity):
        assert FOOD.vocabulary[values.index(max(values))].name == view


async def test_what_the_model_says_of_an_empty_shelf_counts_for_nothing() -> None:
    """Without notes it prefers one view, with notes it finds all a little likelier."""

    def biased(question: str, texts: tuple[str, ...]) -> float:
        return len(question) + (CERTAIN / 4 if any(texts) else 0.0)

    compatibility, _ = await evidence_of(Site(biased).scorer, (SWEETS, CHEAP))
    assert compatibility[1:] == pytest.approx([0.25] * (len(compatibility) - 1))
    assert (await evidence_of(Site(biased).scorer, ("", "")))[0][0] == 1.0


async def test_the_statement_that_fits_best_counts_for_its_view() -> None:
    """And where a view has no statement, its guidance is asked about."""
    bare = View(ViewName("bare"), "Suggest a walk.")
    slot = replace(FOOD, vocabulary=(*FOOD.vocabulary, bare))
    best = FOOD.vocabulary[1].supports[-1]

    def rule(question: str, texts: tuple[str, ...]) -> float:
        rise = {best: 0.75, bare.guidance: 0.25}
        fits = [part for text, part in rise.items() if text in question]
        return CERTAIN * sum(fits) if any(texts) else 0.0

    compatibility, _ = await evidence_of(Site(rule).scorer, (SWEETS, CHEAP), slot)
    others = [0.0] * (len(slot.vocabulary) - 3)
    assert compatibility == pytest.approx((0.25, 0.75, *others, 0.25))


@pytest.mark.parametrize("rise", [-1e9, -0.1, 0.0, 0.3, 1e9, math.inf, -math.inf, math.nan])
async def test_any_answer_of_the_model_is_a_part_of_one(rise: float) -> None:
    await require_parts_of_one(rise)


@pytest.mark.parametrize("rise", [-1e9, 1e9, math.inf, math.nan])
async def test_parts_that_are_not_clipped_are_found(
    rise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above."""
    monkeypatch.setattr(model_scorer, "_part", lambda odds: odds / CERTAIN)
    with pytest.raises(AssertionError):
        await require_parts_of_one(rise)


async def require_parts_of_one(rise: float) -> None:
    def rule(question: str, texts: tuple[str, ...]) -> float:
        return rise if any(texts) and "budget" not in question else 0.0

    scorer = Site(rule).scorer
    relevance = await scorer.relevance("What is for dinner?", FOOD)
    parts = await evidence_of(scorer, (SWEETS, CHEAP))
    scores_from(relevance, Evidence(Secret(parts[0]), Secret(parts[1])))
    for part in parts:
        assert len(part) == len(FOOD.vocabulary)
        assert all(0.0 <= value <= 1.0 for value in part)


async def test_slot_with_the_generic_view_alone_has_evidence() -> None:
    only = plain_slot("food", (1, 2), ())
    assert await evidence_of(Site().scorer, (SWEETS, CHEAP), only) == ((1.0,), (1.0,))


async def test_relevance_is_that_of_the_embeddings() -> None:
    public = EmbeddingScorer(HashEmbedder())
    public.prepare(PROMISES.layout.slots)
    query = "What is an affordable dinner for tonight?"
    assert await Site().scorer.relevance(query, FOOD) == await public.relevance(query, FOOD)


# --- the same work, and the same time -------------------------------------------------------------


async def plainly(scorer: ModelScorer, rows: Sequence[str]) -> Evidence:
    return await scorer.evidence(FOOD, Secret(tuple(rows)))


def remembering() -> Find:
    """A mutant: it does not ask again about what it was asked about before."""
    kept: dict[tuple[str, ...], Evidence] = {}

    async def find(scorer: ModelScorer, rows: Sequence[str]) -> Evidence:
        if tuple(rows) not in kept:
            kept[tuple(rows)] = await plainly(scorer, rows)
        return kept[tuple(rows)]

    return find


def skipping() -> Find:
    """A mutant: it does not ask the model about nothing."""

    async def find(scorer: ModelScorer, rows: Sequence[str]) -> Evidence:
        if not any(rows):
            return Evidence(Secret((1.0, 0.0)), Secret((1.0, 0.0)))
        return await plainly(scorer, rows)

    return find


async def require_the_same_work(find: Find) -> None:
    """Each time the same is asked, once, with the same room for notes, and it takes the same."""
    site = Site()
    await find(site.scorer, CONTENTS[0])
    for rows in (*CONTENTS, *CONTENTS):
        site.judge.asked.clear()
        began = site.clock.time
        await find(site.scorer, rows)
        assert site.judge.asked == [(judgement(FOOD), capacities(FOOD))]
        assert site.clock.time - began == pytest.approx(await site.scorer.seconds(FOOD))


async def test_the_same_is_asked_whatever_is_there_and_was_asked_before() -> None:
    await require_the_same_work(plainly)


@pytest.mark.parametrize("mutant", [remembering, skipping])
async def test_work_that_depends_on_contents_is_found(mutant: Callable[[], Find]) -> None:
    """The control of the test above."""
    with pytest.raises(AssertionError):
        await require_the_same_work(mutant())


async def require_the_same_time(site: Site, fails: bool) -> None:
    """However long the model takes, and if it fails too, evidence takes what was measured."""
    taken = await site.scorer.seconds(FOOD)
    await plainly(site.scorer, CONTENTS[0])

    def during(texts: tuple[str, ...]) -> None:
        site.clock_ticks(taken * min(0.9, 0.1 + sum(map(len, texts)) / 200))
        if fails:
            raise ModelError("It fails.")

    site.judge.during = during
    for rows in CONTENTS:
        began = site.clock.time
        if fails:
            with pytest.raises(ModelError):
                await plainly(site.scorer, rows)
        else:
            await plainly(site.scorer, rows)
        assert site.clock.time - began == pytest.approx(taken)


@pytest.mark.parametrize("fails", [False, True])
async def test_evidence_takes_what_was_measured(fails: bool) -> None:
    site = Site()
    await require_the_same_time(site, fails)
    assert site.told.missed == 0


async def test_time_that_depends_on_contents_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test above: a scorer that answers as soon as it can."""
    monkeypatch.setattr(
        model_scorer, "fixed_time", lambda clock, _seconds, missed: fixed_time(clock, 1e-6, missed)
    )
    with pytest.raises(AssertionError):
        await require_the_same_time(Site(), fails=False)


async def test_what_takes_longer_ends_at_the_next_multiple_and_is_told() -> None:
    site = Site()
    taken = await site.scorer.seconds(FOOD)
    await plainly(site.scorer, CONTENTS[0])
    site.judge.during = lambda _texts: site.clock_ticks(1.5 * taken)
    began = site.clock.time
    await plainly(site.scorer, CONTENTS[0])
    assert site.clock.time - began == pytest.approx(2 * taken)
    assert site.told.missed == 1


async def test_time_follows_from_the_read_set_and_is_told_when_it_is_measured() -> None:
    site = Site()
    await site.scorer.measure()
    told = site.told.takes[-1]
    assert set(told) == {slot.name for slot in PROMISES.layout.slots}
    assert told[FOOD.name] == await site.scorer.seconds(FOOD)
    asked = judgement(FOOD)
    tokens = [await site.judge.tokens(asked, sizes) for sizes in ((48,), capacities(FOOD))]
    part = FOOD.reading([FOOD.shelves[0].name])
    assert await site.scorer.seconds(part) == pytest.approx(told[FOOD.name] * tokens[0] / tokens[1])


# --- the contents of the read set alone -----------------------------------------------------------


async def found_through_the_core(
    memories: dict[Position, str], site: Site, notices: KeptNotices
) -> None:
    """Algorithm 1 with this scorer."""
    memory = InMemoryRows(memories)
    ports = Ports(InMemoryCharges(), memory, site.scorer, HighestTicket(), notices)
    await release_view(MEALS, "What is for dinner?", FOOD, PROMISES, ports)


@pytest.mark.parametrize("elsewhere", ["", SWEETS, CHEAP])
async def test_rows_outside_the_read_set_are_not_shown_to_the_model(elsewhere: str) -> None:
    site, shown = Site(), list[tuple[str, ...]]()
    await plainly(site.scorer, CONTENTS[1])
    await evidence_of(site.scorer, tuple(elsewhere for _ in HEALTH.positions), HEALTH)
    site.judge.during = shown.append
    memories = {Position(p): elsewhere for p in (1, 4, 5)}
    memories |= {Position(2): SWEETS, Position(3): CHEAP}
    await found_through_the_core(memories, site, KeptNotices())
    assert shown == [(SWEETS, CHEAP)]


async def test_a_failing_model_speaks_for_no_view_and_the_owner_is_told() -> None:
    site, notices = Site(), KeptNotices()
    await plainly(site.scorer, CONTENTS[0])

    def fail(_texts: tuple[str, ...]) -> None:
        raise ModelError("It fails.")

    site.judge.during = fail
    await found_through_the_core({Position(2): SWEETS}, site, notices)
    assert notices.failed_slots == [FOOD.name]


async def test_rows_of_another_number_are_refused() -> None:
    """A read set has as many rows as positions; what is not understood must not be guessed at."""
    with pytest.raises(ValueError, match="zip"):
        await plainly(Site().scorer, (SWEETS,))
