"""What an app is told is left: it is what then happens, and it tells nothing else.

Two implementations that are broken on purpose show that the checks can fail.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes import daemon_site
from tests.fakes.daemon_site import GUEST, NOBODY, STRANGER, Site, site
from tests.fakes.in_memory_charges import InMemoryCharges
from tests.fakes.in_memory_rows import InMemoryRows
from tests.fakes.kept_notices import KeptNotices
from tests.fakes.naming_scorer import NamingScorer
from tests.fakes.running import run_now
from tests.fakes.small_policies import (
    COACH,
    FINANCE,
    FOOD,
    HEALTH,
    MEALS,
    attribute,
    figure_two,
    promises_for,
    slot,
)

from tactful.errors import Denied
from tactful.wire import AnswerKind, Ask, Budget, SlotBudget
from tactful_core.allocation import Allocation, Online, Preallocated, Standing
from tactful_core.entries import Mechanism
from tactful_core.interface import Ports, Release, Source, release_view
from tactful_core.layout import Layout, Slot
from tactful_core.ledger import Ledger, UnreadableLedger
from tactful_core.promises import Promises
from tactful_core.sampling import Randomness, SystemRandomness
from tactful_core.values import AppId, AttributeName, Position, ShelfName, SlotName
from tactfuld.budget import slot_budget
from tactfuld.open_turn import FusedSpent

KINDS = {
    Source.DRAWN: AnswerKind.FRESH,
    Source.UNPROTECTED: AnswerKind.FRESH,
    Source.STANDING: AnswerKind.STANDING,
    Source.GENERIC: AnswerKind.GENERIC,
}
QUERIES = ("one", "two", "generic", "one=0.4 two=0.5 generic=0.3", "")


# --- what is told is what happens ---------------------------------------------------------------


class Daemon:
    """The core's own release of views, over a ledger in memory."""

    def __init__(self, promises: Promises, randomness: Randomness | None = None) -> None:
        self.promises = promises
        self.charges = InMemoryCharges()
        self.ports = Ports(
            self.charges,
            InMemoryRows({Position(p): "two" for p in range(1, promises.layout.size + 1)}),
            NamingScorer(),
            randomness or SystemRandomness(),
            KeptNotices(),
        )

    def ask(self, app: AppId, query: str, slot: Slot) -> Release:
        return run_now(release_view(app, query, slot, self.promises, self.ports))

    def budget(self, app: AppId, slot: Slot) -> SlotBudget:
        return slot_budget(app, slot, self.promises, self.charges.snapshot())

    def quote(self, app: AppId, query: str, slot: Slot) -> SlotBudget:
        suits = run_now(self.ports.scorer.relevance(query, slot))
        return slot_budget(app, slot, self.promises, self.charges.snapshot(), suits)


SIZES = st.lists(st.integers(1, 2), min_size=1, max_size=3)
CAPS = st.sampled_from(["0.5", "1", "1.5", "2", "0.001"])


@st.composite
def small_promises(draw: st.DrawFn) -> Promises:
    """Up to three slots, up to three attributes over any positions, each rule, each mechanism."""
    sizes, slots, after = draw(SIZES), list[Slot](), 1
    for number, size in enumerate(sizes):
        views = draw(st.sampled_from([("one", "two"), ("one",), ()]))
        slots.append(
            slot(f"s{number}", range(after, after + size), views, unprotected=draw(st.booleans()))
        )
        after += size
    covered = st.sets(st.integers(1, after - 1), min_size=1)
    groups = draw(st.lists(st.tuples(covered, CAPS), max_size=3))
    attributes = tuple(attribute(f"a{n}", where, cap) for n, (where, cap) in enumerate(groups))
    names = [a.name for a in attributes]
    share = st.sampled_from(["0.25", "0.5"])
    quota = draw(st.dictionaries(st.sampled_from(names), share)) if names else {}
    also = st.frozensets(st.sampled_from(names)) if names else st.just(frozenset[AttributeName]())
    return promises_for(
        Layout(tuple(slots), attributes),
        allocation=draw(allocations(names, [each.name for each in slots])),
        mechanism=draw(st.sampled_from(Mechanism)),
        charge_also={each.name: draw(also) for each in slots},
        quotas={COACH: {str(name): most for name, most in quota.items()}},
    )


