"""Earliest finish, compiled: when a frame is scattered, each chunk goes where it will be done first.

It is list scheduling in the order of decreasing work (Graham 1969), on unlike machines and with chunks that
arrive one after the other. What a site will take before them counts; the caller says when a core will be
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
    ahead_s: Floats,
    core_first: Ints,
    cycles_per_s: Floats,
    allowed: Bools,
) -> int:
    """The site for a chunk.

    `ahead_s` says per core when it will be through with all that goes before the chunk, and grows by it;
    `cycles_per_s` is what a core of each site has left.
    """
    best_site, best_core, best_s = -1, -1, np.inf
    for site in range(len(cycles_per_s)):
        if not allowed[site]:
            continue
        core = core_first[site]
        for other in range(core_first[site] + 1, core_first[site + 1]):
            if ahead_s[other] < ahead_s[core]:
                core = other
        done_s = max(arrive_s, ahead_s[core]) + cycles / cycles_per_s[site]
        if done_s < best_s:
            best_site, best_core, best_s = site, core, done_s
    ahead_s[best_core] = best_s
    return best_site
