"""Our nets are SciPy's, bit for bit, and leave the random generator as SciPy does."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import qmc

from mooring.model.load.feasible.directions import MANY_VARIABLES
from mooring.model.load.feasible.sobol import POLYNOMIALS, sobol_net


@pytest.mark.parametrize("dimensions", [*range(1, 12), 20, 37, len(POLYNOMIALS)])
@pytest.mark.parametrize("points", [1, 2, 32, 2**13])
def test_a_net_is_scipys_bit_for_bit(dimensions: int, points: int) -> None:
    for seed in range(3):
        ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
        for _ in range(2):  # the second net is scrambled differently
            expected = qmc.Sobol(dimensions, rng=theirs).random(points)
            assert np.array_equal(sobol_net(dimensions, points, ours), expected)
        assert ours.random() == theirs.random()


def test_there_are_nets_for_as_many_variables_as_are_measured_by_them() -> None:
    assert len(POLYNOMIALS) >= MANY_VARIABLES
    with pytest.raises(ValueError, match="at most 64"):
        sobol_net(len(POLYNOMIALS) + 1, 2, np.random.default_rng(0))
