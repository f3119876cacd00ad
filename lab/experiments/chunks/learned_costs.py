"""What chunks will cost, learned from what chunks of the frames before took (section 2.2).

A site says how long a chunk took; with the speed of its cores and the share that its external load left, that
is a number of cycles, whichever site it was. A map per operator keeps the cycles per cell, so that chunks of
any partitioning can be estimated from chunks of any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mooring.arrays import Floats
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.chunks.data.learned_routes import CostMap
from mooring.chunks.model import ChunkProblem, ChunkSite
from mooring.chunks.partitioning import Partitioning


def cycles_spent(site: ChunkSite, wall_s: float, at_s: float) -> float:
    """On a chunk that kept one core busy for so long, by the wall clock, from a moment on.

    >>> cycles_spent(ChunkSite("a", 2e9), 0.5, at_s=0.0)
    1000000000.0
    """
    return wall_s * site.cycles_per_s * site.share_left(at_s)


@dataclass
class LearnedCosts:
    """Of all operators of a problem, by their number."""

    problem: ChunkProblem
    _maps: dict[int, CostMap] = field(default_factory=dict)

    def observe(self, operator: int, partitioning: Partitioning, cycles: Sequence[float]) -> None:
        """What the chunks of one frame took."""
        shape = self.problem.operators[operator].shape
        before = self._maps.get(operator, CostMap.unknown(shape))
        times = [
            ChunkTime("", 0, k, 0, box.start, box.stop, took, 0.0, 0.0, 0.0)
            for k, (box, took) in enumerate(zip(partitioning.bounds(shape), cycles, strict=True))
        ]
        self._maps[operator] = before.learn(times)

    def estimates(self, operator: int, partitioning: Partitioning) -> Floats:
        """Cycles of every chunk. Of an operator that nothing is known of, all cells cost the same."""
        shape = self.problem.operators[operator].shape
        return self._maps.get(operator, CostMap.unknown(shape)).chunk_ms(partitioning)


def estimates_by_frame(
    problem: ChunkProblem,
    partitionings: Sequence[Partitioning],
    cycles: Floats,
    lag: int,
    noise: float,
    rng: np.random.Generator,
) -> Floats:
    """What is believed of every frame's chunks when all up to `lag` frames before it are known, and of the
    first ones, that they are like frame 0: the sites were not idle before it.

    `cycles` (frames, chunks) is what they really take; measurements are off by a relative error of `noise`
    (standard deviation).
    """
    learned = LearnedCosts(problem)
    edges = np.concatenate(([0], np.cumsum([each.count for each in partitionings])))
    own = [slice(edges[k], edges[k + 1]) for k in range(len(partitionings))]
    believed = np.empty_like(cycles)
    for frame in range(len(cycles)):
        measured = cycles[max(0, frame - lag)] * np.exp(noise * rng.standard_normal(cycles.shape[1]))
        for k, each in enumerate(partitionings):
            learned.observe(k, each, measured[own[k]].tolist())
            believed[frame, own[k]] = learned.estimates(k, each)
    return believed
