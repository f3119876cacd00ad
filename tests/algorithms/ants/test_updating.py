"""A colony that goes on while queries run."""

from __future__ import annotations

import numpy as np

from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.neighbours import neighbours_of
from mooring.algorithms.ants.policy import Ants
from mooring.algorithms.ants.updating import Updating
from mooring.model.load.build import build_load_model
from tests.algorithms.ants.latency_problems import chains


def test_of_very_many_chains_each_has_its_turn() -> None:
    problem = chains(np.random.default_rng(2), sites=10, queries=6, tasks=(2, 3))
    search = LatencySearch.of(problem, build_load_model(problem))
    neighbours = neighbours_of(problem.network, len(problem.sites), np.random.default_rng(0))
    updating = Updating(Ants().params(), neighbours, 0, most_chains=1)
    everything_at_once = np.zeros(len(problem.fragments), dtype=np.int64)
    moved = [
        {change.chain.fragments for change in updating.look(search, everything_at_once, np.zeros(100))}
        for _ in search.chains
    ]
    assert all(len(each) <= 1 for each in moved)
    assert set().union(*moved) == {chain.fragments for chain in search.chains}
