"""The problem of chunk plans: a graph of operators over arrays, the sites that share their work, a switch.

Every stream brings a frame at the same moments. An operator waits until it has the frame of each of its
inputs, cuts its work into chunks, has them processed at sites, and puts the results together again (section
2.1). Scatter and gather points and the sites hang on one switch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from mooring.arrays import Floats
from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.partitioning import Bounds, Partitioning, Shape, regular_partitionings
from mooring.errors import InputError


class MappingClass(StrEnum):
    """Which cells of its inputs an operator needs for a cell of its output (section 6)."""

    CELL = "cell to cell"
    REGION = "region to cell"
    GLOBAL = "global to cell"
    WHOLE = "cannot be cut"


@dataclass(frozen=True)
class ArrayStream:
    """An external input: one array per frame."""

    name: str
    shape: Shape
    cell_bytes: float = 1.0


@dataclass(frozen=True, eq=False)
class ArrayOperator:
    """A step from arrays to an array. Cells map to cells of the same index, so shapes agree unless it reads
    all of its inputs for every cell.
    """

    name: str
    inputs: tuple[str, ...]
    """Streams or operators; frames of several are joined by their number."""
    shape: Shape
    complexity: ComplexityMap
    mapping: MappingClass = MappingClass.CELL
    halo: Shape = ()
    """Region to cell: how many cells the region reaches beyond its own, per dimension."""
    cell_bytes: float = 1.0
    """Of its output."""
    cycles_per_chunk: float = 0.0
    """What a chunk costs however small it is."""

    @property
    def reads_its_own_cells(self) -> bool:
        """And perhaps those around them, but not all."""
        return self.mapping in (MappingClass.CELL, MappingClass.REGION)

    def partitionings(self, most_chunks: int) -> tuple[Partitioning, ...]:
        """All that it can be cut into."""
        if self.mapping is MappingClass.WHOLE:
            return (Partitioning.one_chunk(len(self.shape)),)
        return regular_partitionings(self.shape, most_chunks)

    def needs(self, output: Bounds, input_shape: Shape) -> Bounds:
        """What of an input a chunk with this output has to be given."""
        if self.mapping is MappingClass.CELL:
            return output
        if self.mapping is MappingClass.REGION:
            return output.grown(self.halo, input_shape)
        return Bounds.whole(input_shape)


@dataclass(frozen=True)
class LoadStep:
    """From this moment on, others use this share of a site's cores."""

    at_s: float
    share: float


@dataclass(frozen=True)
class ChunkSite:
    """A node of the paper. Its cores take chunks from one queue, the oldest frame first."""

    name: str
    cycles_per_s: float
    """Of one core."""
    cores: int = 1
    external_load: tuple[LoadStep, ...] = ()
    """In the order of time; before the first, nothing."""

    def share_left(self, at_s: float) -> float:
        """The part of its cores that chunks can use."""
        past = [step.share for step in self.external_load if step.at_s <= at_s]
        return 1.0 - past[-1] if past else 1.0

    def cycles_per_s_left(self, at_s: float) -> float:
        """Of all its cores together."""
        return self.cores * self.cycles_per_s * self.share_left(at_s)


@dataclass(frozen=True)
class Switch:
    """What chunks and results travel over. Every scatter and every gather point has a port of its own, on
    which messages follow one another; a site gets and gives a part of the frames only, and its port never
    holds anything up.
    """

    megabits_per_s: float = 100.0
    """Of a port, each way; section 5."""
    latency_ms: float = 0.1
    header_bytes: float = 64.0

    def transfer_s(self, payload_bytes: float) -> float:
        """How long a message keeps a port busy."""
        return 8e-6 * (payload_bytes + self.header_bytes) / self.megabits_per_s

    def transfers_s(self, payload_bytes: Floats) -> Floats:
        """The same of many messages."""
        return 8e-6 * (payload_bytes + self.header_bytes) / self.megabits_per_s


