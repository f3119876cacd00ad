"""Policy `ants` with reuse: what computes the same is run once, counted once, and nobody is worse off."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from mooring.algorithms.ants.policy import Ants
from mooring.contracts.policy import Context
from mooring.errors import InputError
from mooring.model.load.queued.latencies import QueuedLatencies, queued_latencies
from mooring.model.placement.placement import Placement
from mooring.model.placement.shared import as_shared
from mooring.model.placement.signatures import shared_operators
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from tests.algorithms.ants.latency_problems import overlapping

QUICK = {"scouts": "30", "rounds": "2"}


def running(placement: Placement) -> QueuedLatencies:
    """Of what runs where an engine shares."""
    shared = as_shared(placement)
    return queued_latencies(shared.problem, shared.site_of_operator.tolist())


def cores(placement: Placement) -> float:
    return float(running(placement).site_utilisation @ placement.problem.capacity_cores)


@pytest.mark.parametrize("seed", range(3))
def test_less_runs_and_results_come_no_later(seed: int) -> None:
    problem = overlapping(np.random.default_rng(seed), sites=8, queries=9)
    alone = plan(problem, "ants", settings=QUICK, seed=seed)
    reused = plan(problem, "ants", settings=QUICK | {"reuse": "true"}, seed=seed)
    assert len(reused.shared) > len(alone.shared)
    assert cores(reused.placement) < cores(alone.placement)
    assert running(reused.placement).query_s.mean() <= 1.02 * running(alone.placement).query_s.mean()
    assert any("With equal operators shared" in each for each in reused.explanation.sentences)


@pytest.mark.parametrize("seed", range(4))
def test_the_ants_count_the_load_of_what_runs(seed: int) -> None:
    """Per site at least that of the problem in which equal operators at one site are one, and no more than
    without sharing."""
    problem = overlapping(np.random.default_rng(seed), sites=6, queries=7)
    run = Ants(scouts=20, rounds=2, reuse=True).forage(problem, Context.of(problem, seed=seed))
    assert not run.refused
    placement = Placement(problem, run.sites)
    alone = queued_latencies(problem, placement.site_of_operator.tolist()).site_utilisation
    counted = run.colony.totals[:, 1] / problem.capacity_cores
    assert (counted >= running(placement).site_utilisation - 1e-9).all()
    assert (counted <= alone + 1e-9).all()
    shared = sum(int(way.shared[: way.size[0]].sum()) for way in run.ways.values())
    assert 0 < shared <= len(shared_operators(placement))
    if shared == len(shared_operators(placement)):
        assert counted == pytest.approx(running(placement).site_utilisation)


def test_a_query_that_shares_all_changes_nothing_for_the_others() -> None:
    one = overlapping(np.random.default_rng(5), sites=5, queries=1)
    both = plan(doubled(one), Ants(rounds=1, reuse=True)).placement
    assert len(shared_operators(both)) == 3
    first = Placement(one, both.site_of_fragment[:3])
    assert running(both).query_s.tolist() == pytest.approx([float(running(first).query_s[0])] * 2)
    alone = plan(one, Ants(rounds=1)).placement
    assert running(first).query_s[0] == pytest.approx(running(alone).query_s[0], rel=0.01)


def doubled(problem: Problem) -> Problem:
    """With a query that is the same once more."""
    names = {operator.name: f"{operator.name}_again" for operator in problem.operators}
    again = tuple(
        msgspec.structs.replace(
            operator,
            name=names[operator.name],
            inputs=tuple(names.get(each, each) for each in operator.inputs),
        )
        for operator in problem.operators
    )
    query = msgspec.structs.replace(problem.queries[0], name="again", reads=names[problem.queries[0].reads])
    return replace(problem, operators=problem.operators + again, queries=(*problem.queries, query))


def test_from_a_running_placement_what_is_together_is_shared() -> None:
    """Pinned fragments too: they are part of no chain."""
    problem = overlapping(np.random.default_rng(3), sites=4, queries=6)
    pinned = tuple(
        msgspec.structs.replace(each, site="s1") if each.name == "clean0" else each
        for each in problem.operators
    )
    problem = replace(problem, operators=pinned)
    current = Placement(problem, np.ones(len(problem.fragments), dtype=np.int64))
    context = replace(Context.of(problem), current=current)
    run = Ants(rounds=0, reuse=True).forage(problem, context)
    counted = run.colony.totals[:, 1] / problem.capacity_cores
    assert counted == pytest.approx(running(current).site_utilisation)
    assert sum(int(way.shared[: way.size[0]].sum()) for way in run.ways.values()) == 6


def test_queries_that_alone_do_not_fit_are_placed_when_they_share() -> None:
    problem = overlapping(np.random.default_rng(1), sites=3, queries=12, cost_us=14000)
    refused = [
        len(Ants(scouts=30, rounds=1, reuse=reuse).forage(problem, Context.of(problem)).refused)
        for reuse in (False, True)
    ]
    assert refused[1] < refused[0]


def test_where_memory_does_not_allow_all_to_run_the_plan_is_still_allowed() -> None:
    """Five fragments fit a site, shared or not."""
    problem = overlapping(np.random.default_rng(2), sites=4, queries=6)
    operators = tuple(msgspec.structs.replace(each, memory_mb=20.0) for each in problem.operators)
    sites = tuple(msgspec.structs.replace(each, memory_mb=100.0) for each in problem.sites)
    narrow, policy = replace(problem, operators=operators, sites=sites), Ants(scouts=40, rounds=1, reuse=True)
    crowded = policy.forage(narrow, Context.of(narrow)).sites
    assert np.bincount(crowded).max() > 5
    assert np.bincount(plan(narrow, policy).placement.site_of_fragment).max() <= 5


def test_a_finishing_descent_and_reuse_exclude_each_other() -> None:
    with pytest.raises(InputError, match="expected one of the two"):
        Ants(reuse=True, descent=2)