def allocations(
    names: Sequence[AttributeName], slots: Sequence[SlotName]
) -> st.SearchStrategy[Allocation]:
    counts = st.integers(1, 5)
    return st.one_of(
        counts.map(Online),
        counts.map(lambda count: Preallocated(dict.fromkeys(names, count))),
        st.builds(
            Standing, st.integers(2, 3), counts, st.dictionaries(st.sampled_from(slots), counts)
        ),
    )


APPS = st.sampled_from([MEALS, COACH])
EARLIER = st.lists(st.tuples(APPS, st.sampled_from(QUERIES), st.integers(0, 2)), max_size=6)


@settings(max_examples=200)
@given(small_promises(), EARLIER, APPS, st.sampled_from(QUERIES), st.integers(0, 2))
def test_a_quote_is_what_the_question_gets(
    promises: Promises,
    earlier: list[tuple[AppId, str, int]],
    app: AppId,
    query: str,
    number: int,
) -> None:
    daemon, slots = Daemon(promises), promises.layout.slots
    for who, what, which in earlier:
        daemon.ask(who, what, slots[which % len(slots)])
    asked = slots[number % len(slots)]
    quoted, before = daemon.quote(app, query, asked), daemon.charges.entries
    assert daemon.charges.entries == before, "a quote writes nothing"
    release = daemon.ask(app, query, asked)
    assert quoted.answer == KINDS[release.source]
    if release.source is Source.DRAWN:
        assert quoted.fresh_left is not None
        assert quoted.fresh_left >= 1


@settings(max_examples=200)
@given(small_promises(), EARLIER, APPS, st.integers(0, 2))
def test_exactly_so_many_fresh_answers_are_left_as_a_budget_says(
    promises: Promises, earlier: list[tuple[AppId, str, int]], app: AppId, number: int
) -> None:
    """Asked alone, and so that no standing view fits; then it is at most so many, for a draw can
    make the belief certain enough."""
    daemon, slots = Daemon(promises), promises.layout.slots
    for who, what, which in earlier:
        daemon.ask(who, what, slots[which % len(slots)])
    asked = slots[number % len(slots)]
    told = daemon.budget(app, asked)
    if told.fresh_left is None:
        assert daemon.ask(app, "one", asked).source is Source.UNPROTECTED
        return
    fresh = 0
    while daemon.quote(app, "generic", asked).answer is AnswerKind.FRESH:
        assert daemon.ask(app, "generic", asked).source is Source.DRAWN
        fresh += 1
    if isinstance(promises.allocation, Standing):
        assert fresh <= told.fresh_left
        assert (fresh > 0) <= (told.fresh_left > 0)
    else:
        assert fresh == told.fresh_left
        assert daemon.ask(app, "one", asked).source is Source.GENERIC
        assert daemon.budget(app, asked).fresh_left == 0


def test_online_counts_down_with_every_answer_and_for_everybody() -> None:
    daemon = Daemon(figure_two())
    food, finance = (daemon.promises.layout.slot(name) for name in (FOOD, FINANCE))
    seen = []
    for _ in range(4):
        seen.append(daemon.budget(MEALS, food).fresh_left)
        daemon.ask(COACH, "budget", food)
    assert seen == [3, 2, 1, 0]
    assert daemon.budget(COACH, finance) == SlotBudget(
        slot="finance", answer=AnswerKind.GENERIC, fresh_left=0
    )


def test_quota_of_an_app_counts_for_that_app() -> None:
    daemon = Daemon(figure_two(coach_quota={"debt": "1"}))
    finance = daemon.promises.layout.slot(FINANCE)
    assert daemon.budget(COACH, finance).fresh_left == 1
    assert daemon.budget(MEALS, finance).fresh_left == 3


def test_standing_view_is_told_and_costs_nothing() -> None:
    daemon = Daemon(figure_two(allocation=Standing()))
    health = daemon.promises.layout.slot(HEALTH)
    told = [daemon.budget(MEALS, health)]
    daemon.ask(MEALS, "calm", health)
    told.append(daemon.budget(MEALS, health))
    assert [(each.answer, each.fresh_left) for each in told] == [
        (AnswerKind.FRESH, 1),
        (AnswerKind.STANDING, 0),
    ]
    assert daemon.ask(COACH, "calm active", health).source is Source.STANDING


