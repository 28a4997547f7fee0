"""Exact divergences of whole transcripts with views and fused text, by enumeration.

Decides, for one way of fusing text, one course of calls and one class of adjacent stores, how far
apart two write strategies can make what all apps see (GUARANTEE §5, Theorem 2). What is *not* here:
courses and policies (`fused_scenarios`), broken ways of fusing (`fused_mutants`).

Everything that decides is the real thing: views (`release_view`), cells and rows
(`tactfuld.fusing`), controls, the weights of each draw (`FusedDraw`), the accountant behind a
`ReservationStore`. Two things are not: the model, a function of a row's ids that listens to memory
as no real one does, and the loop over draws, which is a line here and a stream there.

What is enumerated:

- a call releases views, reserves draws, draws token after token until the end token, the limit, or
  the moment at which the app went away (the draw that was under way then counts and is shown), and
  settles. Which call comes next is any function of what was seen before;
- contents may change before every single release and draw, as a function of all that was shown. So
  the largest `E_P' [(P/P')^α · e^{−(α−1)·charges}]` over all pairs of adjacent strategies is found
  step by step from the end: at each one take the pair of stores that makes it largest. Theorem 2
  says that it never exceeds 1 (`worst_moment`);
- the hockey-stick divergence at `B_a + ε_a` has no such steps: it is found by trying, for each call
  and each history, every pair of stores (`hockey_stick`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import product
from math import exp, inf
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from tests.contracts.enumeration import READING, Seen, System, Turn, one_turn
from tests.fakes.in_memory_charges import InMemoryCharges, numbered_id
from tests.fakes.in_memory_rows import Contents
from tests.fakes.running import run_now
from tests.tactfuld.fusing.samples import MergingTokenizer, template

from tactful_core.entries import Cell, Entry, EpochOpened, FusedReserved
from tactful_core.fusion import FusedDraw, FusionParameters
from tactful_core.layout import Attribute
from tactful_core.ledger import Admitted, replay
from tactful_core.promises import Promises
from tactful_core.sampling import SystemRandomness
from tactful_core.values import UNITS_PER_EPSILON, AttributeName, Position, Secret
from tactfuld.fusing.cells import CellPlan, plan_cells
from tactfuld.fusing.contexts import Frame, Rows, around_each, contexts, frame
from tactfuld.fusing.distributions import Controls, masses
from tactfuld.inference.prompt import build_prompt

TOKENIZER = MergingTokenizer()
TEMPLATE = template(TOKENIZER)
ROOM = 4000
VOCABULARY = 3
END = 2
"""The token that ends a reply."""


@dataclass(frozen=True, slots=True)
class Call:
    """One question that is answered with fused text.

    Attributes:
        draws: the reply's length limit.
        leaves_after: the app goes away once it has seen so many tokens; one more is drawn by then.
    """

    turn: Turn
    draws: int = 3
    leaves_after: int | None = None

    def is_over(self, tokens: tuple[int, ...]) -> bool:
        """Whether no further draw is made."""
        gone = self.leaves_after is not None and len(tokens) > self.leaves_after
        return gone or len(tokens) == self.draws or tokens[-1:] == (END,)


@dataclass(frozen=True, slots=True)
class Replying:
    """An answer under way: what is fixed for it, and what was drawn so far.

    Attributes:
        reservation: `None` where nothing could be reserved; then the text is public.
        charged: draws that were not skipped.
    """

    call: Call
    seen: Seen
    plan: CellPlan
    reservation: FusedReserved | None
    tokens: tuple[int, ...] = ()
    charged: int = 0

    @property
    def visible(self) -> tuple[int, ...]:
        """What the app sees: neither the end token nor what was drawn when it had gone."""
        leaves = self.call.leaves_after
        text = self.tokens if leaves is None else self.tokens[:leaves]
        return tuple(token for token in text if token != END)


@dataclass(frozen=True)
class Moment:
    """All that was shown so far, the open answer last; whoever has it knows the whole history."""

    entries: tuple[Entry, ...]
    replies: tuple[Replying, ...] = ()
    open: bool = False

    @cached_property
    def _hash(self) -> int:
        return hash((self.entries, self.replies, self.open))

    def __hash__(self) -> int:
        """Found once: looking moments up is most of the work."""
        return self._hash


Strategy = Callable[[tuple[Replying, ...]], Call | None]
Distribution = NDArray[np.float64]
Model = Callable[[tuple[int, ...]], tuple[float, ...]]
Masses = NDArray[np.float64]
Weigh = Callable[[FusionParameters, CellPlan, Masses, float], tuple[Distribution, bool]]


@lru_cache(maxsize=200_000)
def loud_model(ids: tuple[int, ...]) -> tuple[float, ...]:
    """Logits that change with every id of a row, and shout what memory says.

    A `Q` in a row speaks for token 0 and a `Z` for token 1; `X` speaks for the end.
    """
    noise = crc32(np.array(ids, dtype=np.int64).tobytes())
    text = TOKENIZER.text([each for each in ids if each >= VOCABULARY])
    return tuple(
        3.0 * min(2, text.count(letter)) + (noise >> (8 * token)) % 256 / 256
        for token, letter in enumerate("QZX")
    )


@lru_cache(maxsize=200_000)
def surprising_model(ids: tuple[int, ...]) -> tuple[float, ...]:
    """Token 1 is as good as impossible, except to a memory with a `Z`, which says nothing else."""
    shouts = "Z" in TOKENIZER.text([each for each in ids if each >= VOCABULARY])
    return (0.0, 8.0 if shouts else -11.0, 0.0)


@dataclass(frozen=True)
class Fusing:
    """How text is fused; each field is one real part, so that a mutant can put another in place."""

    rows: Callable[[Frame, CellPlan, Contents], Rows]
    weigh: Weigh
    settled: Callable[[Replying], int]
    public_when_refused: bool = True
    controls: Controls = field(
        default_factory=lambda: Controls(temperature=1.0, repeat_penalty=1.0, skip_below=0.0)
    )


def real_plan(call: Call, promises: Promises) -> CellPlan:
    """The cells of a call."""
    slots = [READING.of(promises.layout.slot(n), call.turn.query) for n in call.turn.slots]
    budgeted = {each.name for each in promises.layout.attributes if each.fusion}
    return plan_cells(slots, promises, budgeted, room=ROOM, around=around_each(TOKENIZER))


def real_rows(public: Frame, plan: CellPlan, contents: Contents) -> Rows:
    """Row 0 and one for each cell."""
    texts = tuple(contents.get(place.position, "") for place in plan.places)
    return contexts(public, plan, Secret(texts), TOKENIZER).rows.reveal()


def real_weigh(
    parameters: FusionParameters, plan: CellPlan, found: Masses, skip_below: float
) -> tuple[Distribution, bool]:
    """The mixture of these rows: the exact probabilities of the next token."""
    fused = FusedDraw(
        parameters,
        cells=len(plan.cells),
        widest=plan.widest,
        randomness=SystemRandomness(),
        skip_below=skip_below,
    )
    return mixed(fused, found)


def mixed(fused: FusedDraw, found: Masses) -> tuple[Distribution, bool]:
    """Exact probabilities from the masses of all rows, the public one first."""
    weights, charged = fused.weigh(found[0], found[1:])
    return weights / weights.sum(), charged


REAL = Fusing(real_rows, real_weigh, lambda reply: reply.charged)


@dataclass(frozen=True)
class Course:
    """Calls, promises and what an attribute's positions may hold.

    Attributes:
        texts: what may stand at each position; the first is what stands there where stores agree.
    """

    name: str
    promises: Promises
    parameters: FusionParameters
    strategy: Strategy
    texts: Mapping[Position, tuple[str, ...]]
    model: Model = loud_model

    def attribute(self, name: AttributeName) -> Attribute:
        return self.promises.layout.attribute(name)

    def stores(self, name: AttributeName, *, masking: bool = False) -> tuple[Contents, ...]:
        """All contents that differ at most inside `I_a`; the first has nothing there if masked."""
        inside = self.attribute(name).positions
        masked: tuple[str, ...] = ("",) if masking else ()
        choices: list[tuple[str, ...]] = [
            tuple(dict.fromkeys((*masked, *texts))) if position in inside else tuple(texts[:1])
            for position, texts in self.texts.items()
        ]
        return tuple(dict(zip(self.texts, chosen, strict=True)) for chosen in product(*choices))

    @property
    def first(self) -> Moment:
        """Before anything was asked."""
        return Moment((EpochOpened(numbered_id(1), 1, 0, self.parameters),))


@dataclass(frozen=True)
class Tree:
    """All that can happen in a course with one way of fusing, under each store of one class.

    Attributes:
        masking: whether of two adjacent stores one has nothing in the attribute's positions.
    """

    fusing: Fusing
    course: Course
    stores: tuple[Contents, ...]
    masking: bool = False
    known: dict[tuple[Moment, int], dict[Moment, float]] = field(default_factory=dict)

    def after(self, moment: Moment) -> list[dict[Moment, float]]:
        """For each store, what comes next and how likely; all empty at the end."""
        return [self._after(moment, number) for number in range(len(self.stores))]

    def _after(self, moment: Moment, number: int) -> dict[Moment, float]:
        if (moment, number) not in self.known:
            step = self._drawn if moment.open else self._begun
            self.known[moment, number] = step(moment, self.stores[number])
        return self.known[moment, number]

    def _begun(self, moment: Moment, contents: Contents) -> dict[Moment, float]:
        call = self.course.strategy(moment.replies)
        if call is None:
            return {}
        system = System(charges=lambda _: InMemoryCharges(moment.entries))
        seen = one_turn(system, call.turn, (), self.course.promises, contents)
        found: dict[Moment, float] = {}
        for each, probability in seen.items():
            begun = self._reserved(call, each, moment)
            found[begun] = found.get(begun, 0.0) + float(probability)
        return found

    def _reserved(self, call: Call, seen: Seen, moment: Moment) -> Moment:
        plan = real_plan(call, self.course.promises)
        charges = InMemoryCharges(seen.entries)
        wanted = FusedReserved(
            id=numbered_id(len(seen.entries) + 1),
            epoch=1,
            app=call.turn.app,
            slots=frozenset(call.turn.slots),
            cells=tuple(Cell(plan.positions(cell), cell) for cell in plan.cells),
            unprotected=frozenset(plan.open_positions),
            draws=call.draws,
            policy="enumerated",
        )
        admitted = run_now(charges.reserve(wanted, self.course.promises)) if plan.cells else None
        held = wanted if isinstance(admitted, Admitted) else None
        reply = Replying(call, seen, plan, held)
        return Moment(charges.entries, (*moment.replies, reply), open=True)

    def _drawn(self, moment: Moment, contents: Contents) -> dict[Moment, float]:
        *before, reply = moment.replies
        probabilities, charged = self._next_token(reply, contents)
        found: dict[Moment, float] = {}
        for token, probability in enumerate(probabilities):
            drawn = replace(
                reply, tokens=(*reply.tokens, token), charged=reply.charged + int(charged)
            )
            over = reply.call.is_over(drawn.tokens)
            entries = self._settled(drawn, moment.entries) if over else moment.entries
            found[Moment(entries, (*before, drawn), open=not over)] = float(probability)
        return found

    def _next_token(self, reply: Replying, contents: Contents) -> tuple[Distribution, bool]:
        controls, plan = self.fusing.controls, reply.plan
        guidance = tuple(release.view.guidance for release in reply.seen.releases)
        prompt = build_prompt(reply.call.turn.query, guidance)
        public = frame(prompt, plan, TEMPLATE, TOKENIZER, room=ROOM)
        rows = self.fusing.rows(public, plan, contents)
        if reply.reservation is None and self.fusing.public_when_refused:
            rows, plan = rows[:1], CellPlan(())
        logits = [self.course.model((*row, *reply.tokens)) for row in rows]
        found = masses(np.array(logits, dtype=np.float32), reply.tokens, controls)
        return self.fusing.weigh(self.course.parameters, plan, found, controls.skip_below)

    def _settled(self, reply: Replying, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        if reply.reservation is None:
            return entries
        charges = InMemoryCharges(entries)
        run_now(charges.settle(reply.reservation, self.fusing.settled(reply)))
        *before, settlement = charges.entries
        return (*before, replace(settlement, id=numbered_id(len(charges.entries))))

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Which two stores are adjacent: any two, or the first, which is masked, and any other."""
        numbers = range(len(self.stores))
        return tuple(
            (one, other)
            for one in numbers
            for other in numbers
            if 0 in (one, other) or not self.masking
        )


