"""Taking an operator off its site while the run stands still."""

from __future__ import annotations

from numba import njit

from mooring.simulator.data_plane.kernels.queue_kernels import give_back, queue_put, queue_take
from mooring.simulator.data_plane.kernels.records import KERNEL, NONE, Records, World


@njit(**KERNEL)
def _append(tuples: Records, operator: Records, node: int) -> None:
    tuples[node].next = NONE
    if operator.held_head == NONE:
        operator.held_head = node
    else:
        tuples[operator.held_tail].next = node
    operator.held_tail = node


@njit(**KERNEL)
def withdraw(w: World, operator_id: int) -> float:
    """Hold an operator: what it has not begun goes back to its channel, in order; return how many tuples.

    A tuple that is already in service is finished where it is.
    """
    clock = w.clock[0]
    operator = w.operators[operator_id]
    operator.held = 1
    site = w.sites[operator.site]
    site.area += (clock.now - site.changed) * site.length
    site.changed = clock.now
    withdrawn: float = 0.0
    kept = NONE
    kept_tail = NONE
    node = queue_take(site, w.tuples)
    while node != NONE:
        if w.arcs[w.tuples[node].arc].operator == operator_id:
            withdrawn += w.tuples[node].weight
            _append(w.tuples, operator, node)
        else:
            w.tuples[node].next = NONE
            if kept == NONE:
                kept = node
            else:
                w.tuples[kept_tail].next = node
            kept_tail = node
        node = queue_take(site, w.tuples)
    while kept != NONE:
        following = w.tuples[kept].next
        queue_put(site, w.tuples, kept)
        kept = following
    site.length -= withdrawn
    return withdrawn


@njit(**KERNEL)
def discard_held(w: World, operator_id: int) -> None:
    """Forget what waits in a held operator's channel."""
    clock = w.clock[0]
    operator = w.operators[operator_id]
    node = operator.held_head
    operator.held_head = NONE
    while node != NONE:
        following = w.tuples[node].next
        give_back(clock, w.tuples, node)
        node = following
