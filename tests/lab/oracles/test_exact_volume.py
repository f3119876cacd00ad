"""The exact volume, where it is known by other means."""

from __future__ import annotations

from math import factorial, prod

import numpy as np
import pytest

from lab.oracles.exact_volume import exact_ratio
from mooring.errors import UnsupportedError


@pytest.mark.parametrize("d", range(1, 7))
def test_boxes_have_the_product_of_their_sides(d: int) -> None:
    """Each stream on a site of its own, all corners inside the ideal simplex: d! times the product."""
    sides = [1 / (d * (k + 1)) for k in range(d)]
    assert exact_ratio(np.diag([1 / side for side in sides])) == pytest.approx(
        factorial(d) * prod(sides), rel=1e-9
    )


@pytest.mark.parametrize("d", range(1, 7))
def test_the_ideal_plane_alone_leaves_everything(d: int) -> None:
    assert exact_ratio(np.ones((3, d))) == pytest.approx(1.0, rel=1e-9)
    assert exact_ratio(np.full((1, d), 0.5)) == pytest.approx(1.0, rel=1e-9)


def test_a_lower_bound_moves_the_corner() -> None:
    """x >= .2, x <= .5 within 1: .3 of .8."""
    assert exact_ratio([[2.0]], [0.2]) == pytest.approx(0.375)


def test_seven_dimensions_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="at most 6"):
        exact_ratio(np.ones((2, 7)))
