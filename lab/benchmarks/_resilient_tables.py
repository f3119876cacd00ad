"""Every policy's quality against its time, growth with the problem, and an exact solver beside the search."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from lab.benchmarks._resilient_cases import Row, drawn, ratio, timed
from mooring.algorithms.catalogue import make_policy
from mooring.arrays import Ints
from mooring.contracts.policy import Context
from mooring.model.bounds.upper_bound import upper_bound
from mooring.model.load.model import LoadModel


def quality_against_time() -> list[Row]:
    rows: list[Row] = []
    for operators in (50, 100, 200):
        cases = [drawn(seed, operators=operators) for seed in range(5)]
        runs: list[tuple[str, str, float | None]] = [
            (name, name, None) for name in ("random", "connected", "llf", "correlation", "rod")
        ]
        runs += [(f"resilient {budget:g} s", "resilient", budget) for budget in (0.1, 0.3, 1.0, 3.0)]
        results = {}
        for label, name, budget in runs:
            timed(make_policy(name, {}), *cases[0], budget and 0.1)
            results[label] = [timed(make_policy(name, {}), *case, budget) for case in cases]
        rod_s = float(np.mean([took for _, took in results["rod"]]))
        rods = [ratio(model, sites) for (_, model), (sites, _) in zip(cases, results["rod"], strict=True)]
        best = results["resilient 3 s"]
        bound = np.mean(
            [upper_bound(model, sites) for (_, model), (sites, _) in zip(cases, best, strict=True)]
        )
        for label, plans in results.items():
            own = [ratio(model, sites) for (_, model), (sites, _) in zip(cases, plans, strict=True)]
            rows.append(
                {
                    "operators": operators,
                    "policy": label,
                    "ratio_to_ideal": round(float(np.mean(own)), 4),
                    "ratio_to_rod": round(float(np.mean(np.array(own) / np.array(rods))), 3),
                    "bound": round(float(bound), 4),
                    "time_to_rod": round(float(np.mean([took for _, took in plans])) / rod_s, 1),
                }
            )
    return rows


def growth() -> list[Row]:
    """A fixed number of steps on ever larger problems, over the time of the smallest."""
    rows: list[Row] = []
    first_s = 0.0
    shapes = [(100, 10, 5), (1000, 10, 5), (10_000, 10, 5), (1000, 50, 5), (1000, 100, 5), (1000, 10, 20)]
    for operators, sites, streams in shapes:
        problem, model = drawn(0, operators=operators, sites=sites, streams=streams)
        rod = ratio(model, make_policy("rod", {}).place(problem, Context.of(problem)).site_of_fragment)
        context = replace(Context.of(problem), steps=300_000)
        make_policy("resilient", {}).place(problem, replace(context, steps=1000))
        begun = time.process_time()
        plan = make_policy("resilient", {}).place(problem, context)
        took = time.process_time() - begun
        first_s = first_s or took
        rows.append(
            {
                "operators": operators,
                "sites": sites,
                "streams": streams,
                "time_to_smallest": round(took / first_s, 2),
                "ratio_to_rod": round(ratio(model, plan.site_of_fragment) / rod, 3),
            }
        )
    return rows


def solve_surrogate(model: LoadModel, limit_s: float) -> tuple[Ints, bool]:
    """HiGHS: minimise sum_k max_i w_ik over all placements; whether it was proved is returned too."""
    active = model.active
    parts = model.coefficients[:, active].toarray() / model.totals[active]
    shares = model.capacity_cores / model.capacity_cores.sum()
    fragments, streams, sites = len(parts), len(active), len(shares)
    count = fragments * sites
    cost = np.concatenate([np.zeros(count), np.ones(streams)])
    placed = np.zeros((fragments, count + streams))
    for f in range(fragments):
        placed[f, f * sites : (f + 1) * sites] = 1.0
    held = np.zeros((streams * sites, count + streams))
    for k in range(streams):
        for i in range(sites):
            held[k * sites + i, np.arange(fragments) * sites + i] = parts[:, k] / shares[i]
            held[k * sites + i, count + k] = -1.0
    result = milp(
        cost,
        constraints=[LinearConstraint(placed, 1.0, 1.0), LinearConstraint(held, -np.inf, 0.0)],
        integrality=np.concatenate([np.ones(count), np.zeros(streams)]),
        bounds=Bounds(0.0, np.concatenate([np.ones(count), np.full(streams, np.inf)])),
        options={"time_limit": limit_s},
    )
    if result.x is None:
        return np.zeros(fragments, dtype=np.int64), False
    return np.argmax(result.x[:count].reshape(fragments, sites), axis=1), result.status == 0


def beside_a_solver() -> list[Row]:
    rows: list[Row] = []
    for operators, sites, streams in ((12, 2, 3), (20, 3, 4), (30, 5, 5)):
        for seed in range(3):
            problem, model = drawn(
                seed, operators=operators // streams * streams, sites=sites, streams=streams
            )
            timed(make_policy("resilient", {}), problem, model, 0.1)
            found, searched_s = timed(make_policy("resilient", {}), problem, model, 0.3)
            begun = time.process_time()
            solved, proved = solve_surrogate(model, 10.0)
            solver_s = time.process_time() - begun
            rows.append(
                {
                    "operators": model.fragment_count,
                    "sites": sites,
                    "streams": streams,
                    "seed": seed,
                    "resilient_to_solver": round(ratio(model, found) / max(ratio(model, solved), 1e-12), 3),
                    "solver_time_to_resilient": round(solver_s / searched_s, 2),
                    "surrogate_proved": proved,
                    "resilient": round(ratio(model, found), 4),
                    "bound": round(upper_bound(model, found), 4),
                }
            )
    return rows
