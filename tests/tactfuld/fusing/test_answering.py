"""One fused text: reserved before memory is read, counted before it is drawn, settled after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.fakes.fixed_randomness import ChosenTickets, HighestTicket
from tests.fakes.in_memory_charges import InMemoryCharges, numbered_id
from tests.fakes.in_memory_rows import BrokenRows, InMemoryRows
from tests.fakes.row_engine import RowEngine
from tests.fakes.small_policies import MEALS
from tests.tactfuld.fusing.samples import (
    ALL,
    DEBT,
    DIABETES,
    FINANCE,
    FOOD,
    GRIEF,
    MergingTokenizer,
    promises,
    template,
)

from tactful_core.entries import (
    EpochOpened,
    FusedReserved,
    FusedSettled,
    UnprotectedRead,
    ViewReleased,
)
from tactful_core.errors import ContractError
from tactful_core.fusion import Drawn, FusedDraw, FusionParameters
from tactful_core.interface import MemoryReader
from tactful_core.ledger import Admitted, Refused
from tactful_core.promises import Promises
from tactful_core.sampling import Randomness, SystemRandomness
from tactful_core.values import Position, Secret, ShelfName, SlotName
from tactfuld.fusing.answering import (
    Asked,
    Draws,
    Fusing,
    Fusion,
    NotFused,
    Planned,
    Unfused,
    planned,
)
from tactfuld.fusing.distributions import Controls, masses
from tactfuld.inference.chat_template import Vocabulary
from tactfuld.inference.errors import EngineClosed
from tactfuld.inference.prompt import build_prompt

PARAMETERS = promises().calibrated()
assert PARAMETERS is not None
DRAWS = 12
PROMPT = build_prompt("Dinner?", ())


def asked(of: Promises, *names: SlotName, draws: int = DRAWS, memory: int = 512) -> Asked:
    slots = tuple(of.layout.slot(name) for name in names or (FOOD, FINANCE))
    return Asked(MEALS, slots, PROMPT, draws, memory)


@dataclass
class Told:
    """Implements `FusingNotices`."""

    failures: int = 0
    cut: list[tuple[Position, ...]] = field(default_factory=list)

    def fusing_failed(self) -> None:
        self.failures += 1

    def memories_cut(self, positions: tuple[Position, ...]) -> None:
        self.cut.append(positions)


class Ordered:
    """Memory and ledger that note in which order they are asked."""

    def __init__(self, charges: InMemoryCharges, memory: MemoryReader) -> None:
        self._charges = charges
        self._memory = memory
        self.snapshot = charges.snapshot
        self.admit = charges.admit
        self.seen: list[str] = []

    async def reserve(self, reservation: FusedReserved, promises: Promises) -> Admitted | Refused:
        self.seen.append("reserve")
        return await self._charges.reserve(reservation, promises)

    async def settle(self, reservation: FusedReserved, draws: int) -> bool:
        self.seen.append(f"settle {draws}")
        return await self._charges.settle(reservation, draws)

    async def record(self, entry: UnprotectedRead | ViewReleased) -> bool:
        self.seen.append("record")
        return await self._charges.record(entry)

    async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
        self.seen.append("open " + ",".join(map(str, read_set)))
        return await self._memory.open_rows(read_set)


@dataclass
class Bench:
    """Everything around `Fusing`."""

    charges: InMemoryCharges
    ordered: Ordered
    engine: RowEngine
    told: Told
    fusing: Fusing

    @property
    def reserved(self) -> list[FusedReserved]:
        return [e for e in self.charges.entries if isinstance(e, FusedReserved)]

    @property
    def settled(self) -> list[int]:
        return [e.draws for e in self.charges.entries if isinstance(e, FusedSettled)]


def bench(
    memory: MemoryReader | None = None,
    *,
    parameters: FusionParameters | None = PARAMETERS,
    randomness: Randomness | None = None,
    context_length: int = 2048,
) -> Bench:
    charges = InMemoryCharges((EpochOpened(numbered_id(1), 1, 0, parameters),))
    ordered, told = Ordered(charges, memory or InMemoryRows()), Told()
    engine = RowEngine(context_length=context_length)
    engine.start()
    fusing = Fusing(
        ordered, ordered, randomness or SystemRandomness(), engine, told, Controls(skip_below=0.0)
    )
    return Bench(charges, ordered, engine, told, fusing)


async def text_of(at: Bench, fusion: Fusion) -> str:
    reply = at.engine.generate_group(fusion.group, fusion.draws, max_tokens=fusion.most)
    return "".join([piece async for piece in reply])


# --- draws ----------------------------------------------------------------------------------------


class ScriptedDraw:
    """Stands for a `FusedDraw`: what it returns, or raises, is fixed; keeps what it was given."""

    def __init__(self, results: Sequence[Drawn | Exception]) -> None:
        self._results = iter(results)
        self.given: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []

    def draw(self, public: NDArray[np.float64], private: NDArray[np.float64]) -> Drawn:
        self.given.append((public.copy(), private.copy()))
        result = next(self._results)
        if isinstance(result, Exception):
            raise result
        return result


LOGITS = np.array([[1.0, 2.0, 0.0], [3.0, 0.5, -1.0]], dtype=np.float32)


def draws_of(
    scripted: ScriptedDraw, controls: Controls | None = None, reserved: int = DRAWS
) -> Draws:
    assert PARAMETERS is not None
    public = FusedDraw(PARAMETERS, cells=0, widest=0, randomness=HighestTicket())
    # What `Draws` needs of a `FusedDraw` is its `draw`.
    return Draws(scripted, public, reserved, controls or Controls())  # type: ignore[arg-type]


def test_every_draw_with_memory_is_counted_and_no_other() -> None:
    outcomes = [Drawn(1, charged=True), Drawn(2, charged=False), Drawn(0, charged=True)]
    draws = draws_of(ScriptedDraw(outcomes))
    assert [draws(LOGITS) for _ in outcomes] == [1, 2, 0]
    assert (draws.charged, draws.free) == (2, 1)


def test_a_draw_that_fails_in_the_middle_counts() -> None:
    draws = draws_of(ScriptedDraw([Drawn(1, charged=True), ContractError("broken")]))
    draws(LOGITS)
    with pytest.raises(ContractError):
        draws(LOGITS)
    assert draws.charged == 2


def test_after_the_reserved_draws_the_public_row_alone_goes_on() -> None:
    scripted = ScriptedDraw([Drawn(0, charged=True), Drawn(0, charged=True)])
    draws = draws_of(scripted, reserved=2)
    assert [draws(LOGITS) for _ in range(4)] == [0, 0, 2, 2]  # the highest ticket: the last token
    assert len(scripted.given) == 2
    assert (draws.charged, draws.free) == (2, 2)


def test_rows_are_mixed_after_all_controls_and_with_what_was_released() -> None:
    scripted = ScriptedDraw([Drawn(1, charged=True), Drawn(2, charged=True)])
    controls = Controls(temperature=0.5, repeat_penalty=2.0)
    draws = draws_of(scripted, controls)
    for released in ((), (1,)):
        draws(LOGITS)
        public, private = scripted.given[-1]
        expected = masses(LOGITS, released, controls)
        assert (public == expected[0]).all()
        assert (private == expected[1:]).all()


def test_temperature_after_mixing_would_be_another_draw() -> None:
    """The control of the test above: the mixture at a temperature is not the mixture of rows."""
    assert PARAMETERS is not None
    parameters, sharp, plain = PARAMETERS, Controls(temperature=0.5), Controls(temperature=1.0)

    def weights(controls: Controls) -> NDArray[np.float64]:
        rows = masses(LOGITS, (), controls)
        draw = FusedDraw(parameters, cells=1, widest=1, randomness=HighestTicket())
        mixed = draw.weigh(rows[0], rows[1:])[0].astype(np.float64)
        shares: NDArray[np.float64] = mixed / mixed.sum()
        return shares

    after = weights(plain) ** 2
    assert abs(weights(sharp) - after / after.sum()).max() > 1e-3


# --- what is planned ------------------------------------------------------------------------------


def plan(context_length: int, draws: int = DRAWS, memory: int = 512) -> Planned | NotFused:
    tokenizer = MergingTokenizer()
    vocabulary = Vocabulary(tokenizer, template(tokenizer), context_length)
    of = promises()
    return planned(asked(of, draws=draws, memory=memory), of, frozenset(ALL), vocabulary)


def test_without_a_budget_nothing_is_planned() -> None:
    of = promises()
    bills = of.layout.slot(FINANCE).reading([ShelfName("finance.bills")])
    tokenizer = MergingTokenizer()
    vocabulary = Vocabulary(tokenizer, template(tokenizer), 4000)
    question = Asked(MEALS, (bills,), PROMPT, DRAWS, 512)
    found = planned(question, of, frozenset({DIABETES}), vocabulary)
    assert found == NotFused(Unfused.NO_BUDGET)


@pytest.mark.parametrize("draws", [1, 12, 200])
def test_rows_and_answer_fit_the_context_whatever_it_is(draws: int) -> None:
    shown = []
    for context_length in range(200, 900, 20):
        found = plan(context_length, draws)
        if isinstance(found, NotFused):
            assert found.reason is Unfused.NO_ROOM
            shown.append(0)
            continue
        assert found.frame.length + draws <= context_length
        assert found.frame.length == sum(map(len, found.frame.pieces)) + sum(
            place.capacity for place in found.plan.places
        )
        shown.append(len(found.plan.places))
    assert shown[0] < shown[-1]


@pytest.mark.parametrize("memory", [16, 20, 60])
def test_never_more_memory_than_the_owner_wants_read(memory: int) -> None:
    found = plan(4000, memory=memory)
    assert isinstance(found, Planned)
    assert 0 < sum(place.capacity for place in found.plan.places) <= memory


def test_a_position_that_is_longer_than_all_memory_may_be_has_no_room() -> None:
    assert plan(4000, memory=5) == NotFused(Unfused.NO_ROOM)


def test_shared_ids_end_where_the_first_cell_begins() -> None:
    found = plan(4000)
    assert isinstance(found, Planned)
    places = found.frame.places
    first = next(index for index, place in enumerate(places) if place.charged)
    assert [place.position for place in places[:first]] == [6, 7]
    expected = sum(map(len, found.frame.pieces[: first + 1])) + sum(
        place.capacity for place in places[:first]
    )
    assert found.frame.shared == expected


# --- reserved, read, drawn, settled ---------------------------------------------------------------


async def test_all_draws_are_reserved_before_memory_is_opened_and_settled_to_those_made() -> None:
    at = bench(InMemoryRows({Position(1): "walnuts"}))
    of = promises()
    async with at.fusing.begun(asked(of), of) as fusion:
        assert isinstance(fusion, Fusion)
        assert at.ordered.seen == ["reserve", "open 6,7,1,2,3,4,5,9,10,11"]
        assert await text_of(at, fusion)
    # Six words and the end mark: the first and the last draw count.
    assert at.engine.drawn == 7
    assert at.ordered.seen[2:] == ["settle 7"]
    (reserved,) = at.reserved
    assert reserved.draws == DRAWS
    assert reserved.slots == {FOOD, FINANCE}
    assert reserved.unprotected == {6, 7}
    assert [sorted(cell.positions) for cell in reserved.cells] == [[1, 2, 3], [4, 5], [9, 10], [11]]
    assert [cell.charged for cell in reserved.cells] == [
        {DIABETES},
        {DIABETES, DEBT},
        {DEBT},
        {GRIEF},
    ]
    assert fusion.charged == {DIABETES, DEBT, GRIEF}


async def test_rows_show_each_cell_in_its_own_row() -> None:
    empty, full = bench(), bench(InMemoryRows({Position(1): "walnuts", Position(11): "Ann"}))
    of = promises()
    rows = []
    for at in (empty, full):
        async with at.fusing.begun(asked(of), of) as fusion:
            assert isinstance(fusion, Fusion)
            rows.append(fusion.group.reveal().rows)
    assert len(set(rows[0])) == 1
    assert [a == b for a, b in zip(*rows, strict=True)] == [True, False, True, True, False]


async def test_a_text_that_is_broken_off_is_settled_to_what_was_drawn() -> None:
    at = bench()
    of = promises()

    async def broken_off() -> None:
        async with at.fusing.begun(asked(of), of) as fusion:
            assert isinstance(fusion, Fusion)
            reply = at.engine.generate_group(fusion.group, fusion.draws, max_tokens=DRAWS)
            await anext(reply)
            await anext(reply)
            await reply.aclose()
            raise EngineClosed

    with pytest.raises(EngineClosed):
        await broken_off()
    assert at.settled == [2]


async def test_a_text_of_which_nothing_was_drawn_costs_nothing() -> None:
    at = bench()
    of = promises()
    with pytest.raises(EngineClosed):
        async with at.fusing.begun(asked(of), of):
            raise EngineClosed
    assert at.settled == [0]


async def test_draws_that_the_public_row_decides_are_free() -> None:
    at = bench()
    at.fusing = Fusing(
        at.ordered, at.ordered, SystemRandomness(), at.engine, at.told, Controls(skip_below=1.0)
    )
    of = promises()
    async with at.fusing.begun(asked(of), of) as fusion:
        assert isinstance(fusion, Fusion)
        await text_of(at, fusion)
    assert fusion.draws.free >= 1  # the end mark: all rows are certain of it
    assert at.settled == [at.engine.drawn - fusion.draws.free]


async def test_nothing_is_opened_where_the_budget_is_used_up() -> None:
    at = bench()
    of = promises()
    reserved = []
    while True:
        async with at.fusing.begun(asked(of, FOOD, draws=400), of) as fusion:
            if isinstance(fusion, NotFused):
                break
            reserved.append(fusion.draws.reserved)
            fusion.draws.charged = fusion.draws.reserved
        at.ordered.seen.clear()
    assert fusion == NotFused(Unfused.CAP)
    assert at.ordered.seen == ["reserve"]
    # What is left when no whole text fits is used too, and no more than the policy planned for.
    assert 0 < reserved[-1] < 400 == reserved[0]
    assert sum(reserved) >= 500


@pytest.mark.parametrize("case", ["unreadable", "no parameters", "no budget"])
async def test_nothing_is_opened_without_a_budget(case: str) -> None:
    at = bench(parameters=None if case == "no parameters" else PARAMETERS)
    of = promises()
    if case == "unreadable":
        at.charges.lose_a_row()
    if case == "no budget":
        of = replace(of, privacy=None)
    slots = asked(of, FINANCE)
    async with at.fusing.begun(slots, of) as fusion:
        expected = Unfused.UNREADABLE if case == "unreadable" else Unfused.NO_BUDGET
        assert fusion == NotFused(expected)
    assert at.ordered.seen == []


async def test_what_is_unprotected_alone_is_shown_without_a_reservation() -> None:
    at = bench(InMemoryRows({Position(6): "tea"}))
    of = promises()
    taste = of.layout.slot(FOOD).reading([ShelfName("food.taste")])
    question = Asked(MEALS, (taste,), PROMPT, DRAWS, 512)
    async with at.fusing.begun(question, of) as fusion:
        assert isinstance(fusion, Fusion)
        assert len(fusion.group.reveal().rows) == 1
        await text_of(at, fusion)
    assert at.ordered.seen == ["record", "open 6,7"]
    (read,) = [e for e in at.charges.entries if isinstance(e, UnprotectedRead)]
    assert read.slot == FOOD
    assert read.positions == {6, 7}
    assert (fusion.draws.reserved, fusion.draws.charged) == (0, 0)


@pytest.mark.parametrize("memory", [BrokenRows(), InMemoryRows()])
async def test_memory_that_cannot_be_read_counts_as_empty(memory: MemoryReader) -> None:
    at, of = bench(memory), promises()
    async with at.fusing.begun(asked(of), of) as fusion:
        assert isinstance(fusion, Fusion)
        assert len(set(fusion.group.reveal().rows)) == 1
        assert await text_of(at, fusion)
    assert at.told.failures == isinstance(memory, BrokenRows)
    assert at.settled == [7]


async def test_owner_is_told_which_memories_are_cut() -> None:
    at, of = bench(InMemoryRows({Position(2): "a " * 40, Position(3): "a"})), promises()
    async with at.fusing.begun(asked(of), of):
        pass
    assert at.told.cut == [(Position(2),)]


async def test_tokens_come_from_the_given_randomness() -> None:
    texts = []
    for _ in range(2):
        tickets = ChosenTickets([number << 58 for number in (3, 9, 1, 5, 14, 7, 2)])
        at, of = bench(randomness=tickets), promises()
        async with at.fusing.begun(asked(of), of) as fusion:
            assert isinstance(fusion, Fusion)
            texts.append(await text_of(at, fusion))
    assert texts[0] == texts[1] != ""


# --- mutants --------------------------------------------------------------------------------------


def first_token_free(draws: Draws) -> int:
    return max(0, draws.charged - 1)


def by_visible_tokens(draws: Draws) -> int:
    return sum(token != 0 for token in draws._released)


@pytest.mark.parametrize("mutant", [first_token_free, by_visible_tokens])
async def test_settling_to_less_than_was_drawn_is_noticed(
    mutant: Callable[[Draws], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts what the engine was really given to draw, as the tests above do."""
    at, of = bench(), promises()
    honest = at.ordered.settle

    async def settle(reservation: FusedReserved, _draws: int) -> bool:
        assert isinstance(fusion, Fusion)
        return await honest(reservation, mutant(fusion.draws))

    monkeypatch.setattr(at.ordered, "settle", settle)
    async with at.fusing.begun(asked(of), of) as fusion:
        assert isinstance(fusion, Fusion)
        await text_of(at, fusion)
    assert at.settled != [at.engine.drawn]


def test_planned_draws_are_those_of_the_policy() -> None:
    of = promises()
    assert of.privacy is not None
    assert (of.privacy.delta, of.privacy.planned_draws) == (Fraction(1, 10**5), 500)
