"""Policy `descent`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mooring.algorithms.ants.descent import Descent
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.contracts.deadline import Deadline
from mooring.contracts.policy import Context
from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.placement.checker import violations
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from tests.algorithms.ants.latency_problems import chains, diamond


def mean_ms(problem: Problem, placement: Placement) -> float:
    found = queued_latencies(problem, placement.site_of_operator.tolist())
    return 1e3 * float(found.query_s.mean())


def test_no_single_move_lowers_the_mean_latency_further() -> None:
    problem = chains(np.random.default_rng(1), sites=8, queries=4, tasks=(2, 3))
    found = plan(problem, Descent()).placement
    least = mean_ms(problem, found)
    for fragment in range(len(problem.fragments)):
        for site in range(len(problem.sites)):
            sites = found.site_of_fragment.copy()
            sites[fragment] = site
            assert mean_ms(problem, Placement(problem, sites)) >= least * (1.0 - 1e-6)


def test_a_good_start_ends_lower_than_random_ones_do() -> None:
    ratios = []
    for seed in range(4):
        problem = chains(np.random.default_rng(seed), sites=30, queries=12, tasks=(2, 5))
        good = mean_ms(problem, plan(problem, Descent()).placement)
        ratios.append(mean_ms(problem, plan(problem, Descent(start="random")).placement) / good)
    assert min(ratios) > 0.99
    assert np.mean(ratios) > 1.05


def test_from_a_running_placement_at_most_so_many_fragments_move() -> None:
    problem = chains(np.random.default_rng(2), sites=12, queries=5, tasks=(2, 4))
    current = plan(problem, "random", seed=3).placement
    before = mean_ms(problem, current)
    last = before
    for most in (0, 1, 3, 8):
        found = plan(problem, "descent", current=current, max_moves=most).placement
        moved = int((found.site_of_fragment != current.site_of_fragment).sum())
        assert moved <= most
        assert mean_ms(problem, found) <= last * (1.0 + 1e-9)
        last = mean_ms(problem, found)
    assert last < before


def test_what_may_not_move_stays() -> None:
    data = diamond()
    data["operators"]["top"]["movable"] = False
    problem = Problem.from_dict(data)
    current = Placement(problem, np.full(len(problem.fragments), 1))
    found = plan(problem, "descent", current=current).placement
    top = problem.fragment_names.index("top")
    assert found.site_of_fragment[top] == 1
    assert (found.site_of_fragment != 1).any()


def test_an_overloaded_start_is_left() -> None:
    problem = chains(np.random.default_rng(5), sites=6, queries=8, tasks=(2, 3))
    search = LatencySearch.of(problem, Context.of(problem).load)
    sites, latency_s = search.descend(np.zeros(len(problem.fragments), dtype=np.int64), passes=50)
    assert latency_s < 1.0
    assert search.many.latencies(sites).site_utilisation.max() < 1.0


@pytest.mark.parametrize(("missing", "why"), [("queries", "no queries"), ("latency_ms", "latency_ms")])
def test_it_says_what_it_lacks(missing: str, why: str) -> None:
    data = {key: value for key, value in diamond().items() if key != missing}
    assert why in str(Descent().unsupported(Problem.from_dict(data)))


@pytest.mark.parametrize("budget_s", [0.0, 1.0, 2.0, 3.0, 5.0])
def test_time_that_is_up_leaves_a_whole_plan_within_memory_and_fixed_load(budget_s: float) -> None:
    """The clock shows a second more at every look: time ends before, among or after the chains' ways."""
    problem = chains(np.random.default_rng(4), sites=20, queries=40, tasks=(2, 3))
    clock = itertools.count()
    deadline = Deadline.in_seconds(budget_s, lambda: float(next(clock)))
    load = Context.of(problem).load
    placement = Descent().place(problem, Context(load, np.random.default_rng(0), deadline=deadline))
    assert not violations(problem, load, placement)
    assert placement.site_of_fragment.min() >= 0
