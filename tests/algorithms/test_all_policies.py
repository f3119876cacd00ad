"""What every policy promises: nothing it places breaks a rule, and the seed decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.algorithms.catalogue import POLICIES, make_policy
from mooring.contracts.policy import Context
from mooring.errors import InfeasibleError
from mooring.model.placement.checker import violations
from mooring.model.problem.problem import Problem

VARIANTS = [
    *((name, {}) for name in POLICIES),
    ("rod", {"class_one": "fewest_crossings"}),
    ("rod", {"class_one": "random"}),
    ("rod", {"order": "coefficients", "clustering": "ratio"}),
    ("rod", {"clustering": "weight", "weight_cap": "2"}),
    ("random", {"balanced": "false"}),
]
STEPS = 20_000
"""Of a search: nine fragments at most have each of their moves tried again and again, hot and cold."""


def random_problem(seed: int, tight: bool) -> Problem:
    """Pins, fragments, fixed load, memory, unequal sites, lower bounds, joins and communication."""
    rng = np.random.default_rng(seed)
    sites = [f"site{i}" for i in range(rng.integers(1, 5))]
    streams = [f"s{k}" for k in range(rng.integers(1, 4))]
    nodes, operators = list(streams), {}
    for j in range(int(rng.integers(1, 9))):
        operator: dict[str, Any] = {
            "cost_us": float(rng.uniform(1, 200)),
            "selectivity": float(rng.uniform(0.1, 1)),
        }
        if rng.random() < 0.2 and len(nodes) > 1:
            operator |= {"kind": "join", "window_s": 0.5, "cost_us": 0.5, "selectivity": 0.01}
            operator["inputs"] = [str(name) for name in rng.choice(nodes, 2, replace=False)]
        else:
            operator["inputs"] = [str(rng.choice(nodes))]
            operator["variable"] = bool(rng.random() < 0.1)
        operator["fixed_cores"] = float(rng.random() * (0.4 if tight else 0.04)) * (rng.random() < 0.5)
        operator["memory_mb"] = float(rng.integers(0, 60 if tight else 10))
        if rng.random() < 0.3:
            operator["fragment"] = f"f{rng.integers(0, 3)}"
        elif rng.random() < 0.2:
            operator["site"] = str(rng.choice(sites))
        operators[f"o{j}"] = operator
        nodes.append(f"o{j}")
    return Problem.from_dict(
        {
            "sites": {
                name: {"capacity": float(rng.uniform(0.5, 2))}
                | ({"memory_mb": 100} if rng.random() < 0.7 else {})
                for name in sites
            },
            "network": {"comm_us": float(rng.choice([0, 20]))},
            "streams": {
                name: {"rate": float(rng.uniform(5, 100)), "min_rate": float(rng.choice([0, 5]))}
                | ({"site": str(rng.choice(sites))} if rng.random() < 0.5 else {})
                for name in streams
            },
            "operators": operators,
        }
    )


def fresh(problem: Problem) -> Context:
    return replace(Context.of(problem, seed=1), steps=STEPS)


@pytest.mark.parametrize(("name", "words"), VARIANTS, ids=lambda value: str(value))
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), tight=st.booleans())
def test_no_policy_breaks_a_rule_and_the_seed_decides(
    name: str, words: dict[str, str], seed: int, tight: bool
) -> None:
    problem = random_problem(seed, tight)
    policy = make_policy(name, words)
    try:
        context = fresh(problem)
        placement = policy.place(problem, context)
    except InfeasibleError:
        assert tight, "there is room for everything on every site"
        return
    assert violations(problem, context.load, placement) == []
    assert policy.place(problem, fresh(problem)) == placement
