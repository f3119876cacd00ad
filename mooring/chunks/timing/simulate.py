"""How long frames take under given partitionings and an assignment, or by earliest finish: one call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mooring.arrays import Bools, Floats, Ints
from mooring.chunks.model import ChunkProblem
from mooring.chunks.timing.arrays import (
    GraphArrays,
    SiteArrays,
    WorkArrays,
    graph_arrays,
    longest_path_first,
    outputs_first,
    site_arrays,
)
from mooring.chunks.timing.event_kernels import CHUNK_MASK, simulate_frames
from mooring.chunks.timing.state import ChunkRouting, lay_out
from mooring.errors import InputError

FIRST_ROOM = 256
"""Chunks that wait at a site; doubled and tried again where that is not enough."""


@dataclass(frozen=True, eq=False)
class FrameTimes:
    """What became of the frames of a simulation."""

    gathered_s: Floats
    """Per operator and frame, when the frame was passed on; frame f entered at f periods."""
    period_s: float
    outputs: tuple[int, ...]

    @cached_property
    def latency_ms(self) -> Floats:
        """Per frame, from when it enters until its last output is there."""
        entered_s = np.arange(self.gathered_s.shape[1]) * self.period_s
        latest_s: Floats = self.gathered_s[list(self.outputs)].max(axis=0)
        return 1e3 * (latest_s - entered_s)

    def mean_ms(self, skip: int = 0) -> float:
        """Over all frames but the first `skip`."""
        return float(self.latency_ms[skip:].mean())


@dataclass(frozen=True, eq=False)
class FrameSimulation:
    """Virtual time over one problem, for any partitionings and assignments."""

    problem: ChunkProblem

    @cached_property
    def _by_outputs(self) -> GraphArrays:
        return graph_arrays(self.problem, outputs_first(self.problem))

    @cached_property
    def _by_path(self) -> GraphArrays:
        return graph_arrays(self.problem, longest_path_first(self.problem))

    @cached_property
    def _sites(self) -> SiteArrays:
        return site_arrays(self.problem)

    def assigned(self, work: WorkArrays, site_of: Ints, frames: int) -> FrameTimes:
        """With chunks at these sites, in every frame or (two axes) frame by frame."""
        rows = np.ascontiguousarray(np.atleast_2d(site_of), dtype=np.int64)
        routing = ChunkRouting(rows, np.zeros((1, 0)), np.zeros((0, 0), dtype=np.bool_))
        return self._run(self._by_outputs, work, routing, frames)

    def earliest_finish(
        self, work: WorkArrays, frames: int, estimates: Floats | None = None, allowed: Bools | None = None
    ) -> FrameTimes:
        """With each chunk sent where it will be done first, by these estimates of cycles per frame and chunk
        (without any: by what they will be), to the operator's allowed sites. Of one frame, chunks with most
        work after them are taken first.
        """
        if allowed is None:
            allowed = np.ones((len(self.problem.operators), len(self.problem.sites)), dtype=np.bool_)
        believed = work.cycles if estimates is None else np.ascontiguousarray(estimates)
        nowhere = np.zeros((0, len(work.operator)), dtype=np.int64)
        return self._run(self._by_path, work, ChunkRouting(nowhere, believed, allowed), frames)

    def _run(self, graph: GraphArrays, work: WorkArrays, routing: ChunkRouting, frames: int) -> FrameTimes:
        if len(work.operator) > CHUNK_MASK:
            raise InputError(f"found {len(work.operator)} chunks, expected at most {CHUNK_MASK}")
        period_s, latency_s = 1 / self.problem.frames_per_s, self.problem.switch.latency_ms / 1e3
        room = FIRST_ROOM
        while True:
            world = lay_out(graph, self._sites, work, routing, frames, room)
            if simulate_frames(world, period_s, latency_s, frames):
                return FrameTimes(world.gathered_s, period_s, self.problem.outputs)
            room *= 4
