"""A chunk problem as the arrays that compiled loops run over.

Chunks of all operators are numbered through: those of operator o from `first[o]` to `first[o + 1]`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.chunks.model import ArrayOperator, ChunkProblem, MappingClass
from mooring.chunks.partitioning import Partitioning, Shape


class GraphArrays(NamedTuple):
    inputs: Ints
    """Per operator, how many frames it waits for; negative numbers are not used."""
    stream_inputs: Ints
    """Per operator, how many of them are of streams."""
    reader_first: Ints
    readers: Ints
    rank: Ints
    """Per operator: of one frame's chunks at a site, those of the lower rank are taken first."""
    turn: Ints
    """Operators by rank: the order in which they are served at the same moment."""


class SiteArrays(NamedTuple):
    cycles_per_s: Floats
    """Of one core."""
    core_first: Ints
    """Cores of all sites are numbered through."""
    step_first: Ints
    step_s: Floats
    """When the share that is left changes; a site's first is at 0."""
    step_left: Floats


class WorkArrays(NamedTuple):
    first: Ints
    operator: Ints
    """Per chunk."""
    cycles: Floats
    """Per frame and chunk; frames beyond the last begin anew."""
    scatter_s: Floats
    """Per chunk, how long it keeps its scatter point's port busy."""
    gather_s: Floats


def graph_arrays(problem: ChunkProblem, rank: Ints) -> GraphArrays:
    streams = {stream.name for stream in problem.streams}
    counts = [len(readers) for readers in problem.readers]
    return GraphArrays(
        np.array([len(each.inputs) for each in problem.operators], dtype=np.int64),
        np.array([sum(n in streams for n in each.inputs) for each in problem.operators], dtype=np.int64),
        _offsets(counts),
        np.array([k for readers in problem.readers for k in readers], dtype=np.int64),
        rank,
        np.argsort(rank, kind="stable"),
    )


def outputs_first(problem: ChunkProblem) -> Ints:
    """The paper's rank: chunks of operators closest to the outputs are taken first (section 3.1)."""
    return np.array(problem.tiers, dtype=np.int64)


def longest_path_first(problem: ChunkProblem) -> Ints:
    """The operator with most work from it to the outputs, along one path, is first: what waits for it waits
    longest (the upward rank of Topcuoglu and others 2002).
    """
    ahead = np.zeros(len(problem.operators))
    for k in reversed(problem.order):
        own = problem.operators[k]
        after = max((ahead[reader] for reader in problem.readers[k]), default=0.0)
        ahead[k] = own.complexity.frame_cycles(own.shape) + after
    return np.argsort(np.argsort(-ahead, kind="stable"), kind="stable")


def site_arrays(problem: ChunkProblem) -> SiteArrays:
    steps = []
    for site in problem.sites:
        changes = sorted({0.0, *(step.at_s for step in site.external_load if step.at_s > 0)})
        steps.append([(at_s, site.share_left(at_s)) for at_s in changes])
    every = [step for own in steps for step in own]
    return SiteArrays(
        np.array([site.cycles_per_s for site in problem.sites]),
        _offsets([site.cores for site in problem.sites]),
        _offsets([len(own) for own in steps]),
        np.array([at_s for at_s, _ in every]),
        np.array([left for _, left in every]),
    )


@dataclass(frozen=True, eq=False)
class WorkTables:
    """The work of a problem under any partitionings, each operator's part computed once."""

    problem: ChunkProblem
    frames: int
    """Complexity is computed for so many frames where it moves."""
    _parts: dict[tuple[int, Partitioning], tuple[Floats, Floats, Floats]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.frames if any(each.complexity.moves for each in self.problem.operators) else 1

    def of_operator(self, operator: int, partitioning: Partitioning) -> tuple[Floats, Floats, Floats]:
        """Cycles (rows, chunks), and the seconds on the ports of scatter and gather point, per chunk."""
        key = (operator, partitioning)
        if key not in self._parts:
            self._parts[key] = self.computed(operator, partitioning)
        return self._parts[key]

    def computed(self, operator: int, partitioning: Partitioning) -> tuple[Floats, Floats, Floats]:
        """The same, not kept."""
        problem, own = self.problem, self.problem.operators[operator]
        rows = self.rows if own.complexity.moves else 1
        cycles = own.complexity.chunk_cycles_by_frame(own.shape, partitioning, np.arange(rows))
        cycles = np.broadcast_to(cycles + own.cycles_per_chunk, (self.rows, partitioning.count))
        cuts = partitioning.cuts(own.shape)
        starts, stops = [each[:-1] for each in cuts], [each[1:] for each in cuts]
        cells = _cells(starts, stops)
        scatter = np.zeros(len(cells))
        for name in own.inputs:
            needed = _needed_cells(own, starts, stops, problem.shapes[name])
            scatter += needed * problem.cell_bytes[name]
        switch = problem.switch
        return cycles, switch.transfers_s(scatter), switch.transfers_s(cells * own.cell_bytes)

    def of(self, partitionings: Sequence[Partitioning]) -> WorkArrays:
        parts = [self.of_operator(k, each) for k, each in enumerate(partitionings)]
        counts = [each.count for each in partitionings]
        return WorkArrays(
            _offsets(counts),
            np.repeat(np.arange(len(counts)), counts),
            np.concatenate([cycles for cycles, _, _ in parts], axis=1),
            np.concatenate([scatter for _, scatter, _ in parts]),
            np.concatenate([gather for _, _, gather in parts]),
        )


def _cells(starts: Sequence[Ints], stops: Sequence[Ints]) -> Floats:
    """Of all boxes of a grid, from where its cuts begin and end per dimension; the last dimension fastest."""
    cells = np.ones(1)
    for start, stop in zip(starts, stops, strict=True):
        cells = np.multiply.outer(cells, stop - start).ravel()
    return cells


def _needed_cells(own: ArrayOperator, starts: list[Ints], stops: list[Ints], shape: Shape) -> Floats:
    """What `ArrayOperator.needs` says of every chunk of a grid, in cells of the input."""
    if own.mapping is MappingClass.CELL:
        return _cells(starts, stops)
    if own.mapping is MappingClass.REGION:
        least = [np.maximum(0, start - more) for start, more in zip(starts, own.halo, strict=True)]
        most = [np.minimum(n, stop + more) for n, stop, more in zip(shape, stops, own.halo, strict=True)]
        return _cells(least, most)
    return np.full(math.prod(map(len, starts)), float(math.prod(shape)))


def _offsets(counts: Sequence[int]) -> Ints:
    return np.concatenate(([0], np.cumsum(np.array(counts, dtype=np.int64))))