def test_released_view_that_does_not_fit_the_question_is_not_quoted() -> None:
    """`budget` knows no question: it says that there is a standing view; `quote` knows better."""
    daemon = Daemon(figure_two(allocation=Standing()), randomness=Second())
    health = daemon.promises.layout.slot(HEALTH)
    assert daemon.ask(MEALS, "calm", health).view.name != "generic"
    assert daemon.budget(MEALS, health).answer is AnswerKind.STANDING
    assert daemon.quote(MEALS, "generic", health).answer is AnswerKind.GENERIC
    assert daemon.ask(MEALS, "generic", health).source is Source.GENERIC


class Second:
    """Always draws the last candidate."""

    def below(self, limit: int) -> int:
        return limit - 1


def test_share_that_is_closed_by_another_slot_is_none_left() -> None:
    """Both slots pay debt; a lowered cap leaves room for neither."""
    daemon = Daemon(figure_two(allocation=Standing()))
    daemon.ask(MEALS, "frugal", daemon.promises.layout.slot(FINANCE))
    daemon.promises = figure_two(allocation=Standing(), debt_cap="0.5")
    food = daemon.promises.layout.slot(FOOD)
    assert daemon.budget(MEALS, food).fresh_left == 0
    assert daemon.ask(MEALS, "budget", food).source is Source.GENERIC


def test_unreadable_and_exhausted_ledgers_leave_nothing() -> None:
    promises = figure_two()
    for ledger in (UnreadableLedger(), Ledger(epoch=1).until_next_epoch()):
        for each in promises.layout.slots:
            assert slot_budget(MEALS, each, promises, ledger) == SlotBudget(
                slot=each.name, answer=AnswerKind.GENERIC, fresh_left=0
            )


def test_slots_that_cannot_or_need_not_pay() -> None:
    layout = Layout(
        (
            slot("open", (1,), ("one",), unprotected=True),
            slot("bare", (2,), ("one",)),
            slot("mute", (3,), ()),
        ),
        (attribute("a", (3,), "1"),),
    )
    told = [
        slot_budget(MEALS, each, promises_for(layout), Ledger(epoch=1)) for each in layout.slots
    ]
    assert [(each.slot, each.answer, each.fresh_left) for each in told] == [
        ("open", AnswerKind.FRESH, None),
        ("bare", AnswerKind.GENERIC, 0),
        ("mute", AnswerKind.GENERIC, 0),
    ]


# --- through the gate ---------------------------------------------------------------------------

ALL = Ask(query="What is an affordable dinner for tonight?")
FOOD_ONLY = ALL.model_copy(update={"slots": ("food",)})


async def drop(_piece: str) -> None:
    """Nobody listens."""


def under(allocation: Allocation) -> Promises:
    return replace(daemon_site.PROMISES, allocation=allocation)


@pytest.mark.parametrize("allocation", [Online(3), Standing()], ids=["online", "standing"])
async def test_budget_has_the_granted_slots_and_quote_the_active_ones(
    profile_dir: Path, allocation: Allocation
) -> None:
    async with site(profile_dir, promises=under(allocation)) as at:
        assert [s.slot for s in at.gate.budget(MEALS).slots] == ["health", "food", "finance"]
        assert [s.slot for s in at.gate.budget(GUEST).slots] == ["food"]
        quoted = await at.gate.quote(MEALS, ALL.model_copy(update={"slots": ("finance", "food")}))
        assert [s.slot for s in quoted.slots] == ["food", "finance"]
        assert (await at.gate.quote(MEALS, ALL.model_copy(update={"slots": ()}))).slots == ()


@pytest.mark.parametrize("allocation", [Online(3), Standing()], ids=["online", "standing"])
async def test_asking_what_is_left_costs_nothing_and_leaves_no_trace(
    profile_dir: Path, allocation: Allocation
) -> None:
    async with site(profile_dir, promises=under(allocation)) as at:
        before, first = await at.ledger.entries(), await at.gate.quote(MEALS, FOOD_ONLY)
        for _ in range(3):
            at.gate.budget(MEALS)
            assert await at.gate.quote(MEALS, FOOD_ONLY) == first
        assert await at.ledger.entries() == before
        assert at.engine.prompts == []
        assert not any(at.spent().values())
        await at.gate.ask(MEALS, FOOD_ONLY, drop)
        assert await at.gate.quote(MEALS, FOOD_ONLY) != first


