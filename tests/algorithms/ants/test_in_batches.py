"""Where fragments run in micro-batches, ants reckon as the model of micro-batches does."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.algorithms.ants import colony_kernels
from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.colony import ColonyRun
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.model.load.build import build_load_model
from mooring.model.load.micro_batches import micro_batches
from mooring.model.problem.problem import Problem

TRIGGER_S = 3.0


def chain_and_other() -> Problem:
    """Three fragments with a quarter of a core each from a to b, and one as large that is pinned to b."""
    chain = {
        f"o{k}": {"inputs": [f"o{k - 1}" if k else "x"], "cost_us": 1500, "fixed_cores": 0.1}
        for k in range(3)
    }
    return Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "latency_ms": {"a": {"b": 30}},
            "streams": {"x": {"rate": 100, "site": "a"}, "y": {"rate": 100, "site": "b"}},
            "operators": {
                **chain,
                "h": {"inputs": ["y"], "cost_us": 1500, "fixed_cores": 0.1, "site": "b"},
            },
            "queries": {"q": {"reads": "o2", "site": "b"}, "r": {"reads": "h", "site": "b"}},
        }
    )


@pytest.mark.parametrize("sites", [(0, 0, 0, 1), (0, 1, 1, 1), (0, 0, 1, 1)])
def test_a_chain_costs_what_the_model_says_that_it_adds(sites: tuple[int, ...]) -> None:
    """Half a trigger, two channels, the last batch with what shares its site, and the way to the query; and
    what h's batches take longer beside those of the chain."""
    problem = chain_and_other()
    model, at = build_load_model(problem), np.array(sites)
    search = LatencySearch.of(problem, model, TRIGGER_S)
    (chain,) = search.chains
    run = ColonyRun(search, AntParams(), [(1,), (0,)], 0, at)
    run.adopt(0)
    run.withdraw(0)
    reckoned_s = chain.sure_s + colony_kernels.cost_of(run.colony, run._arrays(chain), run.ways[0])
    h_alone_s = (TRIGGER_S / 2.0 + TRIGGER_S * 0.25) / 2.0
    assert reckoned_s + h_alone_s == pytest.approx(
        micro_batches(problem, model, at, TRIGGER_S).query_s.mean()
    )


def test_beyond_the_load_limit_a_site_has_no_room() -> None:
    problem = chain_and_other()
    search = LatencySearch.of(problem, build_load_model(problem), TRIGGER_S)
    params = AntParams(least_limit=0.6, most_limit=0.6)
    run = ColonyRun(search, params, [(1,), (0,)], 0, search.model.pinned_site.astype(np.int64))
    assert run.place(0)
    used = run.colony.totals[:, 1] + run.colony.totals[:, 6]
    assert used.max() < 0.6
