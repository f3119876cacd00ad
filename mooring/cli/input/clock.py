"""The wall clock: how long planning took, and when its budget is used up. No room above looks at one."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import ClassVar

from mooring.contracts.deadline import Deadline
from mooring.contracts.policy import Context, Policy
from mooring.model.evaluation.explanation import Subject
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem

_TINY = {
    "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
    "streams": {"x": {"rate": 1}},
    "operators": {name: {"inputs": ["x"], "cost_us": 1} for name in ("f", "g")},
}


class Timed:
    """A policy that knows how long it took to place: `plan_seconds`, judging and explaining left out."""

    name: ClassVar[str] = "timed"

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.name = policy.name  # type: ignore[misc]  # that of the policy within
        self.seconds = 0.0
        # Compiled code is loaded on first use, which is none of this problem's business.
        tiny = Problem.from_dict(_TINY)
        with contextlib.suppress(Exception):  # a policy of the user's own may be made for other problems
            if policy.unsupported(tiny) is None:
                policy.place(tiny, replace(Context.of(tiny), steps=1))

    @property
    def admits(self) -> bool:
        return getattr(self.policy, "admits", False)

    @property
    def about(self) -> Subject:
        return self.policy.about

    def unsupported(self, problem: Problem) -> str | None:
        return self.policy.unsupported(problem)

    def place(self, problem: Problem, context: Context) -> Placement:
        start = time.perf_counter()
        try:
            return self.policy.place(problem, context)
        finally:
            self.seconds = time.perf_counter() - start


JUDGING: dict[Subject, float] = {"resilience": 6.0, "network": 20.0, "latency": 20.0}
"""Judging, explaining and printing a large plan, in times of what reading its problem took
(`python -m lab.benchmarks growth`)."""
OVER_S = 0.3
"""By which a command may exceed its budget before placing gets less time."""
LEAST_SHARE = 0.25
"""Of a budget that is for placing, however long the rest takes."""


def placing_deadline(budget_s: float | None, spent_s: float, read_s: float, about: Subject) -> Deadline:
    """For placing, which begins now, so that the whole command keeps its budget. `spent_s`: since it began,
    reading included.

    >>> [round(placing_deadline(10.0, s, s, "resilience").budget_s, 6) for s in (0.01, 0.9)]
    [10.0, 4.0]
    """
    if budget_s is None:
        return deadline_in(None)
    rest_s = max(0.0, spent_s + JUDGING[about] * read_s - OVER_S)
    return deadline_in(max(budget_s - rest_s, LEAST_SHARE * budget_s))


def deadline_in(budget_s: float | None, spent_s: float = 0.0) -> Deadline:
    """What is left of a time budget from now on; None: no deadline."""
    return Deadline.in_seconds(None if budget_s is None else max(budget_s - spent_s, 0.0), time.monotonic)
