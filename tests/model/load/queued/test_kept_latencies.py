"""What is kept while fragments move is what the whole model says of where they are."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.algorithms.ants.descent_kernels import objective, objective_of
from mooring.model.load.queued.kept_latency_kernels import kept_latencies, move
from mooring.model.load.queued.many_placements import ManyPlacements
from tests.model.load.queued.test_many_placements import random_graph


@pytest.mark.parametrize("seed", range(40))
def test_after_any_moves_the_mean_latency_is_the_whole_models(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_graph(rng)
    many = ManyPlacements.of(problem)
    sites = rng.integers(0, len(problem.sites), len(problem.fragments))
    kept = kept_latencies(many.template, many.weights, sites, close=1e-12)
    scratch = [np.zeros(len(each)) for each in (problem.queries, problem.sites, problem.sites)]
    for _ in range(25):
        fragment, site = int(rng.integers(len(sites))), int(rng.integers(len(problem.sites)))
        sites[fragment] = site
        move(many.template, kept, fragment, site)
        assert objective_of(kept) == pytest.approx(objective(many.template, sites, *scratch), rel=1e-9)
    assert (kept.sites == sites).all()