@dataclass(frozen=True, eq=False)
class ChunkProblem:
    """Checked when it is made."""

    streams: tuple[ArrayStream, ...]
    operators: tuple[ArrayOperator, ...]
    sites: tuple[ChunkSite, ...]
    frames_per_s: float
    switch: Switch = Switch()

    def __post_init__(self) -> None:
        for name, mistake in _mistakes(self):
            raise InputError(mistake, field=name)

    @cached_property
    def operator_index(self) -> dict[str, int]:
        return {operator.name: k for k, operator in enumerate(self.operators)}

    @property
    def arrays(self) -> tuple[ArrayStream | ArrayOperator, ...]:
        """Everything that can be read."""
        return self.streams + self.operators

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """By name, as all that can be read."""
        return {each.name: each.shape for each in self.arrays}

    @cached_property
    def cell_bytes(self) -> dict[str, float]:
        return {each.name: each.cell_bytes for each in self.arrays}

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Per operator, the operators that read it; once for every time they do."""
        found: list[list[int]] = [[] for _ in self.operators]
        for reader, operator in enumerate(self.operators):
            for name in operator.inputs:
                if name in self.operator_index:
                    found[self.operator_index[name]].append(reader)
        return tuple(map(tuple, found))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Operators, inputs before their readers."""
        waiting = [sum(name in self.operator_index for name in each.inputs) for each in self.operators]
        free = [k for k, count in enumerate(waiting) if not count]
        order: list[int] = []
        while free:
            order.append(free.pop(0))
            for reader in self.readers[order[-1]]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    free.append(reader)
        return tuple(order)

    @cached_property
    def tiers(self) -> tuple[int, ...]:
        """Per operator, how many operators at most come after it: 0 where nobody reads it (section 3.1).
        No two operators of a tier wait for one another.
        """
        tiers = [0] * len(self.operators)
        for k in reversed(self.order):
            tiers[k] = 1 + max((tiers[reader] for reader in self.readers[k]), default=-1)
        return tuple(tiers)

    @cached_property
    def ancestors(self) -> tuple[frozenset[int], ...]:
        """Per operator, all that has to be done before it."""
        found: list[frozenset[int]] = [frozenset()] * len(self.operators)
        for k in self.order:
            inputs = {self.operator_index[n] for n in self.operators[k].inputs if n in self.operator_index}
            found[k] = frozenset(inputs).union(*(found[each] for each in inputs))
        return tuple(found)

    @property
    def outputs(self) -> tuple[int, ...]:
        """Operators that nobody reads."""
        return tuple(k for k, readers in enumerate(self.readers) if not readers)

    def load(self) -> float:
        """The part of all sites' cycles that the frames need, before any external load comes or goes."""
        needed = sum(each.complexity.frame_cycles(each.shape) for each in self.operators)
        return needed * self.frames_per_s / sum(site.cycles_per_s_left(0.0) for site in self.sites)


@dataclass(frozen=True)
class OperatorChunks:
    """One operator's part of a chunk plan."""

    partitioning: Partitioning
    sites: tuple[str, ...]
    """Where each chunk is processed; empty: decided when the frame is scattered."""


@dataclass(frozen=True)
class ChunkPlan:
    """A partitioning and an assignment per operator, by name."""

    operators: dict[str, OperatorChunks]
    latency_ms: float
    """Mean over the frames of a simulation, from when a frame enters until its last output is there."""
    latency_bound_ms: float
    """No chunk plan of the problem is faster on these frames."""

    @property
    def chunk_counts(self) -> dict[str, int]:
        return {name: chunks.partitioning.count for name, chunks in self.operators.items()}


def _mistakes(problem: ChunkProblem) -> Iterator[tuple[str, str]]:
    """Fields, and what is wrong with them."""
    if not problem.sites or not problem.operators or not problem.streams:
        yield "problem", "found no sites, operators or streams, expected some of each"
    if not (math.isfinite(problem.frames_per_s) and problem.frames_per_s > 0):
        yield "frames_per_s", f"found {problem.frames_per_s} frames per second, expected a number > 0"
    yield from _repeated("sites", [site.name for site in problem.sites])
    yield from _repeated("operators", [each.name for each in problem.arrays])
    for site in problem.sites:
        if not (site.cycles_per_s > 0 and site.cores >= 1):
            yield f"sites.{site.name}", "expected cycles_per_s > 0 and at least one core"
        if any(not 0 <= step.share < 1 for step in site.external_load):
            yield (
                f"sites.{site.name}",
                "found an external load that is no share from 0 to below 1",
            )
        if any(b.at_s <= a.at_s for a, b in zip(site.external_load, site.external_load[1:], strict=False)):
            yield f"sites.{site.name}", "found external loads that are not in the order of time"
    if not (problem.switch.megabits_per_s > 0 and problem.switch.latency_ms >= 0):
        yield "switch", "expected megabits_per_s > 0 and latency_ms >= 0"
    for operator in problem.operators:
        for mistake in _operator_mistakes(operator, problem):
            yield f"operators.{operator.name}", mistake
    if len(problem.order) < len(problem.operators):
        caught = [each.name for k, each in enumerate(problem.operators) if k not in problem.order]
        yield "operators", f"found operators that wait for one another: {', '.join(caught)}"


def _operator_mistakes(operator: ArrayOperator, problem: ChunkProblem) -> Iterator[str]:
    if not operator.inputs:
        yield "found no inputs, expected a stream or an operator"
    if operator.complexity.cycles_per_cell.ndim != len(operator.shape):
        yield "found a complexity map of other dimensions than the shape has"
    if operator.mapping is MappingClass.REGION and len(operator.halo) != len(operator.shape):
        yield f"found halo {list(operator.halo)}, expected one number of cells per dimension"
    for name in operator.inputs:
        if name not in problem.shapes:
            yield f"found input {name!r}, expected one of {', '.join(problem.shapes)}"
        elif operator.reads_its_own_cells and problem.shapes[name] != operator.shape:
            yield (
                f"found input {name!r} of shape {list(problem.shapes[name])} and an output of shape "
                f"{list(operator.shape)}, expected the same: {operator.mapping}"
            )


def _repeated(field: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{field}.{name}", f"found the name {name!r} more than once"
