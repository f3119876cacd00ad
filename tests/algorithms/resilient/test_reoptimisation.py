"""Re-optimising a running placement: few moves, the right ones, and none that is not worth it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from mooring.algorithms.resilient.policy import Resilient
from mooring.algorithms.rod.policy import Rod
from mooring.contracts.policy import Context
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.placement.placement import Placement
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.problem import Problem


def running(seed: int, operators: int = 60) -> tuple[Problem, Placement]:
    problem = generate_problem(GraphParameters(operators=operators), np.random.default_rng(seed))
    return problem, Rod().place(problem, Context.of(problem))


def improved(
    problem: Problem, current: Placement, max_moves: int | None = None, **policy: float
) -> Placement:
    context = replace(Context.of(problem), steps=100_000, current=current, max_moves=max_moves)
    return Resilient(**policy).place(problem, context)  # type: ignore[arg-type]


def moved(before: Placement, after: Placement) -> np.ndarray:
    return np.flatnonzero(before.site_of_fragment != after.site_of_fragment)


def ratio(problem: Problem, placement: Placement) -> float:
    return FeasibleSet.of(build_load_model(problem), placement.site_of_fragment).ratio().value


def test_no_more_moves_than_allowed_and_each_makes_the_set_larger() -> None:
    problem, current = running(1)
    before = ratio(problem, current)
    values = [before]
    for allowed in (2, 6, 20):
        after = improved(problem, current, allowed)
        assert len(moved(current, after)) <= allowed
        values.append(ratio(problem, after))
    assert values == sorted(values)
    assert values[1] > before


def test_twenty_moves_recover_half_of_what_a_new_plan_gains_after_a_stream_doubles() -> None:
    recovered, gained = [], []
    for seed in range(4):
        problem, current = running(seed, operators=100)
        rates = problem.rates * np.where(np.arange(5) == seed, 0.8, 0.4)
        changed = problem.with_rates(rates).with_min_rates(rates)
        context = replace(Context.of(changed), steps=100_000)
        full = ratio(changed, Resilient().place(changed, context))
        before = ratio(changed, current)
        gained.append(full - before)
        recovered.append(ratio(changed, improved(changed, current, 20)) - before)
    assert np.sum(recovered) >= 0.5 * np.sum(gained)


def test_a_dearer_move_is_made_less_often() -> None:
    problem, current = running(2)
    cheap = moved(current, improved(problem, current, move_worth=0.0005))
    dear = moved(current, improved(problem, current, move_worth=0.05))
    assert len(dear) < len(cheap)


def test_heavy_state_stays_and_light_operators_move() -> None:
    problem, current = running(3)
    wanted = moved(current, improved(problem, current, 10))
    heavy = tuple(
        msgspec.structs.replace(operator, state_bytes=1e12) if j in wanted[::2] else operator
        for j, operator in enumerate(problem.operators)
    )
    weighed = replace(problem, operators=heavy)
    after = moved(current, improved(weighed, Placement(weighed, current.site_of_fragment), 10))
    assert not set(wanted[::2]) & set(after)
    assert len(after) > 0


def test_a_plan_that_is_good_already_is_left_alone() -> None:
    problem, _ = running(4)
    best = Resilient().place(problem, replace(Context.of(problem), steps=100_000))
    assert len(moved(best, improved(problem, best, move_worth=0.02))) == 0


def test_a_move_of_one_among_many_fragments_is_charged_less() -> None:
    problem = generate_problem(GraphParameters(operators=1000, sites=40), np.random.default_rng(5))
    current = Rod().place(problem, Context.of(problem))
    changed = problem.with_min_rates(problem.rates)
    by_share = moved(current, improved(changed, current, 20))
    at_a_thousandth = moved(current, improved(changed, current, 20, move_worth=0.001))
    assert len(at_a_thousandth) < len(by_share) <= 20
