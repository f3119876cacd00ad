"""Frames through operators as chunks, event by event, compiled.

The next frame, every operator's gather point and scatter point, and every core have at most one event to
come: each has a slot, in this order, and events of the same moment are taken in it. A chunk in a queue is one
number, smaller for what is to be taken first: the frame, the operator's rank, the chunk.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mooring.chunks.assignment.earliest_finish_kernels import dispatch_chunk, largest_first
from mooring.chunks.compiled import INLINED, KERNEL
from mooring.chunks.timing.slot_kernels import pop, push, set_due
from mooring.chunks.timing.state import NONE, FrameWorld

CHUNK_BITS = 20
CHUNK_MASK = (1 << CHUNK_BITS) - 1
FRAME_SLOT = 0


@njit(**INLINED)
def _stretch_at(world: FrameWorld, site: int, now: float) -> int:
    """The stretch of a site's external load that this moment lies in."""
    at: int = world.sites.step_first[site]
    while at + 1 < world.sites.step_first[site + 1] and world.sites.step_s[at + 1] <= now:
        at += 1
    return at


@njit(**INLINED)
def _start(world: FrameWorld, core: int, key: int, ranks: int, now: float) -> float:
    """A core takes a chunk; returns when it will be done, while the core's share changes."""
    site = world.site_of_core[core]
    world.running[core] = key
    frame = (key >> CHUNK_BITS) // ranks
    cycles = world.work.cycles[frame % world.work.cycles.shape[0], key & CHUNK_MASK]
    if world.routing.assigned.shape[0] == 0:
        left = world.sites.step_left[_stretch_at(world, site, now)]
        estimate = world.routing.estimates[frame % world.routing.estimates.shape[0], key & CHUNK_MASK]
        world.reckoned_end_s[core] = now + estimate / (world.sites.cycles_per_s[site] * left)
    at, speed, begin_s = _stretch_at(world, site, now), world.sites.cycles_per_s[site], now
    while at + 1 < world.sites.step_first[site + 1]:
        possible = (world.sites.step_s[at + 1] - begin_s) * speed * world.sites.step_left[at]
        if possible >= cycles:
            break
        cycles -= possible
        begin_s = world.sites.step_s[at + 1]
        at += 1
    done_s: float = begin_s + cycles / (speed * world.sites.step_left[at])
    return done_s


@njit(**INLINED)
def _add_ahead(world: FrameWorld, site: int, seconds: float) -> None:
    """To the core of a site that is free first."""
    best = world.sites.core_first[site]
    for core in range(world.sites.core_first[site] + 1, world.sites.core_first[site + 1]):
        if world.ahead_s[core] < world.ahead_s[best]:
            best = core
    world.ahead_s[best] += seconds


@njit(**INLINED)
def _estimate_s(world: FrameWorld, key: int, ranks: int, site: int) -> float:
    """How long a chunk is believed to take at a site, as fast as it is now."""
    frame = (key >> CHUNK_BITS) // ranks
    rows = world.routing.estimates.shape[0]
    seconds: float = world.routing.estimates[frame % rows, key & CHUNK_MASK] / world.speed[site]
    return seconds


@njit(**KERNEL)
def _look_ahead(world: FrameWorld, operator: int, frame: int, ranks: int, now: float) -> None:
    """When each core will be through with what goes before the chunks of a frame: what runs, what waits and
    what is on its way, if it is older or of a lower rank.
    """
    own = (frame * ranks + world.graph.rank[operator]) << CHUNK_BITS
    for site in range(len(world.speed)):
        left = world.sites.step_left[_stretch_at(world, site, now)]
        world.speed[site] = world.sites.cycles_per_s[site] * left
        for core in range(world.sites.core_first[site], world.sites.core_first[site + 1]):
            is_busy = world.running[core] != NONE
            world.ahead_s[core] = max(now, world.reckoned_end_s[core]) if is_busy else now
        for at in range(world.length[site]):
            key = world.queue[site, at]
            if key < own:
                _add_ahead(world, site, _estimate_s(world, key, ranks, site))
    for other in range(len(world.sent)):
        if other == operator or world.position[other] == NONE:
            continue
        key = (world.sent[other] * ranks + world.graph.rank[other]) << CHUNK_BITS
        if key < own:
            for at in range(world.work.first[other] + world.position[other], world.work.first[other + 1]):
                chunk = world.order[at]
                site = world.site[chunk]
                _add_ahead(world, site, _estimate_s(world, key | chunk, ranks, site))


