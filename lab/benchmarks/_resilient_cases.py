"""Random graphs, plans against a clock, and how large their feasible sets are: what the tables share."""

from __future__ import annotations

import time

import numpy as np

from lab.experiments.rod.figure14 import with_random_rates
from mooring.arrays import Ints
from mooring.cli.output.result_table import Value
from mooring.contracts.deadline import Deadline
from mooring.contracts.policy import Context, Policy
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.problem import Problem

Row = dict[str, Value]
JUDGE_SEED = 99
"""Directions that neither the search nor its own judge (seed 0) has seen."""


def drawn(seed: int, **parameters: object) -> tuple[Problem, LoadModel]:
    rng = np.random.default_rng(seed)
    base = generate_problem(GraphParameters(**parameters), rng)  # type: ignore[arg-type]
    totals = build_load_model(base).totals[: len(base.streams)]  # joins add variables after the streams
    problem = with_random_rates(base, totals, rng)
    return problem, build_load_model(problem)


def timed(
    policy: Policy,
    problem: Problem,
    model: LoadModel,
    budget_s: float | None,
    current: Placement | None = None,
    max_moves: int | None = None,
) -> tuple[Ints, float]:
    """The plan and its CPU seconds; budgets are in CPU time as well, since others may use the machine."""
    begun = time.process_time()
    context = Context(
        load=model,
        rng=np.random.default_rng(0),
        deadline=Deadline.in_seconds(budget_s, time.process_time),
        current=current,
        max_moves=max_moves,
    )
    sites = policy.place(problem, context).site_of_fragment
    return sites, time.process_time() - begun


def ratio(model: LoadModel, sites: Ints) -> float:
    return FeasibleSet.of(model, sites).ratio(2**14, JUDGE_SEED).value


def claim(what: str, measured: float, wanted: str, met: bool, **details: Value) -> Row:
    """One line that the policy is held to."""
    return {"claim": what, "measured": round(measured, 4), "wanted": wanted, "met": met, **details}


def at_least(what: str, measured: float, wanted: float, **details: Value) -> Row:
    return claim(what, measured, f">= {wanted:g}", measured >= wanted, **details)


def at_most(what: str, measured: float, wanted: float, **details: Value) -> Row:
    return claim(what, measured, f"<= {wanted:g}", measured <= wanted, **details)
