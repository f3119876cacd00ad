"""Balance the load that the highest rates would make (ROD paper, section 7.3.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mooring.algorithms.baselines.llf import least_loaded_assign
from mooring.arrays import Floats
from mooring.contracts.policy import Context
from mooring.model.evaluation.explanation import Subject
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


def highest_rates(problem: Problem) -> Floats:
    """Per stream: its stated maximum, else the peak of its history, else its present rate."""
    peaks = problem.rates if problem.history is None else problem.history.peaks
    stated = [stream.max_rate for stream in problem.streams]
    return np.array(
        [peak if limit is None else limit for limit, peak in zip(stated, peaks, strict=True)],
        dtype=np.float64,
    )


@dataclass(frozen=True)
class MaxRate:
    """Policy `max_rate`: as `llf`, with every stream at its highest rate."""

    name: ClassVar[str] = "max_rate"
    as_published: ClassVar[bool] = True
    about: ClassVar[Subject] = "resilience"

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def place(self, problem: Problem, context: Context) -> Placement:
        values = context.load.variable_values(highest_rates(problem))
        return Placement(problem, least_loaded_assign(context.load, values, problem))
