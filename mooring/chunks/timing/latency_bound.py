"""A lower bound on the latency of all chunk plans of a problem, frame by frame.

An operator cannot begin a frame before its inputs are there, nor before the work of all its ancestors is
done, which takes all sites together a while. From there on it needs the least integral makespan over its
partitionings, in which cores begin as chunks arrive and end as results are passed on.

Frames are passed on in order: when an operator has a frame, its ancestors are through with all earlier ones
too. So what is left of the earlier frames counts as work as well, and it is known to be left, because an
operator cannot have begun before its bound. Where frames overlap, this can raise the bound; where sites
cannot keep up, it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats
from mooring.chunks.model import ChunkProblem
from mooring.chunks.timing.arrays import WorkTables
from mooring.chunks.timing.bound_kernels import bound_frames, least_operation_s
from mooring.contracts.deadline import NO_DEADLINE, Deadline

EARLIER_FRAMES = 8
"""How many may still be under way; beyond that a bound only loses."""


@dataclass(frozen=True, eq=False)
class LatencyBound:
    latency_ms: Floats
    """Per frame."""

    def mean_ms(self, skip: int = 0) -> float:
        """Over all frames but the first `skip`."""
        return float(self.latency_ms[skip:].mean())


def latency_bound(
    problem: ChunkProblem,
    most_chunks: int,
    frames: int,
    *,
    limits: Sequence[OperatorLimits] | None = None,
    earlier_frames: int = EARLIER_FRAMES,
) -> LatencyBound:
    """Over all partitionings of at most so many chunks per operator and all assignments, also such as change
    from frame to frame. With no earlier frames each frame is taken to be alone. `limits` are those of the
    operators where they are known already: they do not depend on how often frames come.
    """
    limits = limits or operator_limits(WorkTables(problem, frames), most_chunks)
    count = len(problem.operators)
    capacity_s, capacity = _capacity(problem)
    inputs, ancestors = (np.zeros((count, count), dtype=np.bool_) for _ in range(2))
    for k, operator in enumerate(problem.operators):
        own = [problem.operator_index[name] for name in operator.inputs if name in problem.operator_index]
        inputs[k, own] = True
        ancestors[k, list(problem.ancestors[k])] = True
    frame_s = np.zeros(frames)
    bound_frames(
        np.array(problem.order, dtype=np.int64),
        inputs,
        ancestors,
        np.ones(count, dtype=np.bool_),
        np.stack([each.work for each in limits]),
        np.stack([each.operation_s for each in limits]),
        np.array([each.first_s for each in limits]),
        np.array([each.last_s for each in limits]),
        capacity_s,
        capacity,
        1 / problem.frames_per_s,
        earlier_frames,
        np.zeros(count, dtype=np.bool_),
        np.zeros((count, frames)),
        np.zeros((count, frames)),
        frame_s,
    )
    return LatencyBound(1e3 * (frame_s - np.arange(frames) / problem.frames_per_s))


@dataclass(frozen=True, eq=False)
class OperatorLimits:
    """What one operator needs at least, whatever its partitioning."""

    work: Floats
    """Cycles per row."""
    operation_s: Floats
    """From its inputs to its output, per row."""
    first_s: float
    last_s: float


def operator_limits(
    tables: WorkTables, most_chunks: int, deadline: Deadline = NO_DEADLINE
) -> list[OperatorLimits]:
    """Of all operators. Partitionings for which there is no time count with what is least for any."""
    return [_limits_of(tables, k, most_chunks, deadline) for k in range(len(tables.problem.operators))]


def _limits_of(tables: WorkTables, operator: int, most_chunks: int, deadline: Deadline) -> OperatorLimits:
    problem, own = tables.problem, tables.problem.operators[operator]
    latency_s = problem.switch.latency_ms / 1e3
    core_speeds = _core_speeds(problem)
    frame_cycles = own.complexity.frame_cycles(own.shape)
    least = np.full(tables.rows, np.inf)
    first_s = last_s = np.inf
    for partitioning in own.partitionings(most_chunks):
        if deadline.expired:
            first_s = last_s = 0.0
            least = np.minimum(least, frame_cycles / core_speeds.sum())
            break
        cycles, scatter_s, gather_s = tables.computed(operator, partitioning)
        _lower(least, cycles, scatter_s, gather_s, core_speeds)
        first_s, last_s = min(first_s, float(scatter_s.min())), min(last_s, float(gather_s.min()))
    work = np.full(tables.rows, frame_cycles + own.cycles_per_chunk)
    return OperatorLimits(work, least + 2 * latency_s, first_s + latency_s, last_s + latency_s)


def _lower(least: Floats, cycles: Floats, scatter_s: Floats, gather_s: Floats, core_speeds: Floats) -> None:
    """To what one partitioning needs, per row, without latencies, where that is less: processing with a core
    idle until its first chunk arrives and while its last result and those after it are passed on; or all
    transfers on either side with the smallest chunk's processing beyond them.
    """
    used = min(len(core_speeds), len(scatter_s))
    idle_s = np.zeros(len(core_speeds))
    idle_s[:used] = (np.cumsum(np.sort(scatter_s)) + np.cumsum(np.sort(gather_s)))[:used]
    one_row = not cycles.strides[0]
    for row, of_row in enumerate(cycles[:1] if one_row else cycles):
        largest_first = -np.sort(-of_row)
        quickest_s = float(largest_first[-1]) / core_speeds[0]
        transfers_s = max(
            float(scatter_s.sum()) + quickest_s + float(gather_s.min()),
            float(scatter_s.min()) + quickest_s + float(gather_s.sum()),
        )
        if transfers_s < least[row]:
            operation_s = least_operation_s(largest_first, idle_s, core_speeds, least[row])
            least[row] = min(least[row], max(operation_s, transfers_s))
    if one_row:
        least[:] = least[0]


def _core_speeds(problem: ChunkProblem) -> Floats:
    """Cycles per second of every core at its best moment, the fastest first."""
    speeds = [
        site.cycles_per_s * max(site.share_left(at_s) for at_s in (0.0, *_changes(problem)))
        for site in problem.sites
        for _ in range(site.cores)
    ]
    return np.array(sorted(speeds, reverse=True))


def _changes(problem: ChunkProblem) -> list[float]:
    return [step.at_s for site in problem.sites for step in site.external_load]


def _capacity(problem: ChunkProblem) -> tuple[Floats, Floats]:
    """The cycles that all sites can have spent by a moment: points of a line with bends."""
    moments = sorted({0.0, *(at_s for at_s in _changes(problem) if at_s > 0)})
    moments.append(moments[-1] + 1.0)
    speeds = [sum(site.cycles_per_s_left(at_s) for site in problem.sites) for at_s in moments[:-1]]
    return np.array(moments), np.concatenate(([0.0], np.cumsum(np.diff(moments) * speeds)))
