"""What a simulation of frames is made of and where it stands, as arrays that its kernels change in place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mooring.arrays import Bools, Floats, Ints
from mooring.chunks.timing.arrays import GraphArrays, SiteArrays, WorkArrays

NONE = -1


class ChunkRouting(NamedTuple):
    """What decides where chunks go: rows of sites, frame by frame, or estimates where there are no rows."""

    assigned: Ints
    estimates: Floats
    """Cycles per frame and chunk, as earliest finish believes."""
    allowed: Bools
    """Per operator, the sites that it may use then."""


class FrameWorld(NamedTuple):
    graph: GraphArrays
    sites: SiteArrays
    work: WorkArrays
    routing: ChunkRouting

    # Per operator and frame.
    missing: Ints  # inputs that the frame waits for
    ready_s: Floats  # when the last of them came
    left: Ints  # chunks that are not back yet
    whole_s: Floats  # when the last of them is back
    gathered_s: Floats  # when the frame is passed on: in order

    # Per operator.
    ready: Ints  # frames with all inputs
    sent: Ints  # frames whose chunks have all arrived at sites
    position: Ints  # of the frame being sent, how many chunks have arrived; NONE: none is being sent
    released: Ints  # frames with a time in gathered_s
    passed: Ints  # frames that the readers have
    scatter_free_s: Floats
    gather_free_s: Floats

    # Per chunk, of the frame that its operator is sending.
    order: Ints
    site: Ints

    # Per core; per site.
    site_of_core: Ints
    running: Ints  # the key of a chunk, or NONE
    queue: Ints  # a heap of keys
    length: Ints

    # What earliest finish reckons with.
    reckoned_end_s: Floats  # per core, when its chunk should be done
    ahead_s: Floats  # per core, when it is through with what goes before a frame's chunks
    speed: Floats  # per site, of a core at the moment

    # The calendar.
    due: Floats
    winner: Ints


def lay_out(
    graph: GraphArrays, sites: SiteArrays, work: WorkArrays, routing: ChunkRouting, frames: int, room: int
) -> FrameWorld:
    """Before the first frame. `room` is for how many chunks wait at a site."""
    operators, chunks = len(graph.rank), len(work.operator)
    site_count, cores = len(sites.cycles_per_s), int(sites.core_first[-1])
    leaves = 1 << int(np.ceil(np.log2(1 + 2 * operators + cores)))
    per_frame = (operators, frames)
    return FrameWorld(
        graph,
        sites,
        work,
        routing,
        missing=np.repeat(graph.inputs[:, None], frames, axis=1),
        ready_s=np.zeros(per_frame),
        left=np.repeat(np.diff(work.first)[:, None], frames, axis=1),
        whole_s=np.zeros(per_frame),
        gathered_s=np.full(per_frame, np.inf),
        ready=np.zeros(operators, dtype=np.int64),
        sent=np.zeros(operators, dtype=np.int64),
        position=np.full(operators, NONE, dtype=np.int64),
        released=np.zeros(operators, dtype=np.int64),
        passed=np.zeros(operators, dtype=np.int64),
        scatter_free_s=np.zeros(operators),
        gather_free_s=np.zeros(operators),
        order=np.zeros(chunks, dtype=np.int64),
        site=np.zeros(chunks, dtype=np.int64),
        site_of_core=np.repeat(np.arange(site_count), np.diff(sites.core_first)),
        running=np.full(cores, NONE, dtype=np.int64),
        queue=np.empty((site_count, room), dtype=np.int64),
        length=np.zeros(site_count, dtype=np.int64),
        reckoned_end_s=np.zeros(cores),
        ahead_s=np.zeros(cores),
        speed=np.zeros(site_count),
        due=np.full(leaves, np.inf),
        winner=_everybody_equal(leaves),
    )


def _everybody_equal(leaves: int) -> Ints:
    """The matches of a tournament in which the first of any two wins."""
    winner = np.zeros(2 * leaves, dtype=np.int64)
    winner[leaves:] = np.arange(leaves)
    for at in range(leaves - 1, 0, -1):
        winner[at] = winner[2 * at]
    return winner
