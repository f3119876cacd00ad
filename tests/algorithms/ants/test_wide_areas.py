"""Ants over sites with coordinates: no matrix of latencies, and pheromones only where ants come by."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.colony import ColonyRun, most_neighbours
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.neighbours import neighbours_of
from mooring.algorithms.ants.trails import KeptTrails
from mooring.errors import UnsupportedError
from mooring.model.load.build import build_load_model
from mooring.model.load.queued import many_placements
from mooring.model.load.queued.way_kernels import ways_of
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.latencies import MOST_IN_MATRIX, as_matrix
from mooring.model.problem.network import Network
from mooring.model.problem.problem import Problem
from mooring.planning import plan


def over_a_plane(sites: int, queries: int, operators: int, utilisation: float = 0.5) -> Problem:
    parameters = GraphParameters(
        streams=queries,
        operators=operators,
        sites=sites,
        queries=queries,
        plane_ms=100.0,
        stream_bytes=100.0,
        utilisation=utilisation,
    )
    return generate_problem(parameters, np.random.default_rng(0))


@pytest.mark.parametrize("policy", ["ants", "descent"])
def test_coordinates_are_placed_as_their_matrix_is(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = partial(ways_of, most_read=0)
    monkeypatch.setattr(many_placements, "ways_of", computed)
    problem = over_a_plane(sites=20, queries=10, operators=60)
    assert problem.network.latency_ms is not None
    stated = replace(problem, network=Network(as_matrix(problem.network.latency_ms)))
    found, other = plan(problem, policy).placement, plan(stated, policy).placement
    assert found.site_of_fragment.tolist() == other.site_of_fragment.tolist()


def test_more_sites_than_a_matrix_is_made_for_are_placed() -> None:
    """The bound on bytes in flight needs a matrix, so explanations leave it out."""
    problem = over_a_plane(sites=MOST_IN_MATRIX + 1, queries=3, operators=6, utilisation=1e-4)
    assert plan(problem, "ants").metrics.max_utilisation < 1.0
    explained = plan(problem, "relaxation", thorough=True).explanation.sentences
    assert any("needs a matrix of latencies" in sentence for sentence in explained)
    for policy in ("overlay", "optimal"):
        settings = {"objective": "network"} if policy == "optimal" else None
        with pytest.raises(UnsupportedError, match="use relaxation, ants or descent"):
            plan(problem, policy, settings=settings)


def test_rows_that_no_ant_has_changed_can_be_dropped() -> None:
    problem = over_a_plane(sites=40, queries=12, operators=48)
    search = LatencySearch.of(problem, build_load_model(problem))
    neighbours = neighbours_of(problem.network, 40, np.random.default_rng(0))
    slots, pinned = most_neighbours(neighbours), search.model.pinned_site.astype(np.int64)
    runs = [
        ColonyRun(search, AntParams(), neighbours, 0, pinned.copy(), trails=KeptTrails(40, slots, most))
        for most in (10**6, 0)
    ]
    for run in runs:
        for number in range(len(search.chains)):
            run.place(number)
        for number in run.ways:
            run.improve(number, 10)
    all_kept, dropped = (run.trails.rows.used[0] for run in runs if run.trails is not None)
    assert runs[0].sites.tolist() == runs[1].sites.tolist()
    assert 0 < dropped < all_kept
