"""Chunk plans for the frames to come, from what chunks of the frames before took (sections 2.2 and 4).

A frame looks like the one before it, and so do its costs. A map holds the CPU time per cell of each block of
a frame, learned from chunks of any size. From it follows what any chunk would take, hence, for every
partitioning, how soon all nodes would be done if each chunk, the largest first, went where it is done
earliest. The best of them is the next route.

This is for plans made while frames flow, between two micro-batches: a dozen chunks of one operator, in a
millisecond or two of plain Python. Whole graphs of operators are planned by the search over simulations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from mooring.arrays import Floats
from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.chunks.data.routing_table import Route
from mooring.chunks.partitioning import Partitioning, Shape, regular_partitionings

BLOCKS_PER_AXIS = 32
"""How fine a map is at most: finer than any partitioning that is worth its chunks."""
EVENED = 0.3
"""A chunk tells what its blocks cost together. Of that, this share is spread evenly over them, the rest as
they were thought to differ: coarse chunks do not wipe out what finer ones told, and no block is free for
ever."""


@dataclass(frozen=True, eq=False)
class CostMap:
    """CPU milliseconds per cell, block by block, of one operator's output frames."""

    shape: Shape
    """Of a frame."""
    ms_per_cell: Floats

    @classmethod
    def unknown(cls, shape: Shape) -> CostMap:
        """The same everywhere, until something is learned."""
        return cls(shape, np.full(tuple(min(cells, BLOCKS_PER_AXIS) for cells in shape), np.nan))

    def learn(self, times: Iterable[ChunkTime]) -> CostMap:
        """With what chunks of one frame took."""
        learned = self.ms_per_cell.copy()
        for took in times:
            cells = np.prod(np.subtract(took.stop, took.start))
            where = tuple(
                slice(start * blocks // n, -(-stop * blocks // n))
                for start, stop, n, blocks in zip(
                    took.start, took.stop, self.shape, learned.shape, strict=True
                )
            )
            learned[where] = _evened(learned[where], took.cpu_ms / float(cells))
        return CostMap(self.shape, learned)

    @property
    def is_known(self) -> bool:
        return not np.all(np.isnan(self.ms_per_cell))

    def chunk_ms(self, partitioning: Partitioning) -> Floats:
        """CPU time of every chunk, as far as known; blocks of which nothing is known cost the mean."""
        known = self.ms_per_cell
        filled = np.where(np.isnan(known), np.nanmean(known) if self.is_known else 1.0, known)
        return ComplexityMap(filled).chunk_cycles(self.shape, partitioning, frame=0)


def _evened(before: Floats, seen: float) -> Floats:
    """Blocks that cost `seen` per cell on average, given what they were thought to cost."""
    mean = float(before.mean())
    if not mean > 0.0:  # nothing is known of some of them
        return np.full(before.shape, seen)
    return EVENED * seen + (1.0 - EVENED) * (seen / mean) * before


@dataclass(frozen=True)
class LearnedRoutes:
    """Chooses a partitioning and a node for every chunk."""

    speeds: tuple[float, ...]
    """CPU seconds per second that each node gives: 1 for a core of its own, the quota of a slower site."""
    most_chunks: int = 32
    chunk_ms: float = 2.0
    """What a chunk costs beside its function: cut, sent, computed and gathered on its own. Keeps chunks from
    becoming finer than they are worth."""
    job_ms: float = 0.0
    """CPU that a node spends once on every frame of which it has a chunk: a slow node that pays more for this
    than it takes off the others gets none."""

    slack: float = 0.1
    """Of the plans that promise to end within this of the best, the one with most chunks is taken: it depends
    least on where exactly the work will be, and tells most of it."""

    def best(self, costs: CostMap, free_ms: Sequence[float] | None = None) -> Route:
        """For the next frame; `free_ms` says when each node will be through with what it has, from now."""
        free = list(free_ms or [0.0] * len(self.speeds))
        routes = [self.route(costs, each, free) for each in _partitionings(costs.shape, self.most_chunks)]
        first_free_ms = min(free)
        least_ms = min(ends_ms for _, ends_ms in routes) - first_free_ms
        good = [made for made in routes if made[1] - first_free_ms <= (1 + self.slack) * least_ms]
        return max(good, key=lambda made: (len(made[0].nodes), -made[1]))[0]

    def busy_ms(self, costs: CostMap, route: Route) -> list[float]:
        """How long each chunk of a route will keep its node busy."""
        work = costs.chunk_ms(Partitioning(route.parts)) + self.chunk_ms
        return [float(ms) / self.speeds[node] for ms, node in zip(work, route.nodes, strict=True)]

    def route(
        self, costs: CostMap, partitioning: Partitioning, free_ms: Sequence[float]
    ) -> tuple[Route, float]:
        """Earliest finish for one partitioning, and when its last chunk would be done."""
        nodes, ends_ms = earliest_finish(
            costs.chunk_ms(partitioning) + self.chunk_ms, self.speeds, list(free_ms), self.job_ms
        )
        return Route(partitioning.parts, nodes), ends_ms


def earliest_finish(
    work_ms: Floats, speeds: Sequence[float], free_ms: list[float], job_ms: float = 0.0
) -> tuple[tuple[int, ...], float]:
    """The node of every chunk, the largest placed first, each where it ends earliest; and the last end. A
    node spends `job_ms` before its first chunk.

    >>> earliest_finish(np.array([4.0, 3.0, 3.0, 2.0]), [1.0, 1.0], [0.0, 0.0])
    ((0, 1, 1, 0), 6.0)
    >>> earliest_finish(np.array([4.0, 4.0, 4.0]), [1.0, 0.5], [0.0, 0.0])
    ((0, 0, 1), 8.0)
    """
    nodes = [0] * len(work_ms)
    first_ms = [job_ms] * len(speeds)
    last_ms = 0.0
    for chunk in np.argsort(-work_ms, kind="stable"):
        ends = [
            free + (first + work_ms[chunk]) / speed
            for free, first, speed in zip(free_ms, first_ms, speeds, strict=True)
        ]
        node = min(range(len(ends)), key=ends.__getitem__)
        nodes[chunk], free_ms[node], first_ms[node] = node, float(ends[node]), 0.0
        last_ms = max(last_ms, free_ms[node])
    return tuple(nodes), last_ms


def equal_chunks(shape: Shape, nodes: int) -> Route:
    """One chunk per node, all alike: where nothing is known of costs, and what others are compared with."""
    fitting = [each for each in _partitionings(shape, nodes) if each.count == nodes]
    parts = max(fitting, key=lambda each: each.parts).parts if fitting else (1,) * len(shape)
    return Route(parts, tuple(range(nodes)) if fitting else (0,))


@cache
def _partitionings(shape: Shape, most_chunks: int) -> tuple[Partitioning, ...]:
    return regular_partitionings(shape, most_chunks)