Loss = Callable[[Moment, Attribute], float]


def charged_loss(moment: Moment, attribute: Attribute) -> float:
    """What the ledger says that a transcript cost the attribute: views and text together, in ε."""
    ledger = replay(moment.entries)
    return (ledger.spent(attribute) + ledger.fused.spent(attribute)) / UNITS_PER_EPSILON


def worst_moment(tree: Tree, attribute: Attribute, loss: Loss = charged_loss) -> float:
    """The largest `E_P' [(P/P')^α e^{−(α−1)·loss}]` over pairs of strategies; at most 1 if sound.

    A pure loss of ε is a divergence of at most ε at every order, so both kinds add up.
    """
    alpha = tree.course.parameters.alpha

    def worst(moment: Moment) -> float:
        under = tree.after(moment)
        outcomes = {each for distribution in under for each in distribution}
        if not outcomes:
            return exp(-(alpha - 1) * loss(moment, attribute))
        later = {each: worst(each) for each in outcomes}
        return max(_moment(under[x], under[y], later, alpha) for x, y in tree.pairs)

    return worst(tree.course.first)


def _moment(
    one: Mapping[Moment, float],
    other: Mapping[Moment, float],
    later: Mapping[Moment, float],
    alpha: int,
) -> float:
    total = 0.0
    for outcome, worst in later.items():
        p, q = one.get(outcome, 0.0), other.get(outcome, 0.0)
        if p > 0 and worst > 0:
            total += worst * p * (p / q) ** (alpha - 1) if q > 0 else inf
    return total