@njit(**KERNEL)
def _decide(world: FrameWorld, operator: int, frame: int, ranks: int, first_s: float, now: float) -> None:
    """Earliest finish for the chunks of one frame, of which the first could arrive at `first_s`."""
    first, last = world.work.first[operator], world.work.first[operator + 1]
    estimates = world.routing.estimates[frame % world.routing.estimates.shape[0]]
    largest_first(estimates, first, last, world.order)
    _look_ahead(world, operator, frame, ranks, now)
    arrive_s = first_s
    for at in range(first, last):
        chunk = world.order[at]
        arrive_s += world.work.scatter_s[chunk]
        world.site[chunk] = dispatch_chunk(
            estimates[chunk],
            arrive_s,
            world.ahead_s,
            world.sites.core_first,
            world.speed,
            world.routing.allowed[operator],
        )


@njit(**KERNEL)
def _scatter(world: FrameWorld, operator: int, ranks: int, latency_s: float, now: float) -> None:
    """Begin to send the operator's next frame, if it has one and is not sending another."""
    frame = world.sent[operator]
    if world.position[operator] != NONE or frame >= world.ready[operator]:
        return
    world.position[operator] = 0
    first, last = world.work.first[operator], world.work.first[operator + 1]
    begin_s = max(world.scatter_free_s[operator], world.ready_s[operator, frame])
    rows = world.routing.assigned.shape[0]
    if rows > 0:
        for chunk in range(first, last):
            world.order[chunk] = chunk
            world.site[chunk] = world.routing.assigned[frame % rows, chunk]
    else:
        _decide(world, operator, frame, ranks, begin_s + latency_s, now)
    world.scatter_free_s[operator] = begin_s + world.work.scatter_s[world.order[first]]
    slot = 1 + len(world.sent) + operator
    set_due(world.due, world.winner, slot, world.scatter_free_s[operator] + latency_s)


@njit(**INLINED)
def _arrive(world: FrameWorld, operator: int, ranks: int, latency_s: float, now: float) -> bool:
    """A chunk reaches its site, and the next one of its frame is on its way. False: a queue is full."""
    first, last = world.work.first[operator], world.work.first[operator + 1]
    chunk = world.order[first + world.position[operator]]
    site = world.site[chunk]
    key = ((world.sent[operator] * ranks + world.graph.rank[operator]) << CHUNK_BITS) | chunk
    idle = NONE
    for core in range(world.sites.core_first[site], world.sites.core_first[site + 1]):
        if world.running[core] == NONE:
            idle = core
            break
    if idle != NONE:
        done_s = _start(world, idle, key, ranks, now)
        set_due(world.due, world.winner, 1 + 2 * len(world.sent) + idle, done_s)
    elif world.length[site] == world.queue.shape[1]:
        return False
    else:
        push(world.queue[site], world.length[site], key)
        world.length[site] += 1
    world.position[operator] += 1
    following_s = np.inf
    if first + world.position[operator] < last:
        following = world.order[first + world.position[operator]]
        world.scatter_free_s[operator] += world.work.scatter_s[following]
        following_s = world.scatter_free_s[operator] + latency_s
    else:
        world.sent[operator] += 1
        world.position[operator] = NONE
    set_due(world.due, world.winner, 1 + len(world.sent) + operator, following_s)
    return True