async def test_quoted_questions_do_not_count_for_what_the_app_asks_later(
    profile_dir: Path,
) -> None:
    async with site(profile_dir, promises=under(Standing())) as at:
        food = at.promises.layout.slot(SlotName("food"))
        nothing = (0.0,) * len(food.vocabulary)
        for _ in range(3):
            await at.gate.quote(MEALS, FOOD_ONLY)
        assert at.gate._interest.including(MEALS, food.name, nothing) == nothing
        await at.gate.ask(MEALS, FOOD_ONLY, drop)
        assert at.gate._interest.including(MEALS, food.name, nothing) != nothing


async def test_quote_agrees_with_the_turn_that_follows_it(profile_dir: Path) -> None:
    rules: tuple[Allocation, ...] = (Online(2), Standing(), Standing(releases=2))
    for number, allocation in enumerate(rules):
        folder = profile_dir / str(number)
        folder.mkdir()
        async with site(folder, promises=under(allocation)) as at:
            for query in ("Cheap dinner?", "A quick meal?", "Which snack?", "How are you?"):
                question = Ask(query=query, slots=("food",))
                (quoted,) = (await at.gate.quote(GUEST, question)).slots
                assert quoted.answer == KINDS[await source_of(at, question)]


async def source_of(at: Site, question: Ask) -> Source:
    sources: list[Source] = []

    class Watcher:
        def started(self, turn: int, app: AppId, query: str, releases: tuple[Release, ...]) -> None:
            sources.extend(release.source for release in releases)

        def text(self, turn: int, piece: str) -> None: ...

        def fused(self, turn: int, spent: FusedSpent) -> None: ...

        def finished(self, turn: int, answer: str) -> None: ...

    with at.gate.watching(GUEST, Watcher()):
        await at.gate.ask(GUEST, question, drop)
    (source,) = sources
    return source


@pytest.mark.parametrize("app", [STRANGER, NOBODY])
async def test_an_app_without_a_grant_is_told_nothing(profile_dir: Path, app: AppId) -> None:
    async with site(profile_dir) as at:
        with pytest.raises(Denied):
            at.gate.budget(app)
        for question in (ALL, FOOD_ONLY):
            with pytest.raises(Denied):
                await at.gate.quote(app, question)


async def test_quote_for_a_slot_that_is_not_granted_is_denied_like_the_question(
    profile_dir: Path,
) -> None:
    question = ALL.model_copy(update={"slots": ("food", "finance")})
    async with site(profile_dir) as at:
        with pytest.raises(Denied) as refused:
            await at.gate.quote(GUEST, question)
        with pytest.raises(Denied) as asked:
            await at.gate.ask(GUEST, question, drop)
        assert str(refused.value) == str(asked.value)


# --- what it must not tell, and two implementations that do -------------------------------------

Tells = Callable[[Site, AppId, Ask], Awaitable[Budget]]


async def budget(at: Site, app: AppId, _question: Ask) -> Budget:
    return at.gate.budget(app)


async def quote(at: Site, app: AppId, question: Ask) -> Budget:
    return await at.gate.quote(app, question)


async def quote_by_memory(at: Site, app: AppId, question: Ask) -> Budget:
    """A mutant: it spares apps the answers that would be generic anyway."""
    told = await at.gate.quote(app, question)
    full = {position for position, _ in await at.memory.listing()}
    slots = {each.name: each for each in at.promises.layout.slots}
    return Budget(
        slots=tuple(
            each
            if full.intersection(slots[SlotName(each.slot)].positions)
            else each.model_copy(update={"answer": AnswerKind.GENERIC})
            for each in told.slots
        )
    )


async def budget_with_a_reason(at: Site, app: AppId, _question: Ask) -> Budget:
    """A mutant: it says which attribute is the scarce one."""
    ledger = at.ledger.snapshot()
    assert isinstance(ledger, Ledger)
    scarce = max(at.promises.layout.attributes, key=ledger.spent)
    told = at.gate.budget(app)
    return Budget(
        slots=tuple(s.model_copy(update={"slot": f"{s.slot} ({scarce.name})"}) for s in told.slots)
    )


STORES: tuple[Mapping[str, str], ...] = (
    {},
    {"food.diet": "I avoid sweets and sugary drinks."},
    {"food.groceries": "I buy the cheapest food in the shop.", "finance.bills": "Rent is late."},
)
Turns = tuple[Ask, ...]
TURNS: Turns = (FOOD_ONLY, FOOD_ONLY, ALL.model_copy(update={"slots": ("health", "food")}))


