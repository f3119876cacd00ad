"""What comes next, and which chunk a site takes next: a tournament over slots, heaps of keys; compiled."""

from __future__ import annotations

from numba import njit

from mooring.arrays import Floats, Ints
from mooring.chunks.compiled import INLINED


@njit(**INLINED)
def set_due(due: Floats, winner: Ints, slot: int, time: float) -> None:
    """Give a slot its next event, and play its matches again; of equal times the lower slot wins."""
    due[slot] = time
    at = (len(due) + slot) >> 1
    while at >= 1:
        left, right = winner[2 * at], winner[2 * at + 1]
        winner[at] = right if due[right] < due[left] else left
        at >>= 1


@njit(**INLINED)
def push(heap: Ints, length: int, key: int) -> None:
    """Onto a heap of `length` keys."""
    at = length
    while at > 0 and heap[(at - 1) >> 1] > key:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = key


@njit(**INLINED)
def pop(heap: Ints, length: int) -> int:
    """The smallest of `length` keys, which is gone then."""
    first: int = heap[0]
    last, left = heap[length - 1], length - 1
    at, child = 0, 1
    while child < left:
        if child + 1 < left and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = last
    return first
