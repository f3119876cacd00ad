"""What a policy is: a frozen dataclass of parameters that turns a problem into a placement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from mooring.load.build import build_load_model
from mooring.load.model import LoadModel
from mooring.placement.deadline import NO_DEADLINE, Deadline
from mooring.placement.judging.explanation import Subject
from mooring.placement.placement import Placement
from mooring.problem.problem import Problem
from mooring.progress import Report, silent


@dataclass(frozen=True)
class Context:
    """What a policy may use beside the problem. It never looks at a clock or draws its own randomness."""

    load: LoadModel
    rng: np.random.Generator
    deadline: Deadline = NO_DEADLINE
    """Anytime policies ask between steps whether it has expired; annealing cools by the share spent."""
    steps: int | None = None
    """The most improvement steps an anytime policy takes, for results that do not depend on speed."""
    progress: Report = silent
    current: Placement | None = None
    """The placement that runs now, if any."""
    max_moves: int | None = None
    """The most fragments that may leave their present site."""

    @classmethod
    def of(cls, problem: Problem, seed: int = 0) -> Context:
        return cls(load=build_load_model(problem), rng=np.random.default_rng(seed))


@runtime_checkable
class Policy(Protocol):
    name: ClassVar[str]

    @property
    def about(self) -> Subject:
        """What its placements are explained by."""
        ...

    def unsupported(self, problem: Problem) -> str | None:
        """Why this policy cannot place this problem; None if it can."""
        ...

    def place(self, problem: Problem, context: Context) -> Placement: ...
