"""The output of windows: aggregates by time, and joins of two sides.

Both are driven by the tuples they process, as in Borealis: a window closes when the first tuple born after
its end is processed, and a pair is found when its later side is processed. An output is as old as the tuple
that caused it.
"""

from __future__ import annotations

import math

from numba import njit

from mooring.simulator.data_plane.kernels.queue_kernels import give_back, take
from mooring.simulator.data_plane.kernels.records import KERNEL, NONE, Records


@njit(**KERNEL)
def closed_share(operator: Records, panes: Records, birth: float, weight: float) -> float:
    """Count a tuple in an aggregate's window; return the input behind the windows that it closes.

    A window of k panes that moves by one pane is emitted k times as often as it forgets, so each emission
    stands for 1/k of its content: over time the output is selectivity x input, as the load model says.
    """
    pane = math.floor(birth / operator.window)
    ring = panes[operator.pane_start : operator.pane_start + operator.panes]
    count = operator.panes
    closed: float = 0.0
    if pane > operator.pane:
        for step in range(min(pane - operator.pane, count)):
            closed += ring.sum()
            ring[(operator.pane + step + 1) % count] = 0.0
        operator.pane = pane
    ring[operator.pane % count] += weight
    share: float = closed / count
    return share


@njit(**KERNEL)
def _forget(clock: Records, tuples: Records, head: int, before: float) -> int:
    while head != NONE and tuples[head].birth < before:
        following = tuples[head].next
        give_back(clock, tuples, head)
        head = following
    return head


@njit(**KERNEL)
def _pairs(tuples: Records, head: int, birth: float, reach: float) -> float:
    found: float = 0.0
    node = head
    while node != NONE:
        if abs(tuples[node].birth - birth) <= reach:
            found += tuples[node].weight
        node = tuples[node].next
    return found


@njit(**KERNEL)
def joined_pairs(
    clock: Records, tuples: Records, operator: Records, port: int, birth: float, weight: float
) -> float:
    """Match a tuple with the other side's window, keep it in its own, and return the number of pairs.

    Each side forgets what the other has passed by half a window; `lateness` bounds what it keeps for a
    silent side.
    """
    reach = operator.window / 2.0
    kept = take(clock, tuples)
    tuples[kept].birth = birth
    tuples[kept].weight = weight
    tuples[kept].next = NONE
    stale = clock.now - reach - clock.lateness
    if port == 0:
        operator.second_head = _forget(clock, tuples, operator.second_head, max(birth - reach, stale))
        operator.first_head = _forget(clock, tuples, operator.first_head, stale)
        if operator.first_head == NONE:
            operator.first_head = kept
        else:
            tuples[operator.first_tail].next = kept
        operator.first_tail = kept
        pairs: float = weight * _pairs(tuples, operator.second_head, birth, reach)
        return pairs
    operator.first_head = _forget(clock, tuples, operator.first_head, max(birth - reach, stale))
    operator.second_head = _forget(clock, tuples, operator.second_head, stale)
    if operator.second_head == NONE:
        operator.second_head = kept
    else:
        tuples[operator.second_tail].next = kept
    operator.second_tail = kept
    pairs = weight * _pairs(tuples, operator.first_head, birth, reach)
    return pairs
