"""Lists of tuples: the free list, and the queue of a site, first come first served or oldest first.

Oldest first keeps the queue as a skew heap (Sleator and Tarjan 1986) threaded through the same records, so
that no site needs memory of its own.
"""

from __future__ import annotations

from numba import njit

from mooring.simulator.data_plane.kernels.records import INLINED, KERNEL, NONE, Records


@njit(**INLINED)
def take(clock: Records, tuples: Records) -> int:
    """A record from the free list; the caller has made sure that there is one."""
    node: int = clock.free
    clock.free = tuples[node].next
    clock.free_count -= 1
    return node


@njit(**INLINED)
def give_back(clock: Records, tuples: Records, node: int) -> None:
    tuples[node].next = clock.free
    clock.free = node
    clock.free_count += 1


@njit(**KERNEL)
def _merge(tuples: Records, a: int, b: int) -> int:
    root = NONE
    parent = NONE
    while a != NONE and b != NONE:
        first, second = tuples[a], tuples[b]
        if second.birth < first.birth or (second.birth == first.birth and second.sequence < first.sequence):
            a, b = b, a
        if parent == NONE:
            root = a
        else:
            tuples[parent].next = a
        rest = tuples[a].right
        tuples[a].right = tuples[a].next
        parent = a
        a = rest
    remainder = a if a != NONE else b
    if parent == NONE:
        return remainder
    tuples[parent].next = remainder
    return root


@njit(**INLINED)
def queue_put(site: Records, tuples: Records, node: int) -> None:
    tuples[node].next = NONE
    if site.oldest_first:
        tuples[node].right = NONE
        site.head = _merge(tuples, site.head, node)
    elif site.head == NONE:
        site.head = node
        site.tail = node
    else:
        tuples[site.tail].next = node
        site.tail = node


@njit(**INLINED)
def queue_take(site: Records, tuples: Records) -> int:
    """The next tuple to serve, or NONE."""
    node: int = site.head
    if node != NONE:
        if site.oldest_first:
            site.head = _merge(tuples, tuples[node].next, tuples[node].right)
        else:
            site.head = tuples[node].next
    return node