def hockey_stick(tree: Tree, epsilon: float) -> float:
    """The largest `Σ max(0, P − e^ε P')` over pairs of strategies that write between calls."""
    factor = exp(epsilon)

    @cache
    def calls(moment: Moment) -> tuple[tuple[tuple[Moment, float, float], ...], ...]:
        """For each pair of stores, how the next call ends and how likely; none after the last."""
        if all(not each for each in tree.after(moment)):
            return ()
        return tuple(_whole_call(tree, moment, pair) for pair in tree.pairs)

    def worst(moment: Moment, p: float, q: float) -> float:
        if p == 0:
            return 0.0
        under = calls(moment)
        if not under:
            return max(0.0, p - factor * q)
        return max(
            sum(worst(end, p * one, q * other) for end, one, other in ends) for ends in under
        )

    return worst(tree.course.first, 1.0, 1.0)


def _whole_call(
    tree: Tree, moment: Moment, pair: tuple[int, int]
) -> tuple[tuple[Moment, float, float], ...]:
    """The ends of the next call, each with its probability under both stores."""
    reached = {moment: (1.0, 1.0)}
    while any(each.open or each is moment for each in reached):
        later: dict[Moment, tuple[float, float]] = {}
        for each, (p, q) in reached.items():
            if not each.open and each is not moment:
                later[each] = (p, q)
                continue
            one, other = (tree.after(each)[number] for number in pair)
            for outcome in {*one, *other}:
                later[outcome] = (p * one.get(outcome, 0.0), q * other.get(outcome, 0.0))
        reached = later
    return tuple((end, p, q) for end, (p, q) in reached.items())


def promised(course: Course, attribute: Attribute) -> float:
    """`B_a + ε_a`: what the policy promises for views and text together, at its δ."""
    assert attribute.fusion is not None
    return (attribute.cap + attribute.fusion) / UNITS_PER_EPSILON