@njit(**INLINED)
def _gather(world: FrameWorld, chunk: int, frame: int, latency_s: float, now: float) -> None:
    """A chunk's result goes to its gather point; frames that are whole are passed on in their order."""
    operator = world.work.operator[chunk]
    world.gather_free_s[operator] = max(world.gather_free_s[operator], now) + world.work.gather_s[chunk]
    world.whole_s[operator, frame] = world.gather_free_s[operator] + latency_s
    world.left[operator, frame] -= 1
    at = world.released[operator]
    while at < world.left.shape[1] and world.left[operator, at] == 0:
        before = world.gathered_s[operator, at - 1] if at > 0 else 0.0
        world.gathered_s[operator, at] = max(world.whole_s[operator, at], before)
        if world.passed[operator] == at:
            set_due(world.due, world.winner, 1 + operator, world.gathered_s[operator, at])
        at += 1
    world.released[operator] = at


@njit(**INLINED)
def _complete(world: FrameWorld, core: int, ranks: int, latency_s: float, now: float) -> None:
    """A core is done with a chunk and takes the next, if one waits."""
    site, chunk = world.site_of_core[core], world.running[core] & CHUNK_MASK
    frame = (world.running[core] >> CHUNK_BITS) // ranks
    _gather(world, chunk, frame, latency_s, now)
    done_s = np.inf
    world.running[core] = NONE
    if world.length[site] > 0:
        key = pop(world.queue[site], world.length[site])
        world.length[site] -= 1
        done_s = _start(world, core, key, ranks, now)
    set_due(world.due, world.winner, 1 + 2 * len(world.sent) + core, done_s)


@njit(**INLINED)
def _receive(
    world: FrameWorld, operator: int, frame: int, inputs: int, ranks: int, latency_s: float, now: float
) -> None:
    """An operator gets some of the inputs of a frame, and begins once it has them all."""
    world.missing[operator, frame] -= inputs
    if world.missing[operator, frame] == 0:
        world.ready_s[operator, frame] = now
        world.ready[operator] += 1
        _scatter(world, operator, ranks, latency_s, now)


@njit(**INLINED)
def _pass_on(world: FrameWorld, operator: int, ranks: int, latency_s: float, now: float) -> None:
    """The readers of an operator get its frame."""
    frame = world.passed[operator]
    following = frame + 1
    world.passed[operator] = following
    is_known = following < world.released[operator]
    following_s = world.gathered_s[operator, following] if is_known else np.inf
    set_due(world.due, world.winner, 1 + operator, following_s)
    for at in range(world.graph.reader_first[operator], world.graph.reader_first[operator + 1]):
        _receive(world, world.graph.readers[at], frame, 1, ranks, latency_s, now)


@njit(**KERNEL)
def simulate_frames(world: FrameWorld, period_s: float, latency_s: float, frames: int) -> bool:
    """Run until every operator has passed on every frame; frame f enters at f periods. False: a site has too
    little room for the chunks that wait there.
    """
    count = len(world.graph.rank)
    ranks = 0
    for operator in range(count):
        ranks = max(ranks, world.graph.rank[operator] + 1)
    entered, passed = 0, 0
    set_due(world.due, world.winner, FRAME_SLOT, 0.0)
    while passed < count * frames:
        slot = world.winner[1]
        now = world.due[slot]
        if slot > 2 * count:
            _complete(world, slot - 1 - 2 * count, ranks, latency_s, now)
        elif slot > count:
            if not _arrive(world, slot - 1 - count, ranks, latency_s, now):
                return False
            if world.position[slot - 1 - count] == NONE:
                _scatter(world, slot - 1 - count, ranks, latency_s, now)
        elif slot > FRAME_SLOT:
            _pass_on(world, slot - 1, ranks, latency_s, now)
            passed += 1
        else:
            for operator in world.graph.turn:
                if world.graph.stream_inputs[operator] > 0:
                    _receive(
                        world, operator, entered, world.graph.stream_inputs[operator], ranks, latency_s, now
                    )
            entered += 1
            entry_s = entered * period_s if entered < frames else np.inf
            set_due(world.due, world.winner, FRAME_SLOT, entry_s)
    return True
