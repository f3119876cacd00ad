"""The incremental bin packing of section 3.1, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from mooring.arrays import Bools, Floats, Ints

LEAST_GAIN = 1e-12
"""Relative: what lowers a maximum by less than this is rounding."""


@njit(cache=True)
def burdens_of(cycles: Floats, first: Ints, site_of: Ints, seconds_per_cycle: Floats, scope: Ints) -> Floats:
    """Per scope and site, the seconds that the scope's chunks there take. A negative site is none yet."""
    burden = np.zeros((scope.max() + 1, len(seconds_per_cycle)))
    for operator in range(len(scope)):
        for chunk in range(first[operator], first[operator + 1]):
            site = site_of[chunk]
            if site >= 0:
                burden[scope[operator], site] += cycles[chunk] * seconds_per_cycle[site]
    return burden


@njit(cache=True)
def _most_burdened_first(burden: Floats, allowed: Bools, order: Ints) -> int:
    """Sites of one operator in `order`, equal ones by number; returns how many."""
    count = 0
    for site in range(len(burden)):
        if allowed[site]:
            at = count
            while at > 0 and burden[order[at - 1]] < burden[site]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = site
            count += 1
    return count


@njit(cache=True)
def balance_round(
    cycles: Floats,
    first: Ints,
    site_of: Ints,
    seconds_per_cycle: Floats,
    allowed: Bools,
    scope: Ints,
    turn: Ints,
) -> int:
    """One round over all operators, in the order of `turn`; `site_of` changes in place. Returns the moves.

    The k-th most burdened site is paired with the k-th least burdened; from the first to the second goes the
    largest chunk of the operator that lowers the larger burden of the two.
    """
    burden = burdens_of(cycles, first, site_of, seconds_per_cycle, scope)
    order = np.empty(len(seconds_per_cycle), np.int64)
    moves = 0
    for operator in turn:
        mine = burden[scope[operator]]
        count = _most_burdened_first(mine, allowed[operator], order)
        for k in range(count // 2):
            high, low = order[k], order[count - 1 - k]
            limit = mine[high] * (1.0 - LEAST_GAIN)
            best = -1
            for chunk in range(first[operator], first[operator + 1]):
                work = cycles[chunk]
                if (
                    site_of[chunk] == high
                    and work > 0.0
                    and (best < 0 or work > cycles[best])
                    and mine[low] + work * seconds_per_cycle[low] < limit
                ):
                    best = chunk
            if best >= 0:
                site_of[best] = low
                mine[high] -= cycles[best] * seconds_per_cycle[high]
                mine[low] += cycles[best] * seconds_per_cycle[low]
                moves += 1
    return moves


@njit(cache=True)
def balance_until_settled(
    cycles: Floats,
    first: Ints,
    site_of: Ints,
    seconds_per_cycle: Floats,
    allowed: Bools,
    scope: Ints,
    turn: Ints,
    most_rounds: int,
) -> int:
    """Rounds until one moves nothing; returns how many moved something."""
    for done in range(most_rounds):
        if not balance_round(cycles, first, site_of, seconds_per_cycle, allowed, scope, turn):
            return done
    return most_rounds
