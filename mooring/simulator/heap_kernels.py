"""Pending events, as a four-way heap ordered by (time, key).

The heap never holds more than one event per source, arc and site (an arc's later tuples wait in its own
list), plus completions made stale by a capacity change, so it stays small however much is in flight.
"""

from __future__ import annotations

from numba import njit

from mooring.simulator.records import KERNEL, Records


@njit(**KERNEL)
def _before(time: float, key: int, other_time: float, other_key: int) -> bool:
    return time < other_time or (time == other_time and key < other_key)


@njit(**KERNEL)
def push(heap: Records, clock: Records, time: float, kind: int, subject: int) -> int:
    """Schedule an event and return its key."""
    clock.sequence += 1
    key: int = (kind << 56) | clock.sequence
    hole = clock.heap_size
    clock.heap_size += 1
    while hole > 0:
        parent = (hole - 1) >> 2
        if not _before(time, key, heap[parent].time, heap[parent].key):
            break
        heap[hole] = heap[parent]
        hole = parent
    slot = heap[hole]
    slot.time = time
    slot.key = key
    slot.kind = kind
    slot.subject = subject
    return key


@njit(**KERNEL)
def _settle(heap: Records, size: int, time: float, key: int, kind: int, subject: int) -> None:
    """Put an event in the hole at the top, moving earlier ones up."""
    hole = 0
    while True:
        first = (hole << 2) + 1
        if first >= size:
            break
        best = first
        best_time = heap[first].time
        best_key = heap[first].key
        for child in range(first + 1, min(first + 4, size)):
            child_time = heap[child].time
            if child_time < best_time or (child_time == best_time and heap[child].key < best_key):
                best = child
                best_time = child_time
                best_key = heap[child].key
        if not _before(best_time, best_key, time, key):
            break
        heap[hole] = heap[best]
        hole = best
    slot = heap[hole]
    slot.time = time
    slot.key = key
    slot.kind = kind
    slot.subject = subject


@njit(**KERNEL)
def replace_top(heap: Records, clock: Records, time: float, kind: int, subject: int) -> int:
    """Drop the earliest event and schedule another in one pass."""
    clock.sequence += 1
    key: int = (kind << 56) | clock.sequence
    _settle(heap, clock.heap_size, time, key, kind, subject)
    return key


@njit(**KERNEL)
def pop(heap: Records, clock: Records) -> None:
    """Drop the earliest event."""
    clock.heap_size -= 1
    size = clock.heap_size
    if size > 0:
        last = heap[size]
        _settle(heap, size, last.time, last.key, last.kind, last.subject)
