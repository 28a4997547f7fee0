"""The best adversary's AUC is exact for few outcomes and close enough for many."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tactful_eval import adversary
from tactful_eval.adversary import Release, best_auc

WEIGHTS = st.lists(st.integers(1, 50), min_size=2, max_size=4)


def release(telling: list[int], neutral: list[int]) -> Release:
    size = min(len(telling), len(neutral))
    p, q = np.array(telling[:size], float), np.array(neutral[:size], float)
    return Release(p / p.sum(), q / q.sum())


def by_definition(releases: list[Release]) -> float:
    """`Pr[L > L'] + ½ Pr[L = L']` over all pairs of transcripts."""
    pairs = [list(zip(each.telling, each.neutral, strict=True)) for each in releases]
    transcripts = [
        (math.prod(p for p, _ in way), math.prod(q for _, q in way))
        for way in itertools.product(*pairs)
    ]
    total = 0.0
    for (p, q), (other_p, other_q) in itertools.product(transcripts, transcripts):
        difference = math.log(p / q) - math.log(other_p / other_q)
        total += p * other_q * (0.5 if abs(difference) < 1e-9 else float(difference > 0))
    return total


def test_nothing_released_tells_nothing() -> None:
    assert best_auc([]) == 0.5


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
def test_one_randomized_response_is_as_telling_as_its_odds(epsilon: float) -> None:
    right = math.exp(epsilon) / (1 + math.exp(epsilon))
    answer = Release(np.array([1 - right, right]), np.array([right, 1 - right]))
    assert best_auc([answer]) == pytest.approx(right)


@settings(max_examples=60)
@given(st.lists(st.tuples(WEIGHTS, WEIGHTS), min_size=1, max_size=3))
def test_auc_is_what_its_definition_says(weights: list[tuple[list[int], list[int]]]) -> None:
    releases = [release(*each) for each in weights]
    assert best_auc(releases) == pytest.approx(by_definition(releases), abs=1e-9)


@settings(max_examples=60)
@given(st.lists(st.tuples(WEIGHTS, WEIGHTS), min_size=1, max_size=5))
def test_rounded_ratios_stay_within_the_stated_error(
    weights: list[tuple[list[int], list[int]]],
) -> None:
    releases = [release(*each) for each in weights]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adversary, "MOST_ATOMS", 0)
        rounded = best_auc(releases)
    proven = (math.exp(len(releases) * adversary.STEP) - 1) / 2
    assert rounded <= best_auc(releases) + 1e-9
    assert rounded == pytest.approx(best_auc(releases), abs=proven)
