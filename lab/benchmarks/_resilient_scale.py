"""What `resilient` has to show at 10,000 operators on 100 sites, from nothing and from a running plan."""

from __future__ import annotations

from statistics import fmean

import numpy as np

from lab.benchmarks._resilient_cases import Row, at_least, claim, drawn, ratio, timed
from mooring.algorithms.catalogue import make_policy
from mooring.arrays import Ints
from mooring.contracts.policy import Context
from mooring.model.bounds.upper_bound import root_bound
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.directions import Directions
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.problem import Problem

OPERATORS, SITES = 10_000, 100
MOVES = 20
GRAPHS = 4
MOVED: tuple[tuple[int, int, int, float, float | None], ...] = (
    # operators, sites, streams, present rates over the generator's, the share to be recovered
    (OPERATORS, SITES, 10, 1.0, 0.5),
    (OPERATORS, SITES, 10, 0.4, None),
    (200, 10, 5, 1.0, 0.5),
)


def large() -> list[Row]:
    rows: list[Row] = []
    for streams in (10, 50):
        problem, model = drawn(0, operators=OPERATORS, sites=SITES, streams=streams)
        rod = ratio(model, make_policy("rod", {}).place(problem, Context.of(problem)).site_of_fragment)
        timed(make_policy("resilient", {}), problem, model, 0.1)
        for budget_s in (2.0, 5.0, 10.0):
            found = ratio(model, timed(make_policy("resilient", {}), problem, model, budget_s)[0])
            rows.append(
                claim(
                    f"{streams} streams, {budget_s:g} s, to rod",
                    found / rod,
                    "> 1",
                    found > rod,
                    rod=round(rod, 4),
                    resilient=round(found, 4),
                    bound=round(root_bound(model), 4),
                )
            )
    return rows


def max_moves() -> list[Row]:
    """The share of a new plan's gain that twenty moves bring, after one stream has doubled.

    The rates before are the generator's, half of the capacity; those after are what has to be carried at
    least. With rates far below capacity ROD's plan loses little, on many sites at once: the second case.
    """
    rows: list[Row] = []
    for operators, sites, streams, scale, wanted in MOVED:
        shares, made, limits = [], [], []
        for seed in range(GRAPHS):
            parameters = GraphParameters(operators=operators, sites=sites, streams=streams)
            problem = generate_problem(parameters, np.random.default_rng((77, seed)))
            running = make_policy("rod", {}).place(problem, Context.of(problem)).site_of_fragment
            changed = doubled(problem, seed % streams, scale)
            model = build_load_model(changed)
            before = ratio(model, running)
            gain = ratio(model, timed(make_policy("resilient", {}), changed, model, 8.0)[0]) - before
            current = Placement(changed, running)
            after, _ = timed(make_policy("resilient", {}), changed, model, 4.0, current, MOVES)
            shares.append((ratio(model, after) - before) / gain)
            limits.append((unloaded(model, running, MOVES) - before) / gain)
            made.append(int((after != running).sum()))
        what = f"{operators} operators, {sites} sites, rates at {scale / 2:.0%} of capacity, share recovered"
        details = {
            "least": round(min(shares), 3),
            "moves": round(fmean(made), 1),
            "if_20_sites_were_free": round(fmean(limits), 3),
        }
        if wanted is None:
            rows.append(claim(what, fmean(shares), "-", True, **details))
        else:
            rows.append(at_least(what, fmean(shares), wanted, **details))
    return rows


def doubled(problem: Problem, stream: int, scale: float) -> Problem:
    rates = scale * problem.rates * np.where(np.arange(len(problem.streams)) == stream, 2.0, 1.0)
    return problem.with_rates(rates).with_min_rates(rates)


def unloaded(model: LoadModel, sites: Ints, count: int) -> float:
    """The ratio if the sites that bind most often, one after the other, had no load: what so many moves could
    hardly exceed, since each takes load from one site only. Chosen greedily, so an estimate of a limit."""
    power = len(model.active)
    directions = Directions.draw(power, 2**12, 5).values
    reach = np.maximum(FeasibleSet.of(model, sites).weights_above_lower() @ directions, 1.0)
    for _ in range(count):
        second, first = np.sort(reach, axis=0)[-2:]
        gains = np.bincount(reach.argmax(axis=0), second**-power - first**-power, len(reach))
        reach[gains.argmax()] = 1.0
    return float(np.mean(reach.max(axis=0) ** -power))
