"""Policy `ants`: near the best on a chain, near descent on many, and within every rule."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.algorithms.ants.cell_kernels import wait_s
from mooring.algorithms.ants.policy import Ants
from mooring.contracts.policy import Context
from mooring.errors import InfeasibleError, InputError
from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from tests.algorithms.ants.latency_problems import chains, diamond


def mean_ms(problem: Problem, placement: Placement) -> float:
    return 1e3 * float(queued_latencies(problem, placement.site_of_operator.tolist()).query_s.mean())


def test_one_chain_of_three_is_within_a_hundredth_of_the_best() -> None:
    over = []
    for seed in range(8):
        problem = chains(np.random.default_rng(seed), sites=40, queries=1, tasks=(1, 3))
        best = mean_ms(problem, plan(problem, "optimal", settings={"objective": "latency"}).placement)
        over.append(mean_ms(problem, plan(problem, "ants", seed=seed).placement) / best)
    assert min(over) >= 1.0 - 1e-9
    assert np.mean(over) <= 1.01


def test_many_queries_are_near_descent_and_nearer_with_a_finishing_one() -> None:
    """Random placements are at least three times as slow, or overloaded."""
    problem = chains(np.random.default_rng(0), sites=60, queries=20, tasks=(2, 5))
    reference = mean_ms(problem, plan(problem, "descent").placement)
    assert mean_ms(problem, plan(problem, "ants").placement) <= 1.25 * reference
    finished = plan(problem, "ants", settings={"descent": "5"}).placement
    assert mean_ms(problem, finished) <= 1.05 * reference
    assert mean_ms(problem, plan(problem, "random").placement) >= 3.0 * reference


def test_joins_and_fan_out_are_placed_too() -> None:
    problem = Problem.from_dict(diamond())
    best = mean_ms(problem, plan(problem, "optimal", settings={"objective": "latency"}).placement)
    assert mean_ms(problem, plan(problem, "ants").placement) <= 1.1 * best


def test_the_seed_decides() -> None:
    problem = chains(np.random.default_rng(3), sites=20, queries=6, tasks=(2, 4))
    found = [plan(problem, Ants(scouts=3, rounds=0), seed=seed).placement for seed in (0, 0, 1)]
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_from_a_running_placement_few_move_and_it_gets_better() -> None:
    problem = chains(np.random.default_rng(2), sites=15, queries=5, tasks=(2, 4))
    current = plan(problem, "random", seed=3).placement
    for most in (0, 3, 8):
        found = plan(problem, "ants", current=current, max_moves=most).placement
        moved = int((found.site_of_fragment != current.site_of_fragment).sum())
        assert moved <= most
        assert mean_ms(problem, found) <= mean_ms(problem, current) * (1.0 + 1e-9)
    free = plan(problem, "ants", current=current).placement
    assert mean_ms(problem, free) < mean_ms(problem, current)


@pytest.mark.parametrize("reuse", [False, True])
def test_what_runs_may_come_back_to_a_site(reuse: bool) -> None:
    problem = chains(np.random.default_rng(2), sites=4, queries=3, tasks=(3, 4))
    current = Placement(problem, np.arange(len(problem.fragments)) % 2)
    found = plan(problem, Ants(reuse=reuse), current=current).placement
    assert mean_ms(problem, found) <= mean_ms(problem, current) * (1.0 + 1e-9)


def test_a_larger_beta_moves_less() -> None:
    problem = chains(np.random.default_rng(6), sites=20, queries=8, tasks=(2, 4))
    current = plan(problem, "relaxation").placement
    moved = [
        int(
            (
                plan(problem, Ants(beta=beta), current=current).placement.site_of_fragment
                != current.site_of_fragment
            ).sum()
        )
        for beta in (1.0, 1.5, 4.0)
    ]
    assert moved[0] >= moved[1] >= moved[2]
    assert moved[0] > moved[2]


def test_no_site_is_slower_than_the_delay_threshold() -> None:
    """What a message takes at a site, wait and work, for those there before and for new ones together."""
    problem = chains(np.random.default_rng(2), sites=15, queries=8, tasks=(2, 4))

    def slowest_s(**settings: float) -> float:
        run = Ants(rounds=0, **settings).forage(problem, Context.of(problem))  # type: ignore[arg-type]
        assert not run.refused
        rate, load = run.colony.totals[:, 0], run.colony.totals[:, 1]
        waits = np.array([wait_s(run.colony, s) for s in range(len(rate))])
        work = np.divide(load, rate, out=np.zeros_like(load), where=rate > 0.0)
        return float((waits + work / run.colony.capacity_cores)[rate > 0.0].max())

    assert slowest_s() > 0.006
    assert slowest_s(delay_limit_ms=6.0) < 0.006


def test_what_is_refused_is_known_and_placed_all_the_same() -> None:
    problem = chains(np.random.default_rng(4), sites=7, queries=7, tasks=(2, 4), cost_us=(3000, 16000))
    policy = Ants(load_limit=0.4)
    assert policy.forage(problem, Context.of(problem)).refused
    assert (plan(problem, policy).placement.site_of_fragment >= 0).all()


def test_where_memory_leaves_no_room_it_says_so() -> None:
    data = diamond()
    for operator in data["operators"].values():
        operator["memory_mb"] = 90
    for site in data["sites"].values():
        site["memory_mb"] = 100
    with pytest.raises(InfeasibleError, match="no scout found room"):
        plan(Problem.from_dict(data), "ants")


@pytest.mark.parametrize(
    ("field", "value"),
    [("routing_ants", 0), ("beta", 0.5), ("strength", 1.5), ("load_limit", 1.2), ("delay_limit_ms", -1.0)],
)
def test_settings_that_make_no_sense_are_refused(field: str, value: float) -> None:
    with pytest.raises(InputError):
        Ants(**{field: value})  # type: ignore[arg-type]
