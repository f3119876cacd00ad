"""What the search may move, and when it ends."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np

from mooring.algorithms.resilient.annealing import movable
from mooring.algorithms.resilient.policy import Resilient
from mooring.contracts.deadline import Deadline
from mooring.contracts.policy import Context
from mooring.model.load.build import build_load_model
from mooring.model.problem.generate import GraphParameters, generate_problem


def test_fragments_beside_each_other_load_the_same_variable_about_as_much_and_pinned_ones_are_left_out() -> (
    None
):
    problem = generate_problem(GraphParameters(operators=50), np.random.default_rng(0))
    model = build_load_model(problem)
    pinned = np.where(np.arange(50) % 7 == 0, 0, -1)
    order = movable(replace(model, pinned_site=pinned))
    assert sorted(order) == [f for f in range(50) if f % 7]
    parts = (model.coefficients.toarray() / model.totals)[order]
    variable, load = parts.argmax(axis=1), parts.sum(axis=1)
    assert (np.diff(variable) >= 0).all()
    assert (np.diff(load)[np.diff(variable) == 0] >= 0.0).all()


def test_coolings_that_agree_end_the_search_before_its_time() -> None:
    problem = generate_problem(GraphParameters(operators=8, streams=2, sites=2), np.random.default_rng(1))
    ticks = count()
    deadline = Deadline.in_seconds(500.0, lambda: float(next(ticks)))  # a second passes with every look
    Resilient().place(problem, replace(Context.of(problem), deadline=deadline))
    assert deadline.share_spent < 0.8
