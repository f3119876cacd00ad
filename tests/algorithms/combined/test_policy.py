"""`combined` finds the placement of least cost, and `auto` says what it tried."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import mooring
from mooring.model.evaluation.metrics import evaluate_placement
from mooring.model.evaluation.value import Preferences
from mooring.model.load.build import build_load_model
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


def drawn(seed: int, prefer: Any) -> Problem:
    rng = np.random.default_rng(seed)
    return Problem.from_dict(
        {
            "sites": {name: {"capacity": 1, "price": float(rng.uniform(1, 3))} for name in "abc"},
            "latency_ms": {"a": {"b": 10, "c": 20}, "b": {"c": 15}},
            "streams": {
                "x": {"rate": 100, "site": "a", "bytes": 100},
                "y": {"rate": 100, "site": "b", "bytes": 100},
            },
            "operators": {
                "f": {"inputs": ["x"], "cost_us": float(rng.uniform(300, 3000))},
                "g": {"inputs": ["y"], "cost_us": float(rng.uniform(300, 3000))},
                "h": {"inputs": ["f", "g"], "cost_us": float(rng.uniform(300, 1500))},
                "k": {"inputs": ["x"], "cost_us": float(rng.uniform(300, 3000))},
            },
            "queries": {"q": {"reads": "h", "site": "c"}},
            "goals": {"prefer": prefer},
        }
    )


@pytest.mark.parametrize(
    ("seed", "prefer"),
    [
        (1, {"bytes_in_flight": 1, "latency": 2}),
        (2, {"latency": 1, "price": 1}),
        (3, ["headroom", "sites"]),
        (4, {"feasible_ratio": 1, "bytes_in_flight": 1}),
    ],
)
def test_combined_finds_the_least_cost_of_all_placements(seed: int, prefer: Any) -> None:
    problem = drawn(seed, prefer)
    model = build_load_model(problem)
    preferences = Preferences(problem, model)

    def value(placement: Placement) -> float:
        return preferences.value(preferences.costs(placement, evaluate_placement(model, placement)))

    every = (Placement(problem, np.array(sites)) for sites in product(range(3), repeat=4))
    carried = [
        each
        for each in every
        if (model.site_loads(each.site_of_fragment, problem.rates) <= 0.97 * model.capacity_cores).all()
    ]
    best = min(map(value, carried))
    assert value(mooring.plan(problem, "combined", steps=2000).placement) <= 1.01 * best


def test_auto_says_what_it_tried_and_what_won() -> None:
    made = mooring.plan(drawn(1, {"bytes_in_flight": 1, "latency": 2}), "auto", steps=2000)
    assert made.sentences[0].startswith("auto tried ")
    assert "of bytes_in_flight and latency" in made.sentences[0]
    assert "won" in made.sentences[1]


def test_auto_spends_all_on_the_feasible_set_where_nothing_else_counts() -> None:
    problem = drawn(1, {"feasible_ratio": 1})
    auto = mooring.plan(problem, "auto", steps=2000)
    assert (
        auto.placement.by_fragment() == mooring.plan(problem, "resilient", steps=2000).placement.by_fragment()
    )
