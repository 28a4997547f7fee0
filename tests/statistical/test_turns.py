"""Algorithm 1 with the system's randomness: whole transcripts against their exact probabilities.

Each transcript is of a new store with a fresh epoch: four releases of eight views, one of them
favoured by all contents, then one question more, which must cost nothing. The number of favoured
releases in a transcript is exactly binomial, so the test also notices draws that are not
independent. 5,000 transcripts here, 100,000 in the long tier; `fit` says how they are judged.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import pytest
from tests.contracts.findings import FINDING
from tests.fakes.in_memory_charges import InMemoryCharges
from tests.fakes.in_memory_rows import InMemoryRows
from tests.fakes.kept_notices import KeptNotices
from tests.fakes.naming_scorer import NamingScorer
from tests.fakes.running import run_now
from tests.fakes.small_policies import COACH, MEALS, attribute, promises_for, slot
from tests.statistical.fit import (
    LEAST_POWER,
    MOST_DEVIATIONS,
    Fit,
    binomial,
    fit,
    power,
)

from tactful_core.allocation import Allocation, Online, Preallocated, Standing
from tactful_core.entries import Mechanism
from tactful_core.interface import Ports, Release, Source, release_view
from tactful_core.layout import Layout
from tactful_core.ledger import Refusal
from tactful_core.promises import Promises
from tactful_core.sampling import SystemRandomness
from tactful_core.scoring import PRIVATE_RANGE, Scores
from tactful_core.standing import release_mechanism
from tactful_core.values import AttributeName, Position, Secret

FEW, MANY = 5_000, 100_000
RELEASES = 4
OTHERS = ("v2", "v3", "v4", "v5", "v6", "v7")
VIEWS = ("favoured", *OTHERS)
FAVOURED = 1
WORRY = AttributeName("worry1")

Record = Callable[[str, object], None]


@dataclass(frozen=True, slots=True)
class Case:
    """A policy under which a transcript has four fresh releases.

    Attributes:
        slots: how many there are: the releases are of one slot, or of a different one each.
        cap: of the attribute of each slot, in epsilon.
    """

    mechanism: Mechanism
    allocation: Allocation
    slots: int
    cap: str

    def promises(self, percent: int = 100) -> Promises:
        """The policy, with all caps scaled."""
        numbers = range(1, self.slots + 1)
        cap = str(Decimal(self.cap) * percent / 100)
        layout = Layout(
            tuple(slot(f"s{n}", (n,), VIEWS) for n in numbers),
            tuple(attribute(f"worry{n}", (n,), cap) for n in numbers),
        )
        return promises_for(layout, allocation=self.allocation, mechanism=self.mechanism)

    def chance(self, percent: int = 100) -> Fraction:
        """How likely the favoured view is in each release, exactly."""
        promises = self.promises(percent)
        selection = release_mechanism(promises, promises.layout.slots[0])
        views = 1 + len(VIEWS)
        private = Secret(tuple(PRIVATE_RANGE * (view == FAVOURED) for view in range(views)))
        return selection.distribution(Scores((0,) * views, private))[FAVOURED]


CASES = {
    "exponential, online": Case(Mechanism.EXPONENTIAL, Online(4), 1, "24"),
    "weighted_exponential, online": Case(Mechanism.WEIGHTED_EXPONENTIAL, Online(4), 1, "20"),
    "permute_and_flip, preallocated": Case(
        Mechanism.PERMUTE_AND_FLIP, Preallocated({WORRY: 4}), 1, "20"
    ),
    "randomized_response, standing": Case(
        Mechanism.RANDOMIZED_RESPONSE, Standing(candidates=8), 4, "3"
    ),
}


def transcript(case: Case, promises: Promises) -> int:
    """Runs one transcript; how many of its four releases were the favoured view."""
    rows = InMemoryRows({Position(n): "favoured" for n in range(1, case.slots + 1)})
    ports = Ports(InMemoryCharges(), rows, NamingScorer(), SystemRandomness(), KeptNotices())

    def ask(number: int) -> Release:
        app = (MEALS, COACH)[number % 2]
        each = promises.layout.slots[number % case.slots]
        return run_now(release_view(app, "dinner", each, promises, ports))

    releases = [ask(number) for number in range(RELEASES)]
    assert all(release.source is Source.DRAWN for release in releases)
    after = ask(RELEASES)
    if isinstance(case.allocation, Standing):
        assert (after.source, after.view) == (Source.STANDING, releases[0].view)
    else:
        assert (after.source, after.refusal) == (Source.GENERIC, Refusal.CAP)
    return sum(release.view.name == "favoured" for release in releases)


def compared(case: Case, counts: Counter[int]) -> Fit:
    cells = [counts[k] for k in range(RELEASES + 1)]
    favoured = sum(k * count for k, count in counts.items())
    chance = case.chance()
    return fit(cells, binomial(RELEASES, chance), favoured, RELEASES * sum(cells), chance)


def least_power(case: Case, transcripts: int) -> float:
    draws = RELEASES * transcripts
    return min(power(case.chance(), case.chance(percent), draws) for percent in (90, 110))


def check(name: str, transcripts: int, record_property: Record) -> None:
    case = CASES[name]
    strength = least_power(case, transcripts)
    assert strength >= LEAST_POWER + MOST_DEVIATIONS
    promises = case.promises()
    found = compared(case, Counter(transcript(case, promises) for _ in range(transcripts)))
    record_property(FINDING, f"{name}: {transcripts} transcripts, {strength:.1f} sigma; {found}")
    assert found.objections == []


@pytest.mark.parametrize("name", CASES)
def test_transcripts_fit_their_exact_probabilities(name: str, record_property: Record) -> None:
    check(name, FEW, record_property)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CASES)
def test_many_transcripts_fit_their_exact_probabilities(name: str, record_property: Record) -> None:
    check(name, MANY, record_property)


def test_transcripts_with_a_wrong_epsilon_are_rejected() -> None:
    """The control: charged and drawn with an ε that is 10 % too large."""
    case = CASES["exponential, online"]
    wrong = case.promises(percent=110)
    found = compared(case, Counter(transcript(case, wrong) for _ in range(FEW // 2)))
    assert found.objections
