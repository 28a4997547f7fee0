"""Every safeguard of the contract, switched off once: some check must notice.

The name of a test says which part of the contract, which mutant and which check kills it; the
summary of a run lists them (`conftest`), and `-s` shows what each check found.
"""

from collections import Counter
from collections.abc import Callable

import pytest
from tests.contracts.broken_draws import instead_of_reuse, leave_as_it_is
from tests.contracts.broken_turns import drawing, on_failure, reading_apart
from tests.contracts.checks import SINGLE_TURN_CHECKS, Check, ratio_within_charges
from tests.contracts.enumeration import System, Transcript, TurnRunner
from tests.contracts.findings import FINDING
from tests.contracts.mutants import MUTANTS, RATIO, Mutant
from tests.contracts.scenarios import ARENA

from tactful_core.entries import Charge
from tactful_core.interface import Ports, Release
from tactful_core.layout import Slot
from tactful_core.scoring import Scores
from tactful_core.selection import Exponential

CHECKS: dict[str, Check] = {
    RATIO: ratio_within_charges(ARENA),
    **{check.__name__: check for check in SINGLE_TURN_CHECKS},
}


def rejections(system: System) -> dict[str, str]:
    """The checks that reject a system, and the first thing that each of them finds."""
    found = {name: next(iter(check(system)), None) for name, check in CHECKS.items()}
    return {name: problem for name, problem in found.items() if problem is not None}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.breaks}-{m.name}-by-{m.killed_by}")
def test_mutant_is_killed(mutant: Mutant, record_property: Callable[[str, object], None]) -> None:
    problem = next(iter(CHECKS[mutant.killed_by](mutant.system)), None)
    assert problem is not None
    record_property(FINDING, f"{mutant.breaks} {mutant.name} -> {mutant.killed_by}")
    print(problem)  # noqa: T201


@pytest.mark.parametrize("part", ["C1", "C2", "C3", "C4", "C5", "C6", "C7"])
def test_each_part_of_the_contract_has_two_mutants(part: str) -> None:
    assert Counter(mutant.breaks for mutant in MUTANTS)[part] >= 2


def test_each_check_is_what_some_mutant_dies_of() -> None:
    assert {mutant.killed_by for mutant in MUTANTS} == set(CHECKS)


@pytest.mark.long
def test_each_arena_is_where_some_mutant_dies() -> None:
    """The mutants that only one of the arenas kills: none of the five can be left out."""
    by_ratio = [mutant for mutant in MUTANTS if mutant.killed_by == RATIO]
    for arena in ARENA:
        others = ratio_within_charges(each for each in ARENA if each is not arena)
        survivors = [m for m in by_ratio if next(iter(others(m.system)), None) is None]
        assert survivors, arena.name


def test_the_real_interface_passes_every_check() -> None:
    assert rejections(System()) == {}


def draw_as_it_should_be(scores: Scores, charge: Charge, ports: Ports) -> int:
    return Exponential(charge.units).select(scores, ports.randomness)


def leave_as_drawn(slot: Slot, history: Transcript, release: Release) -> Release:
    return release


@pytest.mark.parametrize(
    "run_turn",
    [
        pytest.param(drawing(draw_as_it_should_be), id="drawing"),
        pytest.param(on_failure(leave_as_drawn), id="on_failure"),
        pytest.param(instead_of_reuse(leave_as_it_is), id="instead_of_reuse"),
        pytest.param(reading_apart(charges_whole=True), id="reading_apart"),
    ],
)
def test_the_scaffold_of_mutants_passes_the_central_check(run_turn: TurnRunner) -> None:
    """So what kills a mutant is its fault and not the way in which it is built."""
    assert RATIO not in rejections(System(run_turn=run_turn))
