"""Sampling controls act on every row before rows are mixed, with public parameters."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tactfuld.fusing.distributions import Controls, masses

LOGITS = np.array([[1.0, -2.0, 0.5, 3.0], [0.0, 4.0, -1.0, -1.0]], dtype=np.float32)


def normal(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = rows / rows.sum(axis=1, keepdims=True)
    return shares


def test_masses_are_the_softmax_at_the_temperature() -> None:
    controls = Controls(temperature=0.5)
    expected = np.exp(LOGITS.astype(np.float64) / 0.5)
    np.testing.assert_allclose(normal(masses(LOGITS, (), controls)), normal(expected), rtol=1e-12)


def test_a_released_token_is_penalised_in_every_row() -> None:
    controls = Controls(temperature=1.0, repeat_penalty=2.0)
    changed = LOGITS.astype(np.float64)
    changed[:, 1] = [-4.0, 2.0]
    changed[:, 3] = [1.5, -2.0]
    found = masses(LOGITS, (3, 1, 3), controls)
    np.testing.assert_allclose(normal(found), normal(np.exp(changed)), rtol=1e-12)


def test_tokens_before_the_window_are_forgotten() -> None:
    controls = Controls(repeat_window=2)
    assert (masses(LOGITS, (0, 1, 2), controls) == masses(LOGITS, (1, 2), controls)).all()
    free = Controls(repeat_window=0)
    assert (masses(LOGITS, (0, 1), free) == masses(LOGITS, (), free)).all()


def test_each_row_is_a_function_of_its_own_logits() -> None:
    other = LOGITS.copy()
    other[1] = [9.0, -9.0, 0.0, 1.0]
    found, also = (masses(each, (2,), Controls()) for each in (LOGITS, other))
    assert (found[0] == also[0]).all()
    assert (found[1] != also[1]).any()


def test_no_mass_is_cut_off() -> None:
    far = np.array([[0.0, -80.0, -200.0]], dtype=np.float32)
    assert (masses(far, (), Controls(temperature=1.0)) > 0).all()


def test_barred_tokens_weigh_nothing_in_every_row() -> None:
    found = masses(LOGITS, (), Controls(), barred=(3, 1))
    assert (found[:, [1, 3]] == 0).all()
    assert (found[:, [0, 2]] > 0).all()
    assert (found.max(axis=1) == 1).all()


def test_the_logits_are_left_as_they_are() -> None:
    before = LOGITS.copy()
    masses(LOGITS, (1,), Controls())
    assert (before == LOGITS).all()


@pytest.mark.parametrize(("temperature", "penalty"), [(0.0, 1.0), (1.0, -1.0), (float("nan"), 1.0)])
def test_refuses_controls_that_make_no_distribution(temperature: float, penalty: float) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        Controls(temperature=temperature, repeat_penalty=penalty)
