"""The loops of the latency bound, compiled."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mooring.arrays import Bools, Floats, Ints
from mooring.chunks.compiled import KERNEL

HALVINGS = 45


@njit(**KERNEL)
def _fits(limit_s: float, cycles: Floats, total: float, idle_s: Floats, core_speeds: Floats) -> bool:
    """Whether so much time may be enough.

    The cores can begin one after the other only, as chunks arrive, and have to end one before the other, as
    results are passed on: what they can do until then must be enough for all cycles. And the k largest
    chunks each take at least as long as the k-th: there must be room for k chunks of its size, for every k.
    """
    possible = 0.0
    for core in range(min(len(core_speeds), len(cycles))):
        possible += max(0.0, limit_s - idle_s[core]) * core_speeds[core]
    # What fits but for rounding fits: a bound must not be too high.
    if possible * (1.0 + 1e-9) < total:
        return False
    for k in range(len(cycles)):
        if cycles[k] <= 0.0:
            break
        if k + 1 < len(cycles) and cycles[k + 1] == cycles[k]:
            continue
        room = 0.0
        for core in range(len(core_speeds)):
            room += math.floor((limit_s - idle_s[0]) * core_speeds[core] / cycles[k] * (1.0 + 1e-9))
            if room >= k + 1:
                break
        if room < k + 1:
            return False
    return True


@njit(**KERNEL)
def least_operation_s(cycles: Floats, idle_s: Floats, core_speeds: Floats, known_s: float) -> float:
    """No assignment of these chunks (the largest first) to these cores (the fastest first) is done sooner;
    infinite where it is not below a known time.

    `idle_s` is how long the first, the second, ... core must be idle, before the first and after the last of
    its chunks together; rearranging who waits cannot help, since the fastest wait least here.
    """
    total = 0.0
    for k in range(len(cycles)):
        total += cycles[k]
    low: float = idle_s[0] + cycles[0] / core_speeds[0]
    if _fits(low, cycles, total, idle_s, core_speeds):
        return low
    high = idle_s[0] + total / core_speeds[0]
    if known_s <= low or (known_s < high and not _fits(known_s, cycles, total, idle_s, core_speeds)):
        return math.inf
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if _fits(middle, cycles, total, idle_s, core_speeds):
            high = middle
        else:
            low = middle
    return low


@njit(**KERNEL)
def _interpolated(at: float, xs: Floats, ys: Floats) -> float:
    """On the line through the points; beyond the last, on as before."""
    k = 0
    while k + 2 < len(xs) and xs[k + 1] <= at:
        k += 1
    value: float = ys[k] + (at - xs[k]) * (ys[k + 1] - ys[k]) / (xs[k + 1] - xs[k])
    return value


@njit(**KERNEL)
def _all_done_s(
    members: Bools,
    frame: int,
    oldest: int,
    work: Floats,
    first_cycle_s: Floats,
    capacity_s: Floats,
    capacity: Floats,
) -> float:
    """When the members' work on all frames up to this one can be done at the earliest.

    Whatever moment one looks from: of the work that began shortly before it only so much can be done, and of
    what began later nothing. The rest takes all sites together a while. The best moment to look from is the
    beginning of some operator's work on some frame.
    """
    rows = work.shape[1]
    best_s = 0.0
    for view in range(oldest, frame + 1):
        for viewed in range(len(members)):
            if not members[viewed]:
                continue
            from_s = first_cycle_s[viewed, view]
            spent = _interpolated(from_s, capacity_s, capacity)
            left = 0.0
            for older in range(oldest, frame + 1):
                for operator in range(len(members)):
                    if members[operator]:
                        begun_s = first_cycle_s[operator, older]
                        possible = 0.0
                        if begun_s < from_s:
                            possible = spent - _interpolated(begun_s, capacity_s, capacity)
                        left += max(0.0, work[operator, older % rows] - possible)
            best_s = max(best_s, _interpolated(spent + left, capacity, capacity_s))
    return best_s


@njit(**KERNEL)
def bound_frames(
    order: Ints,
    inputs: Bools,
    ancestors: Bools,
    everybody: Bools,
    work: Floats,
    operation_s: Floats,
    first_s: Floats,
    last_s: Floats,
    capacity_s: Floats,
    capacity: Floats,
    period_s: float,
    window: int,
    members: Bools,
    first_cycle_s: Floats,
    done_s: Floats,
    frame_s: Floats,
) -> None:
    """Fill in, per operator and frame, when its first cycle can be spent and when the frame can be passed on,
    and per frame when all can be done. `window` earlier frames count; with 0, each frame is alone.

    inputs, ancestors (operators, operators); work, operation_s (operators, rows); first_s and last_s are what
    passes at least before an operator's first cycle and after its last; capacity_s and capacity the points of
    the cycles that all sites can spend over time; members is scratch.
    """
    rows = work.shape[1]
    for frame in range(len(frame_s)):
        oldest = max(0, frame - window)
        for operator in order:
            start_s, last_of_inputs_s, has_ancestors = frame * period_s, np.inf, False
            for other in range(len(order)):
                members[other] = ancestors[operator, other]
                if members[other]:
                    has_ancestors = True
                    last_of_inputs_s = min(last_of_inputs_s, last_s[other])
                if inputs[operator, other]:
                    start_s = max(start_s, done_s[other, frame])
            if has_ancestors:
                work_s = _all_done_s(members, frame, oldest, work, first_cycle_s, capacity_s, capacity)
                start_s = max(start_s, work_s + last_of_inputs_s)
            first_cycle_s[operator, frame] = start_s + first_s[operator]
            members[operator] = True
            work_s = _all_done_s(members, frame, oldest, work, first_cycle_s, capacity_s, capacity)
            after_s = min(last_of_inputs_s, last_s[operator])
            done_s[operator, frame] = max(start_s + operation_s[operator, frame % rows], work_s + after_s)
        latest_s, least_last_s = 0.0, np.inf
        for operator in range(len(order)):
            latest_s = max(latest_s, done_s[operator, frame])
            least_last_s = min(least_last_s, last_s[operator])
        work_s = _all_done_s(everybody, frame, oldest, work, first_cycle_s, capacity_s, capacity)
        frame_s[frame] = max(latest_s, work_s + least_last_s)
