"""A search takes the steps or the time it was given, and its default steps where it was given neither."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.algorithms.resilient.budget import Budget
from mooring.contracts.deadline import Deadline
from mooring.contracts.policy import Context
from mooring.model.problem.problem import Problem

SOME = Context.of(
    Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}},
            "streams": {"x": {"rate": 1}},
            "operators": {"f": {"inputs": ["x"], "cost_us": 1}},
        }
    )
)


class Hands:
    """A clock that somebody sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    ("steps", "budget_s", "taken"),
    [(None, None, 500), (70, None, 70), (70, 10.0, 70), (None, 10.0, None)],
)
def test_default_steps_count_only_where_neither_steps_nor_time_are_given(
    steps: int | None, budget_s: float | None, taken: int | None
) -> None:
    context = replace(SOME, steps=steps, deadline=Deadline.in_seconds(budget_s, Hands()))
    assert Budget.of(context, default_steps=500).steps == taken


def test_steps_or_time_end_a_stretch_whichever_is_used_up_first() -> None:
    clock = Hands()
    context = replace(SOME, steps=100, deadline=Deadline.in_seconds(10.0, clock))
    used = Budget.of(context, default_steps=500).part(0.0, 0.5)  # fifty steps, five seconds
    assert used(20) == pytest.approx(0.4)
    clock.now_s = 4.0
    assert used(20) == pytest.approx(0.8)
    assert used(45) == pytest.approx(0.9)
    clock.now_s = 10.0
    assert used(0) == 1.0


def test_a_stretch_that_begins_late_cools_through_in_the_time_that_is_left() -> None:
    clock = Hands()
    budget = Budget.of(replace(SOME, deadline=Deadline.in_seconds(10.0, clock)), default_steps=500)
    clock.now_s = 8.0
    used = budget.part(0.5, 1.0)
    assert used(0) == 0.0
    clock.now_s = 9.0
    assert used(0) == pytest.approx(0.5)
