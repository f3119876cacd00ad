"""Earliest finish, compiled: when a frame is scattered, each chunk goes where it will be done first.

It is list scheduling in the order of decreasing work (Graham 1969), on unlike machines and with chunks that
arrive one after the other. What sites have been given before counts; the caller says when a core will be
through with that.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mooring.arrays import Bools, Floats, Ints
from mooring.chunks.compiled import KERNEL


@njit(**KERNEL)
def largest_first(cycles: Floats, first: int, last: int, order: Ints) -> None:
    """Put the chunks from `first` to `last` into `order`, at the same places; equal ones by number."""
    for chunk in range(first, last):
        at = chunk
        while at > first and cycles[order[at - 1]] < cycles[chunk]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = chunk


@njit(**KERNEL)
def dispatch_chunk(
    cycles: float,
    arrive_s: float,
    free_s: Floats,
    core_first: Ints,
    cycles_per_s: Floats,
    late_s: Floats,
    allowed: Bools,
) -> tuple[int, float]:
    """The site for a chunk, and when it will be done there as reckoned.

    `free_s` says per core when it will be through with all that it was given, and grows by the chunk;
    `cycles_per_s` is what a core of each site has left; `late_s` by how much each site is behind what was
    reckoned.
    """
    best_site, best_core, best_s, reckoned_s = -1, -1, np.inf, np.inf
    for site in range(len(cycles_per_s)):
        if not allowed[site]:
            continue
        core = core_first[site]
        for other in range(core_first[site] + 1, core_first[site + 1]):
            if free_s[other] < free_s[core]:
                core = other
        own_s = max(arrive_s - late_s[site], free_s[core]) + cycles / cycles_per_s[site]
        if own_s + late_s[site] < best_s:
            best_site, best_core, best_s, reckoned_s = site, core, own_s + late_s[site], own_s
    free_s[best_core] = reckoned_s
    return best_site, reckoned_s
