"""Operators as bodies and data flows as springs (section 3.1.2): where in the cost space should each operator
be?

A spring pulls with its length times its data rate, so the system at rest minimises the sum of rate x
latency^2, with one solution where rate x latency alone may have many. Sites are nailed down; operators float.
Many queries are one system, and operators that they share tie their springs together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.algorithms.relaxation.relax_kernels import relax
from mooring.algorithms.relaxation.spring_params import SpringParams
from mooring.arrays import Bools, Floats, Ints
from mooring.model.network.embedding import Embedding
from mooring.model.placement.links import problem_links
from mooring.model.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Springs:
    """The springs of operator i are `start[i]:start[i + 1]`; every spring between operators appears at
    both."""

    start: Ints
    other: Ints
    """The other end: an operator, or site `~other` where negative."""
    rate: Floats
    """Bytes per second (or any unit, as long as it is one)."""
    outgoing: Bools
    """Whether data flows from the operator to the other end."""

    @classmethod
    def of(cls, operators: int, sources: Ints, targets: Ints, rate: Floats) -> Springs:
        """From links between operators (0 and up) and sites (~site). Links between two sites pull nobody."""
        own = np.concatenate([sources, targets])
        other = np.concatenate([targets, sources])
        outgoing = np.arange(len(own)) < len(sources)
        kept = np.flatnonzero((own >= 0) & (own != other))
        order = kept[np.argsort(own[kept], kind="stable")]
        start = np.zeros(operators + 1, dtype=np.int64)
        np.cumsum(np.bincount(own[order], minlength=operators), out=start[1:])
        return cls(start, other[order], np.concatenate([rate, rate])[order], outgoing[order])

    def __len__(self) -> int:
        return len(self.start) - 1

    def of_operator(self, operator: int) -> slice:
        return slice(int(self.start[operator]), int(self.start[operator + 1]))


def virtual_positions(
    springs: Springs,
    embedding: Embedding,
    rng: np.random.Generator,
    params: SpringParams,
    start_ms: Floats | None = None,
) -> Floats:
    """Operators x dimensions: where the springs come to rest; from near the origin, or from where operators
    are."""
    dimensions = embedding.position_ms.shape[1]
    position = rng.random((len(springs), dimensions)) - 0.5 if start_ms is None else start_ms.copy()
    sums = np.zeros(len(springs))
    owner = np.repeat(np.arange(len(springs)), np.diff(springs.start))
    np.add.at(sums, owner, springs.rate)
    pull = springs.rate / np.maximum(sums, 1e-300)[owner]
    heights = embedding.height_ms
    relax(
        position,
        springs.start,
        springs.other,
        pull,
        embedding.position_ms,
        heights,
        params.damping,
        params.threshold_ms,
        params.most_sweeps,
    )
    return position


def problem_springs(problem: Problem, pinned_site: Ints) -> Springs:
    links = problem_links(problem, pinned_site)
    ends = np.array([(link.source, link.target) for link in links], dtype=np.int64).reshape(-1, 2)
    rates = np.array([link.rate for link in links])
    return Springs.of(len(problem.fragments), ends[:, 0], ends[:, 1], rates)
