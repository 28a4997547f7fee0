"""Turns that are answered wrongly on purpose: Algorithm 1 with one safeguard switched off.

Each function is a `TurnRunner`; the text says what its author might have thought. What is *not*
here: wrong draws and wrong uses of what was released (`broken_draws`), broken ledgers and memories
(`broken_stores`), the list and what kills each (`mutants`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.contracts.enumeration import READING, Transcript, Turn, TurnRunner, algorithm_1
from tests.fakes.in_memory_charges import InMemoryCharges

from tactful_core.allocation import Online, release_epsilon
from tactful_core.entries import Charge, Mechanism, new_entry_id
from tactful_core.errors import CoreError
from tactful_core.interface import Ports, Release, Source, release_view
from tactful_core.layout import Layout, Slot
from tactful_core.ledger import Admitted, Refusal, Refused, UnreadableLedger
from tactful_core.promises import Promises
from tactful_core.scoring import Scores, neutral_scores, scores_from
from tactful_core.selection import Exponential
from tactful_core.values import Position, SlotName, Units

# ---- pieces of Algorithm 1 that mutants share ---------------------------------------------------


def planned_charge(turn: Turn, slot: Slot, promises: Promises, ports: Ports) -> Charge:
    """What Algorithm 1 would ask the store to write for the mechanism of the paper."""
    ledger = ports.charges.snapshot()
    charge_set = promises.charge_set(slot)
    return Charge(
        id=new_entry_id(),
        epoch=1 if isinstance(ledger, UnreadableLedger) else ledger.epoch,
        app=turn.app,
        slot=slot.name,
        mechanism=Mechanism.EXPONENTIAL,
        positions=frozenset(slot.positions),
        charged=charge_set,
        units=release_epsilon(promises.allocation, promises.layout, slot, charge_set),
        policy=promises.digest,
    )


def released(slot: Slot, index: int, charge: Charge) -> Release:
    view = slot.vocabulary[index]
    return Release(slot.name, view, charge.units, charge.charged, None, Source.DRAWN)


def generic(slot: Slot, reason: Refusal | None) -> Release:
    return Release(slot.name, slot.generic, Units(0), frozenset(), reason, Source.GENERIC)


async def true_scores(turn: Turn, slot: Slot, ports: Ports) -> Scores:
    relevance = await ports.scorer.relevance(turn.query, slot)
    rows = await ports.memory.open_rows(slot.positions)
    return scores_from(relevance, await ports.scorer.evidence(slot, rows))


async def safe_scores(turn: Turn, slot: Slot, ports: Ports) -> Scores:
    try:
        return await true_scores(turn, slot, ports)
    except Exception:  # noqa: BLE001  as in Algorithm 1
        return neutral_scores(await ports.scorer.relevance(turn.query, slot))


Draw = Callable[[Scores, Charge, Ports], int]


def drawing(pick: Draw) -> TurnRunner:
    """Algorithm 1 with another way to pick the view."""

    async def run_turn(
        turn: Turn, history: Transcript, promises: Promises, ports: Ports
    ) -> tuple[Release, ...]:
        releases = []
        for slot in slots_of(turn, promises):
            charge = planned_charge(turn, slot, promises, ports)
            admission = await ports.charges.admit(charge, promises)
            if isinstance(admission, Refused):
                releases.append(generic(slot, admission.reason))
                continue
            scores = await safe_scores(turn, slot, ports)
            releases.append(released(slot, pick(scores, charge, ports), charge))
        return tuple(releases)

    return run_turn


def slots_of(turn: Turn, promises: Promises) -> tuple[Slot, ...]:
    return tuple(promises.layout.slot(name) for name in turn.slots)


async def all_texts(ports: Ports, promises: Promises) -> tuple[str, ...]:
    everywhere = tuple(Position(p) for p in range(1, promises.layout.size + 1))
    return (await ports.memory.open_rows(everywhere)).reveal()


# ---- C1: vocabularies are shared by adjacent stores ---------------------------------------------


async def offers_what_memory_supports(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """The vocabulary is cut down to views that some row speaks for."""
    releases = []
    for slot in slots_of(turn, promises):
        words = " ".join((await ports.memory.open_rows(slot.positions)).reveal()).split()
        offered = tuple(v for v in slot.vocabulary if v is slot.generic or v.name in words)
        narrowed = replace(slot, vocabulary=offered)
        releases.append(await release_view(turn.app, turn.query, narrowed, promises, ports))
    return tuple(releases)


async def completes_guidance_from_memory(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """The view is chosen privately, but its sentence is filled in from the rows."""
    releases = await algorithm_1(turn, history, promises, ports)
    texts = await all_texts(ports, promises)
    return tuple(
        replace(r, view=replace(r.view, guidance=f"{r.view.guidance} Mind {texts[0]}."))
        for r in releases
    )


# ---- C2: the charge set covers the read set; scores depend on the read set alone ----------------


async def omits_one_attribute(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """Γ leaves out the last attribute: nobody thought of what else food implies."""
    layout = Layout(promises.layout.slots, promises.layout.attributes[:-1])
    return await algorithm_1(turn, history, replace(promises, layout=layout), ports)


async def charges_only_full_rows(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """Γ is computed from the positions that hold something."""
    texts = await all_texts(ports, promises)
    releases = []
    for slot in slots_of(turn, promises):
        full = tuple(p for p in slot.positions if texts[p - 1])
        if not full:
            releases.append(generic(slot, None))
            continue
        shelf = replace(slot.shelves[0], positions=full)
        narrowed = replace(slot, shelves=(shelf,))
        releases.append(await release_view(turn.app, turn.query, narrowed, promises, ports))
    return tuple(releases)


async def reads_what_memory_suggests(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """Retrieval: of a slot with read rules, the first shelf on which something is written."""
    texts = await all_texts(ports, promises)
    releases = []
    for slot in slots_of(turn, promises):
        written = [s for s in slot.shelves if any(texts[p - 1] for p in s.positions)]
        found = slot.reading({written[0].name}) if slot.reads and written else slot
        releases.append(await release_view(turn.app, turn.query, found, promises, ports))
    return tuple(releases)


def reading_apart(*, charges_whole: bool) -> TurnRunner:
    """Charges for the whole slot and reads what the rules say, or the other way round.

    The first is sound, only dear. The author of the second wanted the whole slot's answers at the
    price of a part.
    """

    async def run_turn(
        turn: Turn, history: Transcript, promises: Promises, ports: Ports
    ) -> tuple[Release, ...]:
        releases = []
        for slot in slots_of(turn, promises):
            part = READING.of(slot, turn.query)
            charged, read = (slot, part) if charges_whole else (part, slot)
            charge = planned_charge(turn, charged, promises, ports)
            admission = await ports.charges.admit(charge, promises)
            if isinstance(admission, Refused):
                releases.append(generic(slot, admission.reason))
                continue
            scores = await safe_scores(turn, read, ports)
            index = Exponential(charge.units).select(scores, ports.randomness)
            releases.append(released(slot, index, charge))
        return tuple(releases)

    return run_turn


# ---- C3: scores stay inside -----------------------------------------------------------------


async def shows_the_score(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """The view comes with "how sure" the scorer was."""
    releases = await algorithm_1(turn, history, promises, ports)
    shown = []
    for release, slot in zip(releases, slots_of(turn, promises), strict=True):
        best = max((await safe_scores(turn, slot, ports)).private.reveal())
        view = replace(release.view, guidance=f"{release.view.guidance} (confidence {best})")
        shown.append(replace(release, view=view))
    return tuple(shown)


# ---- C4: slots, order, read set and epsilon are public; other apps' queries stay theirs ---------


async def asks_best_slot_first(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """Slots are answered in the order of how much memory has to say about them."""

    async def says(name: SlotName) -> int:
        scores = await safe_scores(turn, promises.layout.slot(name), ports)
        return max(scores.private.reveal())

    evidence = {name: await says(name) for name in turn.slots}
    order = tuple(sorted(turn.slots, key=lambda name: -evidence[name]))
    return await algorithm_1(replace(turn, slots=order), history, promises, ports)


async def skips_empty_slots(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """A slot about which memory holds nothing is not activated, to save budget."""
    texts = await all_texts(ports, promises)
    kept = tuple(s.name for s in slots_of(turn, promises) if any(texts[p - 1] for p in s.positions))
    return await algorithm_1(replace(turn, slots=kept), history, promises, ports)


async def spends_by_need(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """ε is smaller where memory has nothing to say."""
    texts = await all_texts(ports, promises)
    thrifty = replace(promises, allocation=Online(16))
    return await algorithm_1(turn, history, promises if any(texts) else thrifty, ports)


async def routes_by_other_apps_queries(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """Relevance also counts what other apps asked lately, as a shared router cache would."""
    lately = " ".join(seen.turn.query for seen in history)
    return await algorithm_1(
        replace(turn, query=f"{turn.query} {lately}"), history, promises, ports
    )


# ---- C5: one durable transaction checks everything and writes the charge ------------------------


async def refunds_cancelled_turns(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """A client that goes away gets its charges back, after it saw the view."""
    store = ports.charges
    before = store.entries if isinstance(store, InMemoryCharges) else ()
    releases = await algorithm_1(turn, history, promises, ports)
    if turn.cancelled and isinstance(store, InMemoryCharges):
        store.entries = before
    return releases


async def charges_after_the_draw(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """Draws, then writes what it drew with: a crash in between is a free view."""
    releases = []
    for slot in slots_of(turn, promises):
        charge = planned_charge(turn, slot, promises, ports)
        scores = await safe_scores(turn, slot, ports)
        index = Exponential(charge.units).select(scores, ports.randomness)
        admission = await ports.charges.admit(charge, promises)
        admitted = isinstance(admission, Admitted)
        releases.append(released(slot, index, charge) if admitted else generic(slot, Refusal.CAP))
    return tuple(releases)


async def draws_when_refused(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """Where nothing fits any more it draws all the same, "just this once"."""
    releases = []
    for release, slot in zip(
        await algorithm_1(turn, history, promises, ports), slots_of(turn, promises), strict=True
    ):
        if release.refusal is None:
            releases.append(release)
            continue
        charge = planned_charge(turn, slot, promises, ports)
        scores = await safe_scores(turn, slot, ports)
        index = Exponential(charge.units).select(scores, ports.randomness)
        releases.append(released(slot, index, charge))
    return tuple(releases)


# ---- C6: after admission nothing visible depends on contents ------------------------------------


async def names_the_score_in_an_error(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """A sanity check after the draw raises with what it found."""
    releases = await algorithm_1(turn, history, promises, ports)
    for slot in slots_of(turn, promises):
        scores = (await safe_scores(turn, slot, ports)).private.reveal()
        if len(set(scores)) == 1 and scores[0] > 0:
            raise CoreError(f"all views of {slot.name} score {scores[0]}")
    return releases


async def lets_scoring_fail(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """A scorer that chokes on contents ends the turn."""
    for slot in slots_of(turn, promises):
        await true_scores(turn, slot, ports)
    return await algorithm_1(turn, history, promises, ports)


Answer = Callable[[Slot, Transcript, Release], Release]
"""What to release instead: from the slot, what was seen before, and the view that was drawn."""


def on_failure(answer: Answer) -> TurnRunner:
    """Algorithm 1 with another answer where contents cannot be scored."""

    async def run_turn(
        turn: Turn, history: Transcript, promises: Promises, ports: Ports
    ) -> tuple[Release, ...]:
        releases = []
        drawn = await algorithm_1(turn, history, promises, ports)
        for slot, release in zip(slots_of(turn, promises), drawn, strict=True):
            try:
                await true_scores(turn, slot, ports)
                releases.append(release)
            except Exception:  # noqa: BLE001  what this mutant is about
                fits = release.refusal is None
                releases.append(answer(slot, history, release) if fits else release)
        return tuple(releases)

    return run_turn


def generic_view(slot: Slot, history: Transcript, release: Release) -> Release:
    """Falls back to the generic view, as if nothing had been admitted."""
    return replace(release, view=slot.generic)


def standing_view(slot: Slot, history: Transcript, release: Release) -> Release:
    """Repeats what the slot released before."""
    earlier = [r.view for seen in history for r in seen.releases if r.slot == slot.name]
    return replace(release, view=earlier[-1] if earlier else slot.generic)


async def tells_apps_of_failures(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """The notice for the owner shows in the reply as well."""
    told: list[SlotName] = []

    @dataclass
    class Loud:
        def scoring_failed(self, slot: SlotName) -> None:
            told.append(slot)

    releases = await algorithm_1(turn, history, promises, replace(ports, notices=Loud()))
    return tuple(replace(r, source=Source.GENERIC) if r.slot in told else r for r in releases)


async def quotes_by_need(
    turn: Turn, history: Transcript, promises: Promises, ports: Ports
) -> tuple[Release, ...]:
    """The reply says how many fresh answers are left "about what you keep here"."""
    releases = await algorithm_1(turn, history, promises, ports)
    texts = await all_texts(ports, promises)
    quoted = []
    for release, slot in zip(releases, slots_of(turn, promises), strict=True):
        left = 3 if any(texts[p - 1] for p in slot.positions) else 0
        view = replace(release.view, guidance=f"{release.view.guidance} ({left} left)")
        quoted.append(replace(release, view=view))
    return tuple(quoted)
