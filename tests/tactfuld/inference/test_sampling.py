"""A draw keeps to the likely tokens, as the constants say, and forgets nothing of its reply."""

from collections import Counter

import numpy as np
import pytest

from tactfuld.inference.sampling import Sampler, Sampling, candidates, penalised

LOGITS = np.log(np.array([0.05, 0.4, 0.3, 0.15, 0.06, 0.04], np.float32))


def test_greedy_takes_the_likeliest() -> None:
    assert Sampler(Sampling(temperature=0.0), 0).draw(LOGITS) == 1


def test_nucleus_is_the_smallest_set_with_the_mass() -> None:
    tokens, chances = candidates(LOGITS, Sampling(top_p=0.8, min_p=0.0))
    assert list(tokens) == [1, 2, 3]
    assert chances / chances[0] == pytest.approx([1, 0.75, 0.375], rel=1e-5)


def test_nucleus_counts_the_mass_of_tokens_under_the_least_probability() -> None:
    """Of all mass and not of what `min_p` left: 0.7 of it is not 0.75."""
    tokens, _ = candidates(LOGITS, Sampling(top_p=0.75, min_p=0.3))
    assert list(tokens) == [1, 2, 3]
    tokens, _ = candidates(LOGITS, Sampling(top_p=0.75, min_p=0.5))
    assert list(tokens) == [1, 2]


def test_without_bounds_every_token_may_be_drawn() -> None:
    tokens, _ = candidates(LOGITS, Sampling(top_p=1.0, min_p=0.0))
    assert sorted(tokens) == list(range(6))


def test_what_was_drawn_becomes_less_likely() -> None:
    logits = np.array([2.0, -2.0, 1.0], np.float32)
    assert list(penalised(logits, [0, 1], 2.0)) == [1.0, -4.0, 1.0]
    assert list(logits) == [2.0, -2.0, 1.0]
    sampler = Sampler(Sampling(temperature=0.0, repeat_penalty=2.5), 0)
    assert [sampler.draw(logits) for _ in range(2)] == [0, 2]


def test_the_penalty_looks_back_as_far_as_its_window() -> None:
    logits = np.array([3.0, 2.9, 0.1], np.float32)
    sampler = Sampler(Sampling(temperature=0.0, repeat_penalty=2.0, repeat_window=1), 0)
    assert [sampler.draw(logits) for _ in range(4)] == [0, 1, 0, 1]


def test_draws_follow_the_chances() -> None:
    """2,000 draws: a wrong share passes with less than one in 10^9."""
    sampler = Sampler(Sampling(temperature=1.0, top_p=1.0, min_p=0.0, repeat_penalty=1.0), 1)
    found = Counter(sampler.draw(LOGITS) for _ in range(2000))
    for token, chance in enumerate(np.exp(LOGITS)):
        assert abs(found[token] - 2000 * chance) < 6.5 * (2000 * chance) ** 0.5


def test_a_low_temperature_sharpens() -> None:
    sampler = Sampler(Sampling(temperature=0.1, top_p=1.0, min_p=0.0, repeat_penalty=1.0), 1)
    found = Counter(sampler.draw(LOGITS) for _ in range(500))
    # 0.75^10 of the likeliest's weight is left for the next.
    assert 0.9 < found[1] / 500 < 0.98
    assert set(found) == {1, 2}


def test_the_same_seed_draws_the_same() -> None:
    hot = Sampling(temperature=5.0, top_p=1.0, min_p=0.0)
    one, other, third = (Sampler(hot, seed) for seed in (1, 1, 2))
    drawn = [[each.draw(LOGITS) for _ in range(40)] for each in (one, other, third)]
    assert drawn[0] == drawn[1] != drawn[2]
