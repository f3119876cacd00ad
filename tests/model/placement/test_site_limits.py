"""Hard limits: memory, and capacity for load that is there at rate zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.errors import InfeasibleError
from mooring.model.load.model import LoadModel
from mooring.model.placement.site_limits import SiteLimits, first_that_fits


def model(**changes: Any) -> LoadModel:
    values: dict[str, Any] = {"fixed_cores": [0.5, 0.5, 0.1], "memory_mb": [0, 60, 60]}
    return LoadModel.from_coefficients(
        [[1.0], [1.0], [1.0]], [1, 2], memory_limit_mb=[100, np.inf], **{**values, **changes}
    )


def test_a_site_is_allowed_until_memory_or_capacity_runs_out() -> None:
    limits = SiteLimits(model())
    limits.take(0, 0)
    assert limits.allowed(1).tolist() == [True, True]
    limits.take(1, 0)
    assert limits.allowed(2).tolist() == [False, True]
    limits.take(0, 1)
    limits.take(0, 1)
    limits.take(0, 1)
    assert limits.allowed(1).tolist() == [False, True], "exactly full is allowed"


def test_a_pinned_fragment_is_allowed_at_its_site_only() -> None:
    assert SiteLimits(model(pinned_site=[1, -1, -1])).allowed(0).tolist() == [False, True]


def test_pinned_fragments_come_first_and_the_hardest_next_when_the_order_fails() -> None:
    tried: list[list[int]] = []

    def attempt(order: np.ndarray) -> np.ndarray:
        tried.append(order.tolist())
        raise InfeasibleError(f"attempt {len(tried)}")

    with pytest.raises(InfeasibleError, match="attempt 1"):
        first_that_fits(model(fixed_cores=[0.1, 0.2, 0.9], pinned_site=[-1, 1, -1]), np.arange(3), attempt)
    assert tried == [[1, 0, 2], [1, 2, 0]]
