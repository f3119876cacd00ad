"""`optimal --set objective=latency`."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mooring.algorithms.exact.latency_optimum import latency_optimum
from mooring.errors import InfeasibleError, UnsupportedError
from mooring.model.load.build import build_load_model
from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.load.queued.many_placements import ManyPlacements
from mooring.model.placement.checker import violations
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from tests.algorithms.ants.latency_problems import chains, diamond
from tests.model.load.queued.test_many_placements import random_graph


def mean_s(problem: Problem, placement: Placement) -> float:
    return float(queued_latencies(problem, placement.site_of_operator.tolist()).query_s.mean())


def least_of_all(problem: Problem) -> float:
    """Over every placement that is allowed."""
    model, many = build_load_model(problem), ManyPlacements.of(problem)
    least = np.inf
    for each in product(range(len(problem.sites)), repeat=len(problem.fragments)):
        sites = np.array(each)
        found_s = float(many.latencies(sites).query_s.mean())
        if found_s < least and not violations(problem, model, Placement(problem, sites)):
            least = found_s
    return least


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_better_on_any_graph(seed: int) -> None:
    rng = np.random.default_rng(seed)
    least_s = np.inf
    while np.isinf(least_s):
        problem = random_graph(rng)
        if len(problem.sites) ** len(problem.fragments) <= 3000:
            least_s = least_of_all(problem)
    sites = latency_optimum(problem, build_load_model(problem))
    assert mean_s(problem, Placement(problem, sites)) == pytest.approx(least_s)


def test_nothing_is_better_where_memory_binds() -> None:
    data = diamond()
    for operator in data["operators"].values():
        operator["memory_mb"] = 40
    for site in data["sites"].values():
        site["memory_mb"] = 80
    data["operators"]["top"]["site"] = "b"
    problem = Problem.from_dict(data)
    found = plan(problem, "optimal", settings={"objective": "latency"}).placement
    assert mean_s(problem, found) == pytest.approx(least_of_all(problem))


def test_three_operators_on_forty_sites_are_no_trouble() -> None:
    problem = chains(np.random.default_rng(0), sites=40, queries=1, tasks=(3, 3))
    model = build_load_model(problem)
    sites = latency_optimum(problem, model, node_budget=2_000_000)
    descended = plan(problem, "descent").placement
    assert mean_s(problem, Placement(problem, sites)) <= mean_s(problem, descended) * (1.0 + 1e-9)


def test_it_says_when_there_is_too_much_to_look_at() -> None:
    problem = chains(np.random.default_rng(0), sites=30, queries=20, tasks=(3, 5))
    with pytest.raises(UnsupportedError, match="1,000 partial placements"):
        latency_optimum(problem, build_load_model(problem), node_budget=20_000)


def test_it_says_when_every_placement_overloads_something() -> None:
    data = diamond()
    data["streams"]["x"]["rate"] = 1e5
    problem = Problem.from_dict(data)
    with pytest.raises(InfeasibleError, match="overloads"):
        latency_optimum(problem, build_load_model(problem))


def test_crossings_that_cost_cpu_are_left_to_other_policies() -> None:
    data = diamond() | {"network": {"comm_us": 5}}
    with pytest.raises(UnsupportedError, match="comm_us"):
        plan(Problem.from_dict(data), "optimal", settings={"objective": "latency"})