class Third:
    """The same draws under every store."""

    def below(self, limit: int) -> int:
        return limit // 3


async def replies(
    folder: Path, tells: Tells, promises: Promises, memory: Mapping[str, str]
) -> list[str]:
    """What is told before, between and after some turns, over a store with these memories."""
    folder.mkdir()
    told: list[str] = []
    async with site(folder, promises=promises, randomness=Third()) as at:
        for shelf, text in memory.items():
            await at.memory.remember(text, ShelfName(shelf), None, 0)
        for turn in (*TURNS, None):
            told.append((await tells(at, MEALS, turn or ALL)).model_dump_json())
            if turn is not None:
                await at.gate.ask(MEALS, turn, drop)
    return told


async def differs_by_memory(folder: Path, tells: Tells, promises: Promises) -> bool:
    """Whether stores that agree on everything public are told apart."""
    seen = [
        await replies(folder / str(number), tells, promises, memory)
        for number, memory in enumerate(STORES)
    ]
    return len({tuple(told) for told in seen}) > 1


WORDS = re.compile(r"[a-z_]+|-?[0-9][0-9.e+-]*")
ALLOWED = {"slots", "slot", "answer", "fresh_left", "null", *(str(kind) for kind in AnswerKind)}


async def tells_too_much(folder: Path, tells: Tells, promises: Promises) -> set[str]:
    """Words of the replies that are neither fields, kinds, granted slots nor small counts."""
    grant = promises.grant(MEALS)
    assert grant is not None
    told = " ".join(await replies(folder, tells, promises, STORES[1]))
    words = set(WORDS.findall(told)) - ALLOWED - set(grant.slots)
    return {word for word in words if not (word.isdigit() and int(word) <= 16)}


RULES = pytest.mark.parametrize("allocation", [Online(3), Standing()], ids=["online", "standing"])
REAL = pytest.mark.parametrize("tells", [budget, quote])


@RULES
@REAL
async def test_replies_do_not_depend_on_memory(
    profile_dir: Path, tells: Tells, allocation: Allocation
) -> None:
    assert not await differs_by_memory(profile_dir, tells, under(allocation))


@RULES
async def test_a_reply_that_depends_on_memory_is_noticed(
    profile_dir: Path, allocation: Allocation
) -> None:
    assert await differs_by_memory(profile_dir, quote_by_memory, under(allocation))


@RULES
@REAL
async def test_replies_have_no_attribute_no_cap_and_no_policy(
    profile_dir: Path, tells: Tells, allocation: Allocation
) -> None:
    assert await tells_too_much(profile_dir / "site", tells, under(allocation)) == set()


@RULES
async def test_a_reply_with_the_name_of_an_attribute_is_noticed(
    profile_dir: Path, allocation: Allocation
) -> None:
    found = await tells_too_much(profile_dir / "site", budget_with_a_reason, under(allocation))
    assert found & {"diabetes", "debt"}


@settings(max_examples=50)
@given(small_promises(), EARLIER)
def test_renaming_everything_that_is_hidden_changes_no_reply(
    promises: Promises, earlier: list[tuple[AppId, str, int]]
) -> None:
    """Attributes under other names, and another digest: apps cannot tell the difference."""
    hidden = renamed(promises)
    daemons = [Daemon(promises, Third()), Daemon(hidden, Third())]
    for who, what, which in earlier:
        told = []
        for daemon in daemons:
            slots = daemon.promises.layout.slots
            daemon.ask(who, what, slots[which % len(slots)])
            told.append([daemon.budget(who, each) for each in slots])
        assert told[0] == told[1]


def renamed(promises: Promises) -> Promises:
    new = {a.name: AttributeName(f"zebra_{a.name}") for a in promises.layout.attributes}
    layout = Layout(
        promises.layout.slots,
        tuple(replace(a, name=new[a.name]) for a in promises.layout.attributes),
    )
    rule = promises.allocation
    if isinstance(rule, Preallocated):
        rule = Preallocated({new[name]: count for name, count in rule.planned.items()})
    return replace(
        promises,
        layout=layout,
        allocation=rule,
        digest="another",
        charge_also={
            name: frozenset(new[each] for each in also)
            for name, also in promises.charge_also.items()
        },
        grants=tuple(
            replace(g, quota=MappingProxyType({new[n]: u for n, u in g.quota.items()}))
            for g in promises.grants
        ),
    )
