"""Searches ask arrays what a placement breaks; the arrays say what the model and the metrics say."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.model.goals.mending import mended
from mooring.model.goals.rule_kernels import hold, shift, violation
from mooring.model.goals.rules import PRESENT, RuleBook
from mooring.model.load.build import build_load_model
from mooring.model.placement.links import node_bytes
from mooring.model.placement.network_metrics import deliveries, query_latencies_ms
from mooring.model.placement.placement import Placement
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.problem import Problem


def drawn(seed: int, **changed: object) -> Problem:
    settings: dict[str, object] = {"operators": 20, "sites": 4, "utilisation": 0.9, **changed}
    return generate_problem(GraphParameters(**settings), np.random.default_rng(seed))  # type: ignore[arg-type]


@pytest.mark.parametrize("comm_us", [0.0, 200.0])
def test_loads_beyond_the_sites_are_those_of_the_model(comm_us: float) -> None:
    problem = drawn(0, comm_us=comm_us)
    model, rng = build_load_model(problem), np.random.default_rng(1)
    book = RuleBook(model, problem, reserve=0.0)
    for _ in range(20):
        sites = rng.integers(0, 4, 20)
        beyond = np.maximum(model.site_loads(sites, problem.rates) / model.capacity_cores - 1.0, 0.0).sum()
        assert book.broken(sites) == pytest.approx(PRESENT * beyond, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_moves_lead_to_what_a_fresh_count_says(seed: int) -> None:
    problem = drawn(seed, comm_us=100.0, plane_ms=50.0, queries=3, stream_bytes=100.0)
    model, rng = build_load_model(problem), np.random.default_rng(seed)
    book = RuleBook(model, problem)
    held = book.held(rng.integers(0, 4, 20))
    for _ in range(200):
        shift(book.rules, held, int(rng.integers(20)), int(rng.integers(4)))
    sums, total = held.sums.copy(), violation(held)
    hold(book.rules, held, held.sites.copy())
    assert held.sums == pytest.approx(sums, abs=1e-6)
    assert violation(held) == pytest.approx(total, abs=1e-6)


def test_flows_on_limited_links_are_those_of_the_metrics() -> None:
    problem = drawn(5, plane_ms=50.0, queries=3, stream_bytes=100.0)
    limited = np.full((4, 4), 1.0)
    problem = with_bandwidth(problem, limited)
    book = RuleBook(build_load_model(problem), problem)
    sites = np.random.default_rng(0).integers(0, 4, 20)
    placement, size = Placement(problem, sites), node_bytes(problem)
    expected = np.zeros((4, 4))
    for each in deliveries(placement):
        expected[each.source_site, each.target_site] += each.rate * (size[each.node] or 0.0)
    assert book.held(sites).links == pytest.approx(expected)
    assert query_latencies_ms(placement, channel_ms=0.0)


def with_bandwidth(problem: Problem, bandwidth: np.ndarray) -> Problem:
    from dataclasses import replace

    return replace(problem, network=replace(problem.network, bandwidth=bandwidth))


def test_a_placement_is_mended_where_another_one_carries_the_load() -> None:
    carried = 0
    for seed in range(10):
        problem = drawn(seed, operators=50, sites=10)
        model = build_load_model(problem)
        book = RuleBook(model, problem)
        found = mended(book, np.zeros(50, dtype=np.int64), np.random.default_rng(0))
        carried += bool((model.site_loads(found, problem.rates) <= model.capacity_cores).all())
    assert carried == 10


def test_mending_a_running_placement_moves_little() -> None:
    problem = drawn(3, operators=50, sites=10)
    book = RuleBook(build_load_model(problem), problem)
    running = mended(book, np.zeros(50, dtype=np.int64), np.random.default_rng(0))
    broken = running.copy()
    broken[:3] = broken[3]
    found = mended(book, broken, np.random.default_rng(1), homes=broken, most_away=6)
    assert book.broken(found) < 1.0
    assert (found != broken).sum() <= 6
