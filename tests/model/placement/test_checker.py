"""The checker finds each kind of violation, and nothing in an allowed placement."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.contracts.policy import Context
from mooring.model.placement.checker import violations
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem

PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1, "memory_mb": 100}, "b": {"capacity": 2}},
        "streams": {"s": {"rate": 1}},
        "operators": {
            "pinned": {"inputs": ["s"], "cost_us": 1, "site": "a"},
            "large": {"inputs": ["s"], "cost_us": 1, "memory_mb": 101},
            "dear": {"inputs": ["s"], "cost_us": 1, "fixed_cores": 0.6},
            "dear_too": {"inputs": ["s"], "cost_us": 1, "fixed_cores": 0.6},
        },
    }
)
MODEL = Context.of(PROBLEM).load


def found(sites: list[int]) -> list[str]:
    return violations(PROBLEM, MODEL, Placement(PROBLEM, np.array(sites)))


def test_an_allowed_placement_has_none() -> None:
    assert found([0, 1, 0, 1]) == []


@pytest.mark.parametrize(
    ("sites", "words"),
    [
        ([1, 1, 0, 1], "'pinned' is pinned to 'a' but placed at 'b'"),
        ([0, 0, 0, 1], "site 'a' has 100 MB, its fragments need 101 MB"),
        ([0, 1, 0, 0], "site 'a' has 1 cores, its fragments need 1.2 at rate zero"),
        ([0, 1, 2, 1], "'dear' is at site number 2, which does not exist"),
        ([0, 1, -1, 1], "'dear' is at site number -1, which does not exist"),
    ],
)
def test_each_kind_of_violation_is_named(sites: list[int], words: str) -> None:
    (only,) = found(sites)
    assert words in only
