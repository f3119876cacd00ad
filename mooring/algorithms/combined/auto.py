"""Policy `auto`: looks at the problem and its goals, runs what fits them, and returns the best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from mooring.algorithms.resilient.policy import Resilient
from mooring.contracts.policy import Context
from mooring.model.evaluation.explanation import Subject
from mooring.model.evaluation.value import Preferences
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem

if TYPE_CHECKING:
    from mooring.algorithms.combined.policy import Combined


@dataclass(frozen=True)
class Auto:
    """Policy `auto`."""

    name: ClassVar[str] = "auto"
    about: ClassVar[Subject] = "resilience"

    default_steps: int = 200_000
    """Steps where neither a budget nor steps are given."""
    reserve: float = 0.03
    """The share of every site that is left free at the present rates, where that is possible."""

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def place(self, problem: Problem, context: Context) -> Placement:
        if context.steps is None and not context.deadline.exists:
            context = replace(context, steps=self.default_steps)
        preferred = Preferences(problem, context.load).weights
        if set(preferred) <= {"feasible_ratio"}:  # one objective, and the whole budget for it
            made = Resilient(reserve=self.reserve).place(problem, context)
            why = (
                "auto ran resilient alone: nothing but the feasible set counts here.",
                "State goals to weigh latency, traffic or prices too.",
            )
            return replace(made, notes=why)
        # Loads what a plan for the feasible set alone does not need.
        module = import_module("mooring.algorithms.combined.policy")
        combined: Combined = module.Combined(reserve=self.reserve)
        sites, tried, value = combined.search(problem, context)
        ranked = sorted(tried.items(), key=lambda each: each[1])
        values = ", ".join(f"{name} {value:.3f}" for name, value in ranked)
        best = ranked[0][0]
        won = f"combined won with {value:.3f}" if value < ranked[0][1] - 1e-9 else f"that of {best} won"
        why = (
            f"auto tried {values}: the weighted cost of {' and '.join(preferred)}, less is better.",
            f"Of all that keep the rules best, {won}.",
        )
        return Placement(problem, sites, notes=why)
