"""Estimates say how far off they may be."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.model.load.feasible.estimate import Estimate


def test_the_interval_takes_students_quantile() -> None:
    """Four blocks: 3 degrees of freedom, quantile 3.182; standard deviation of 1, 2, 3, 4 tenths over 2."""
    estimate = Estimate.of_blocks(np.array([0.1, 0.2, 0.3, 0.4]))
    assert estimate.value == pytest.approx(0.25)
    assert estimate.standard_error == pytest.approx(np.sqrt(0.05 / 3) / 2)
    assert estimate.degrees_of_freedom == 3
    assert estimate.interval() == pytest.approx(
        (0.25 - 3.18245 * 0.0645497, 0.25 + 3.18245 * 0.0645497), abs=1e-5
    )


def test_the_interval_stays_between_zero_and_one() -> None:
    assert Estimate(0.01, 0.1, 15).interval()[0] == 0.0
    assert Estimate(0.99, 0.1, 15).interval()[1] == 1.0


def test_an_exact_value_is_its_own_interval() -> None:
    assert Estimate(0.3).interval() == (0.3, 0.3)


def test_a_higher_level_reaches_farther() -> None:
    estimate = Estimate(0.5, 0.01, 15)
    assert estimate.half_width(0.99) > estimate.half_width(0.95) > estimate.half_width(0.5) > 0
