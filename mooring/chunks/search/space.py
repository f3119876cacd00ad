"""The search space: one partitioning per operator, out of all that its array allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mooring.chunks.model import ChunkPlan, ChunkProblem
from mooring.chunks.partitioning import Partitioning

Candidate = tuple[int, ...]
"""Per operator, the number of a partitioning among its choices."""


@dataclass(frozen=True, eq=False)
class SearchSpace:
    names: tuple[str, ...]
    """Of the operators."""
    choices: tuple[tuple[Partitioning, ...], ...]
    """Per operator."""

    @classmethod
    def of(cls, problem: ChunkProblem, most_chunks: int) -> SearchSpace:
        return cls(
            tuple(each.name for each in problem.operators),
            tuple(each.partitionings(most_chunks) for each in problem.operators),
        )

    @property
    def size(self) -> int:
        return math.prod(map(len, self.choices))

    def random(self, rng: np.random.Generator) -> Candidate:
        return tuple(int(rng.integers(len(own))) for own in self.choices)

    def partitionings(self, candidate: Candidate) -> list[Partitioning]:
        return [own[at] for own, at in zip(self.choices, candidate, strict=True)]

    def chunks(self, candidate: Candidate) -> int:
        """Of one frame at all operators."""
        return sum(each.count for each in self.partitionings(candidate))

    def like(self, plan: ChunkPlan) -> Candidate:
        """The candidate with a plan's partitionings; where the space lacks one, with the nearest count."""
        return tuple(
            _nearest(own, plan.operators[name].partitioning if name in plan.operators else None)
            for name, own in zip(self.names, self.choices, strict=True)
        )

    def uniform(self, partitioning: Partitioning) -> Candidate:
        """The same partitioning for all, as far as operators can be cut so."""
        return tuple(_nearest(own, partitioning) for own in self.choices)


def _nearest(choices: Sequence[Partitioning], wanted: Partitioning | None) -> int:
    if wanted is None:
        return 0
    if wanted in choices:
        return choices.index(wanted)
    return min(range(len(choices)), key=lambda at: abs(choices[at].count - wanted.count))
