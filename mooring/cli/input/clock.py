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


def deadline_in(budget_s: float | None) -> Deadline:
    """A time budget that begins now; None: no deadline."""
    return Deadline.in_seconds(budget_s, time.monotonic)
