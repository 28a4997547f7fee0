"""Each mechanism draws from the distribution that it states, and never costs more than its charge.

The first part is the contract of every mechanism; then what each one promises by itself.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.branching import distribution_of
from tests.contracts.certified_exp import exp_at_least
from tests.fakes.real_numbers import exp_enclosure, ln_enclosure, solved_exponent

from tactful_core.errors import ContractError
from tactful_core.sampling import log_units_up
from tactful_core.scoring import GRID, PRIVATE_RANGE, SCORE_ONE, SENSITIVITY, Scores
from tactful_core.selection import (
    Exponential,
    PermuteAndFlip,
    RandomizedResponse,
    SelectionMechanism,
    WeightedExponential,
    certain_enough,
)
from tactful_core.values import UNITS_PER_EPSILON, Secret, Units, units_from_epsilon

ONE_UNIT = Units(1)
SIXTEEN = units_from_epsilon(16)
THIRD_OF_TWO = Units(units_from_epsilon(2) // 3)
EPSILONS = [
    ONE_UNIT,
    Units(2),
    Units(12_345),
    *(units_from_epsilon(e) for e in ("0.001", "0.01", "0.125", "0.5")),
    THIRD_OF_TWO,
    *(units_from_epsilon(e) for e in ("1", "1.999", "2", "4", "8", "16")),
]
MEASURE = (3, 1, 2, 5, 1, 1, 4, 2)
"""Public weights for `WeightedExponential`; a test with n views takes the first n."""

Make = Callable[[Units, int], SelectionMechanism]
MECHANISMS: dict[str, Make] = {
    "exponential": lambda epsilon, views: Exponential(epsilon),
    "weighted_exponential": lambda epsilon, views: WeightedExponential(epsilon, MEASURE[:views]),
    "permute_and_flip": lambda epsilon, views: PermuteAndFlip(epsilon),
    "randomized_response": lambda epsilon, views: RandomizedResponse(epsilon),
}
every_mechanism = pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
every_epsilon = pytest.mark.parametrize("epsilon", EPSILONS)

COARSE = (0, PRIVATE_RANGE // 3, PRIVATE_RANGE - 1, PRIVATE_RANGE)
PUBLIC: dict[str, tuple[int, ...]] = {
    "two even": (0, 0),
    "two lopsided": (0, 512),
    "three even": (512, 512, 512),
    "three lopsided": (512, 0, 130),
    "three with one behind": (0, 512, 512),
    "four lopsided": (0, 512, 256, 0),
}
"""Public scores, as lopsided as relevance can make them."""
THREE = PUBLIC["three lopsided"]
MEASURES: dict[str, tuple[int, ...]] = {
    "two even": (1, 1),
    "two lopsided": (1, 1000),
    "three even": (7, 7, 7),
    "three lopsided": (1, 30, 900),
    "one against many": (1, 10**9, 10**9, 10**9),
    "eight even": (1,) * 8,
}


def scores(public: tuple[int, ...], private: tuple[int, ...]) -> Scores:
    return Scores(public, Secret(private))


def epsilon_fraction(units: int) -> Fraction:
    return Fraction(units, UNITS_PER_EPSILON)


@st.composite
def any_scores(draw: st.DrawFn, most_views: int = 5) -> Scores:
    views = draw(st.integers(1, most_views))
    public = draw(st.tuples(*[st.integers(0, SCORE_ONE - PRIVATE_RANGE)] * views))
    private = draw(st.tuples(*[st.integers(0, PRIVATE_RANGE)] * views))
    return scores(public, private)


# ---- the contract of every mechanism ------------------------------------------------------------


@every_mechanism
@given(found=any_scores(), epsilon=st.sampled_from([ONE_UNIT, THIRD_OF_TWO, SIXTEEN]))
def test_draws_from_exactly_the_distribution_that_it_states(
    make: Make, found: Scores, epsilon: Units
) -> None:
    mechanism = make(epsilon, len(found.public))
    stated = dict(enumerate(mechanism.distribution(found)))
    assert distribution_of(lambda randomness: mechanism.select(found, randomness)) == stated


@every_mechanism
@given(found=any_scores())
def test_every_view_stays_possible_under_every_memory(make: Make, found: Scores) -> None:
    chances = make(SIXTEEN, len(found.public)).distribution(found)
    assert min(chances) > 0
    assert sum(chances) == 1


def brute_force(mechanism: SelectionMechanism, public: tuple[int, ...]) -> Fraction:
    """The worst ratio over all pairs of contents on a coarse grid with the corners of the box."""
    views = len(public)
    under = [
        mechanism.distribution(scores(public, private)) for private in product(COARSE, repeat=views)
    ]
    return max(
        max(chances[view] for chances in under) / min(chances[view] for chances in under)
        for view in range(views)
    )


@every_mechanism
@pytest.mark.parametrize("public", PUBLIC.values(), ids=PUBLIC)
@pytest.mark.parametrize("epsilon", [ONE_UNIT, THIRD_OF_TWO, units_from_epsilon(4)])
def test_the_worst_likelihood_ratio_is_what_brute_force_finds(
    make: Make, epsilon: Units, public: tuple[int, ...]
) -> None:
    mechanism = make(epsilon, len(public))
    assert mechanism.worst_likelihood_ratio(public) == brute_force(mechanism, public)


@every_mechanism
@every_epsilon
def test_the_charge_is_within_epsilon_and_never_below_the_exact_loss(
    make: Make, epsilon: Units
) -> None:
    for views in (2, 3, 8):
        mechanism = make(epsilon, views)
        public = (0, *(SCORE_ONE - PRIVATE_RANGE,) * (views - 1))
        ratio = mechanism.worst_likelihood_ratio(public)
        assert ratio > 1
        assert ratio <= exp_at_least(epsilon_fraction(mechanism.charge))
        assert log_units_up(ratio) <= mechanism.charge <= epsilon


@pytest.mark.parametrize("name", ["weighted_exponential", "randomized_response"])
@every_epsilon
def test_what_is_solved_for_epsilon_is_charged_its_exact_loss_and_no_unit_more(
    name: str, epsilon: Units
) -> None:
    """Against 40 digits of mpmath, and within two units of ε, so that nothing is wasted."""
    for views in (2, 3, 8):
        mechanism = MECHANISMS[name](epsilon, views)
        low, high = ln_enclosure(mechanism.worst_likelihood_ratio((0,) * views), digits=40)
        assert low * UNITS_PER_EPSILON <= mechanism.charge
        assert mechanism.charge - 1 < high * UNITS_PER_EPSILON + Fraction(1, 10**9)
        assert epsilon - 2 <= mechanism.charge


@every_mechanism
def test_a_larger_epsilon_loses_more(make: Make) -> None:
    ratios = [make(epsilon, 3).worst_likelihood_ratio(THREE) for epsilon in EPSILONS]
    assert ratios == sorted(ratios)
    assert len(set(ratios)) == len(ratios)


@every_mechanism
def test_a_better_view_is_more_likely(make: Make) -> None:
    low, high = make(THIRD_OF_TWO, 2).distribution(scores((0, 0), (0, PRIVATE_RANGE)))
    assert Fraction(high, MEASURE[1]) > Fraction(low, MEASURE[0])


# ---- Eq. 7 --------------------------------------------------------------------------------------


@every_epsilon
def test_weights_are_those_of_the_paper_within_two_to_the_minus_hundred(epsilon: Units) -> None:
    """`P(v) ∝ exp(ε u(v) / 2Δ)` against 50 digits of mpmath, for every score in steps."""
    totals = [*range(0, SCORE_ONE, 61), SCORE_ONE - 1, SCORE_ONE]
    public = tuple(min(total, SCORE_ONE - PRIVATE_RANGE) for total in totals)
    private = tuple(t - p for t, p in zip(totals, public, strict=True))
    weights = Exponential(epsilon).weights(scores(public, private))
    best = weights[-1]
    for total, weight in zip(totals, weights, strict=True):
        utility = Fraction(total, SCORE_ONE)
        exponent = epsilon_fraction(epsilon) * (1 - utility) / (2 * SENSITIVITY)
        low, high = exp_enclosure(-exponent, digits=50)
        assert abs(Fraction(weight, best) - (low + high) / 2) < low / (1 << 100)


@pytest.mark.parametrize("epsilon", [ONE_UNIT, THIRD_OF_TWO, SIXTEEN])
@given(found=any_scores())
def test_probabilities_are_those_of_the_paper_within_two_to_the_minus_hundred(
    epsilon: Units, found: Scores
) -> None:
    private = found.private.reveal()
    totals = [r + p for r, p in zip(found.public, private, strict=True)]
    scale = epsilon_fraction(epsilon) / (2 * SENSITIVITY * SCORE_ONE)
    enclosures = [exp_enclosure(scale * total, digits=50) for total in totals]
    reals = [(low + high) / 2 for low, high in enclosures]
    for chance, real in zip(Exponential(epsilon).distribution(found), reals, strict=True):
        expected = real / sum(reals)
        assert abs(chance - expected) < expected / (1 << 100)


@every_epsilon
def test_the_exact_loss_of_the_paper_is_below_epsilon_for_all_sizes_of_vocabulary(
    epsilon: Units,
) -> None:
    bound = exp_at_least(epsilon_fraction(epsilon))
    for views in range(2, 65):
        even, lopsided = (0,) * views, (0, *(SCORE_ONE - PRIVATE_RANGE,) * (views - 1))
        for public in (even, lopsided):
            assert Exponential(epsilon).worst_likelihood_ratio(public) < bound


def test_two_views_lose_half_of_epsilon_in_the_paper() -> None:
    """Why the charge ε is loose there: the loss is `ε/2` for two views of equal relevance."""
    ratio = Exponential(units_from_epsilon(2)).worst_likelihood_ratio((0, 0))
    low, high = exp_enclosure(Fraction(1), digits=30)
    assert low < ratio < high


def test_one_view_loses_nothing() -> None:
    assert Exponential(units_from_epsilon(2)).worst_likelihood_ratio((512,)) == 1


def test_weights_depend_on_totals_alone() -> None:
    mechanism = Exponential(THIRD_OF_TWO)
    one = mechanism.weights(scores((0, 512), (600, 88)))
    other = mechanism.weights(scores((500, 300), (100, 300)))
    assert one == other == (one[0],) * 2


# ---- the better mechanisms, GUARANTEE §2 --------------------------------------------------------


@pytest.mark.parametrize(
    ("views", "paper", "solved"), [(2, "0.731", "0.881"), (4, "0.475", "0.570")]
)
def test_the_solved_temperature_has_the_gain_that_the_guarantee_names(
    views: int, paper: str, solved: str
) -> None:
    best = scores((0,) * views, (PRIVATE_RANGE, *(0,) * (views - 1)))
    two = units_from_epsilon(2)
    by_paper = Exponential(two).distribution(best)[0]
    by_solved = WeightedExponential(two, (1,) * views).distribution(best)[0]
    assert f"{float(by_paper):.3f}" == paper
    assert f"{float(by_solved):.3f}" == solved


@every_epsilon
def test_the_solved_temperature_spends_nearly_all_of_epsilon(epsilon: Units) -> None:
    """A step more would cost more than ε; at tiny ε a unit is coarser than a step."""
    charge = WeightedExponential(epsilon, (1, 1, 1)).charge
    assert epsilon - 1 <= charge <= epsilon


@every_epsilon
@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_the_solved_exponent_is_the_root_of_the_exact_loss(
    measure: tuple[int, ...], epsilon: Units
) -> None:
    """`max_v ℓ_v(x) = ε` by mpmath, a code of its own: equal within two steps of 2^-40."""
    found = WeightedExponential(epsilon, measure).exponent
    root = solved_exponent(epsilon_fraction(epsilon), measure, digits=40)
    assert abs(found - root) <= Fraction(2, 1 << 40)


@every_epsilon
@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_the_solved_exponent_is_never_below_that_of_the_paper(
    measure: tuple[int, ...], epsilon: Units
) -> None:
    """`ℓ(x) ≤ 2x`, so `x ≥ ε/2`, beyond the step to which it is rounded down."""
    found = WeightedExponential(epsilon, measure).exponent
    assert found >= epsilon_fraction(epsilon) / 2 - Fraction(2, 1 << 40)
    assert found <= epsilon_fraction(epsilon)


def test_two_views_of_equal_weight_get_all_of_epsilon() -> None:
    """The loss is `x` itself there, so the exponent doubles that of the paper."""
    two = units_from_epsilon(2)
    assert abs(WeightedExponential(two, (5, 5)).exponent - 2) <= Fraction(2, 1 << 40)


@pytest.mark.parametrize("measure", [m for m in MEASURES.values() if len(m) <= 4])
@pytest.mark.parametrize("epsilon", [THIRD_OF_TWO, units_from_epsilon(4)])
def test_the_worst_likelihood_ratio_with_a_base_measure_is_what_brute_force_finds(
    measure: tuple[int, ...], epsilon: Units
) -> None:
    mechanism = WeightedExponential(epsilon, measure)
    public = (0,) * len(measure)
    assert mechanism.worst_likelihood_ratio(public) == brute_force(mechanism, public)


@given(any_scores())
def test_a_base_measure_takes_the_place_of_public_relevance(found: Scores) -> None:
    private = found.private.reveal()
    mechanism = WeightedExponential(THIRD_OF_TWO, MEASURE[: len(private)])
    without = scores((0,) * len(private), private)
    assert mechanism.distribution(found) == mechanism.distribution(without)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=8).map(tuple))
def test_no_base_measure_makes_the_solved_mechanism_cost_more_than_epsilon(
    measure: tuple[int, ...],
) -> None:
    mechanism = WeightedExponential(THIRD_OF_TWO, measure)
    ratio = mechanism.worst_likelihood_ratio((0,) * len(measure))
    assert ratio <= exp_at_least(epsilon_fraction(mechanism.charge))
    assert mechanism.charge <= THIRD_OF_TWO


@pytest.mark.parametrize("measure", [(), (0, 1), (1, -1)])
def test_refuses_a_base_measure_that_rules_a_view_out(measure: tuple[int, ...]) -> None:
    with pytest.raises(ContractError):
        WeightedExponential(THIRD_OF_TWO, measure)


def test_refuses_to_state_the_loss_for_another_number_of_views() -> None:
    with pytest.raises(ContractError):
        WeightedExponential(THIRD_OF_TWO, (1, 1)).worst_likelihood_ratio((0, 0, 0))


@given(any_scores())
def test_permute_and_flip_is_never_worse_on_average_than_the_paper(found: Scores) -> None:
    totals = [r + p for r, p in zip(found.public, found.private.reveal(), strict=True)]

    def expected(mechanism: SelectionMechanism) -> Fraction:
        chances = mechanism.distribution(found)
        return sum((c * t for c, t in zip(chances, totals, strict=True)), Fraction(0))

    flipped, paper = expected(PermuteAndFlip(THIRD_OF_TWO)), expected(Exponential(THIRD_OF_TWO))
    assert flipped >= paper * (1 - Fraction(1, 1 << 90))


def log_range(mechanism: SelectionMechanism) -> tuple[Fraction, Fraction]:
    """How far the log-likelihood ratios of two views lie apart, for opposite contents."""
    under = [
        mechanism.distribution(scores((0, 0), p)) for p in product((0, PRIVATE_RANGE), repeat=2)
    ]
    spread = max(one[0] / other[0] / (one[1] / other[1]) for one, other in product(under, repeat=2))
    return ln_enclosure(spread, digits=30)


@every_epsilon
def test_the_exponential_mechanism_has_the_range_that_it_states(epsilon: Units) -> None:
    """Two views reach it: the loss is ε/2 each way, and the range their sum."""
    stated = epsilon_fraction(int(Exponential(epsilon).range))
    low, high = log_range(Exponential(epsilon))
    tiny = Fraction(1, 10**28)
    assert stated - tiny <= high
    assert low <= stated + tiny


def test_permute_and_flip_has_no_such_range_and_states_none() -> None:
    """Its range is above 1.5 ε, so what is sound for a range of ε would be charged too little."""
    low, _ = log_range(PermuteAndFlip(THIRD_OF_TWO))
    assert low > epsilon_fraction(THIRD_OF_TWO) * Fraction(3, 2)
    for make in (PermuteAndFlip, RandomizedResponse):
        assert not hasattr(make(THIRD_OF_TWO), "range")
    assert not hasattr(WeightedExponential(THIRD_OF_TWO, (1, 1)), "range")


@every_epsilon
def test_randomized_response_names_the_best_with_its_exact_chance(epsilon: Units) -> None:
    """`e^ε / (e^ε + k - 1)`, and all others alike."""
    chances = RandomizedResponse(epsilon).distribution(scores((0, 0, 9), (0, 512, 0)))
    low, high = exp_enclosure(epsilon_fraction(epsilon), digits=50)
    real = (low + high) / 2
    assert abs(chances[1] - real / (real + 2)) < Fraction(1, 1 << 100)
    assert chances[0] == chances[2]


def test_randomized_response_breaks_ties_for_the_earliest_candidate() -> None:
    chances = RandomizedResponse(THIRD_OF_TWO).distribution(scores((0, 0, 0), (0, 7, 7)))
    assert chances.index(max(chances)) == 1


@given(st.integers(1, 16 * UNITS_PER_EPSILON))
def test_randomized_response_never_charges_more_than_epsilon(epsilon: int) -> None:
    charge = RandomizedResponse(Units(epsilon)).charge
    assert epsilon - 1 <= charge <= epsilon


@every_epsilon
def test_a_belief_is_certain_enough_beyond_what_one_draw_makes_of_a_coin(epsilon: Units) -> None:
    """Strictly: the belief after one draw from two views is not yet enough for no more draws."""
    after_one = RandomizedResponse(epsilon).distribution(scores((0, 0), (1, 0)))[0]
    assert not certain_enough(after_one, epsilon)
    assert certain_enough(after_one + Fraction(1, 1 << 100), epsilon)
    assert not certain_enough(Fraction(1, 2), epsilon)
    assert certain_enough(Fraction(1), epsilon)


def test_scores_on_the_grid_reach_both_ends() -> None:
    """The table of weights covers what `scoring` can produce, no more and no less."""
    mechanism = Exponential(THIRD_OF_TWO)
    assert len(mechanism.weights(scores((0, 2 * GRID), (0, 3 * GRID)))) == 2
    with pytest.raises(IndexError):
        mechanism.weights(scores((2 * GRID,), (3 * GRID + 1,)))
