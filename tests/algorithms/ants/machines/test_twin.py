"""The compiled colony does what the machines do, from the same seeds, when ants go one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lab.faults.harness import Harness
from lab.faults.placing_ants import (
    EndChain,
    PlaceChain,
    PlacingSite,
    ants_machines,
    chain_spec,
)
from lab.faults.scenario import Scenario
from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.briefing import site_facts
from mooring.algorithms.ants.colony import ColonyRun
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.machines.colony_params import ColonyParams
from mooring.algorithms.ants.neighbours import neighbours_of
from mooring.algorithms.ants.policy import shared_kinds
from mooring.model.load.build import build_load_model
from mooring.model.problem.latencies import as_matrix
from mooring.model.problem.problem import Problem
from tests.algorithms.ants.latency_problems import chains, diamond, overlapping

PARAMS = AntParams(routing_ants=25, scouts=20, failures=2, most_limit=0.8)


def tight() -> Problem:
    """So little capacity that scouts fail, paths are discouraged and chains are refused."""
    return chains(np.random.default_rng(4), sites=7, queries=7, tasks=(2, 4), cost_us=(6000, 22000))


def there_and_back() -> Problem:
    """Every chain begins and ends at one site, which has no room for all of them."""
    return Problem.from_dict(
        {
            "sites": {name: {"capacity": 1} for name in "abcd"},
            "latency_ms": {"a": {"b": 5, "c": 9, "d": 20}, "b": {"c": 7, "d": 9}, "c": {"d": 4}},
            "streams": {f"x{k}": {"rate": 40, "site": "a"} for k in range(3)},
            "operators": {
                f"{name}{k}": {"inputs": [f"f{k}" if name == "g" else f"x{k}"], "cost_us": 6000}
                for k in range(3)
                for name in "fg"
            },
            "queries": {f"q{k}": {"reads": f"g{k}", "site": "a"} for k in range(3)},
        }
    )


def test_chains_that_begin_where_they_end_have_their_tasks_elsewhere_if_need_be() -> None:
    search = LatencySearch.of(there_and_back(), build_load_model(there_and_back()))
    neighbours = neighbours_of(search.problem.network, 4, np.random.default_rng(0))
    run = ColonyRun(search, PARAMS, neighbours, 0, search.model.pinned_site.astype(np.int64))
    assert all(run.place(number) for number in range(len(search.chains)))
    assert len(set(run.sites.tolist())) > 1


def by_machines(
    search: LatencySearch, neighbours: list[tuple[int, ...]], seed: int, signature: Any = None
) -> tuple[Any, Harness]:
    """Sites of fragments (-1: refused), chain after chain."""
    params = ColonyParams(PARAMS, seed, at_once=1, attempts=1, ant_ms=5000.0, lease_ms=1e9, forgotten_ms=1e12)
    facts = site_facts(search, neighbours)
    assert search.problem.network.latency_ms is not None
    latency_ms = tuple(map(tuple, as_matrix(search.problem.network.latency_ms).tolist()))
    harness = Harness(
        Scenario(seed, latency_ms, 1e12), ants_machines(lambda sites: facts, params), recorded=False
    )
    sites = search.model.pinned_site.astype(np.int64).copy()
    for number, chain in enumerate(search.chains):
        spec = chain_spec(number, chain, sites, signature)
        harness.ask(spec.source, PlaceChain(spec))
        led = None
        while led is None or led.status == "searching":
            harness.run_until(harness.now_ms + 5000.0)
            assert harness.violation is None, harness.violation
            led = harness.machine(spec.source).leader.led.get(number)
        for segment in led.segments:
            sites[list(chain.fragments[segment.first : segment.last + 1])] = segment.site
    return sites, harness


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("problem", "trigger_s", "delay_limit_s"),
    [
        (chains(np.random.default_rng(1), sites=12, queries=5, tasks=(2, 4)), 0.0, 0.0),
        (tight(), 0.0, 0.0),
        (tight(), 0.0, 0.05),
        (Problem.from_dict(diamond()), 0.0, 0.0),
        (there_and_back(), 0.0, 0.0),
        (tight(), 0.5, 0.0),
        (Problem.from_dict(diamond()), 0.5, 0.3),
    ],
    ids=["roomy", "tight", "quick", "graph", "back", "tight in batches", "graph in quick batches"],
)
def test_same_seeds_same_placements_pheromones_and_totals(
    problem: Problem, trigger_s: float, delay_limit_s: float, seed: int
) -> None:
    search = LatencySearch.of(problem, build_load_model(problem), trigger_s, delay_limit_s)
    neighbours = neighbours_of(problem.network, len(problem.sites), np.random.default_rng(seed))
    found, harness = by_machines(search, neighbours, seed)
    run = ColonyRun(search, PARAMS, neighbours, seed, search.model.pinned_site.astype(np.int64))
    for number in range(len(search.chains)):
        run.place(number)
    assert run.sites.tolist() == found.tolist()
    assert run.trails is not None
    for s, own in enumerate(neighbours):
        machine: PlacingSite = harness.machine(s)
        assert run.colony.totals[s] == pytest.approx(machine.deployed.totals, rel=1e-12, abs=1e-15)
        for destination, trail in machine.cell.trails.items():
            rows = run.trails.turn_to(destination)
            row = int(rows.row_of[s])
            assert rows.weight[row, : len(own)] == pytest.approx(trail.weights)
            assert rows.trips[row] == trail.trips
            assert rows.mean_s[row] == pytest.approx(trail.mean_s)


@pytest.mark.parametrize("seed", range(3))
def test_same_seeds_share_the_same_and_what_is_shared_ends_with_its_last_reader(seed: int) -> None:
    problem = overlapping(np.random.default_rng(seed), sites=6, queries=6)
    search, signature = LatencySearch.of(problem, build_load_model(problem)), shared_kinds(problem)
    neighbours = neighbours_of(problem.network, len(problem.sites), np.random.default_rng(seed))
    found, harness = by_machines(search, neighbours, seed, signature)
    run = ColonyRun(search, PARAMS, neighbours, seed, search.model.pinned_site.astype(np.int64), signature)
    numbers = range(len(search.chains))
    assert all(run.place(number) for number in numbers)
    assert run.sites.tolist() == found.tolist()
    deployed = [harness.machine(s).deployed for s in range(len(neighbours))]
    reserved = [each for own in deployed for each in own.reservations.values()]
    assert sum(int(run.ways[n].shared.sum()) for n in numbers) == sum(r.segment.shared for r in reserved) > 0
    for number in numbers:
        for s, own in enumerate(deployed):
            assert run.colony.totals[s] == pytest.approx(own.totals, rel=1e-9, abs=1e-12)
        run.withdraw(number)
        harness.ask(chain_spec(number, search.chains[number], found).source, EndChain(number))
        harness.run_until(harness.now_ms + 100.0)
    assert run.colony.totals == pytest.approx(0.0, abs=1e-9)
    assert not run.colony.runs.any()


def test_in_the_tight_problem_chains_are_refused() -> None:
    problem = tight()
    search = LatencySearch.of(problem, build_load_model(problem))
    neighbours = neighbours_of(problem.network, len(problem.sites), np.random.default_rng(0))
    run = ColonyRun(search, PARAMS, neighbours, 0, search.model.pinned_site.astype(np.int64))
    placed = [run.place(number) for number in range(len(search.chains))]
    assert 0 < sum(placed) < len(placed)
    assert all((run.sites[list(search.chains[n].fragments)] < 0).all() for n in run.refused)
