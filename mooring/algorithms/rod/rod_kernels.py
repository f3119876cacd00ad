"""The inner loops of ROD, over arrays only.

Everything is kept in parts of the whole: `q[i, k]` is the part of variable k's load that site i carries, and
`room[i]` the part of the capacity left that is site i's, so that the weights of the paper are q / room. Then
a candidate's plane distance is (room - q.B) / |q|, and adding a fragment with parts `p` changes |q|^2 by 2
q.p + |p|^2: only the fragment's own variables are touched, among any number of variables.

The columns of q are stored by how often they are touched. A variable that loads at least as many fragments as
there are sites gets a dense column, contiguous over the sites, so that the loops over sites vectorise; the
others get a list of (site, q) with room for each of their fragments. Memory is linear in the input.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mooring.arrays import Floats, Ints
from mooring.model.placement.fast_math import FAST
from mooring.model.placement.site_limits import SLACK

# `class_one` in the kernel's terms.
BY_PLANE_DISTANCE = 0
BY_CROSSINGS = 1
AT_RANDOM = 2

NOT_ALLOWED = -1e300


@njit(cache=True)
def row_squares(indptr: Ints, parts: Floats) -> Floats:
    """Squared norm of every row of parts."""
    result = np.zeros(len(indptr) - 1)
    for j in range(len(result)):
        for a in range(indptr[j], indptr[j + 1]):
            result[j] += parts[a] * parts[a]
    return result


class Fragments(NamedTuple):
    """What is to be placed: sparse rows of parts, and hard demands."""

    indptr: Ints
    indices: Ints
    parts: Floats
    fixed: Floats
    memory_mb: Floats
    pinned: Ints


class Arcs(NamedTuple):
    """See `adjacency`."""

    start: Ints
    neighbour: Ints
    fixed_end: Ints


# Arrays, not tuples of them, are passed from here on: taking an array out of a tuple counts references, which
# costs more than the work on it when there are few sites.


@njit(cache=True)
def column_layout(counts: Ints, sites: int) -> tuple[Ints, Ints, int]:
    """Where each variable's column lives: a dense row (or -1), and the start of its list, if it has one."""
    variables = len(counts)
    slot = np.zeros(variables, np.int64) - 1
    start = np.zeros(variables + 1, np.int64)
    dense = 0
    for k in range(variables):
        start[k + 1] = start[k]
        if counts[k] >= sites:
            slot[k] = dense
            dense += 1
        else:
            start[k + 1] += counts[k]
    return slot, start, dense


@njit(cache=True, fastmath=FAST)
def score_candidates(
    squares: Floats,
    largest: Floats,
    margin: Floats,
    room: Floats,
    overdraft: Floats,
    cross: Floats,
    top: Floats,
    square: float,
    lower: float,
    fixed: float,
    score: Floats,
    class_one_score: Floats,
) -> None:
    """Score every site as a candidate, overall and in class I.

    The score is the signed square of the plane distance: the same order without a square root.
    """
    for i in range(len(score)):
        left = room[i] - fixed
        distance = margin[i] - lower - fixed
        norm = max(squares[i] + 2.0 * cross[i] + square, 1e-290)
        value = distance * abs(distance) / norm
        value = value if left >= overdraft[i] else NOT_ALLOWED
        score[i] = value
        class_one_score[i] = value if max(largest[i], top[i]) <= left + SLACK else NOT_ALLOWED


@njit(cache=True, fastmath=FAST)
def score_single(
    squares: Floats,
    largest: Floats,
    margin: Floats,
    room: Floats,
    overdraft: Floats,
    dense: Floats,
    row: int,
    part: float,
    lower: float,
    fixed: float,
    score: Floats,
    class_one_score: Floats,
) -> None:
    """The same for a fragment of one variable, straight from its column: the loop that large inputs spend
    their time in."""
    for i in range(len(score)):
        left = room[i] - fixed
        distance = margin[i] - lower - fixed
        norm = max(squares[i] + part * (2.0 * dense[row, i] + part), 1e-290)
        value = distance * abs(distance) / norm
        value = value if left >= overdraft[i] else NOT_ALLOWED
        score[i] = value
        class_one_score[i] = value if max(largest[i], dense[row, i] + part) <= left + SLACK else NOT_ALLOWED


@njit(cache=True, fastmath=FAST)
def add_dense(dense: Floats, row: int, part: float, cross: Floats, top: Floats) -> None:
    for i in range(len(cross)):
        cross[i] += part * dense[row, i]
        top[i] = max(top[i], dense[row, i] + part)


@njit(cache=True)
def start_empty(least: float, cross: Floats, top: Floats) -> None:
    for i in range(len(cross)):
        cross[i] = 0.0
        top[i] = least


@njit(cache=True)
def first_largest(values: Floats) -> int:
    """The first site with the largest value; -1 when none is allowed.

    Eight at a time, since a running maximum waits for itself at every step and does not vectorise.
    """
    best = NOT_ALLOWED
    at = -1
    whole = len(values) - len(values) % 8
    for s in range(0, whole, 8):
        left = max(max(values[s], values[s + 1]), max(values[s + 2], values[s + 3]))
        right = max(max(values[s + 4], values[s + 5]), max(values[s + 6], values[s + 7]))
        if max(left, right) > best:
            best = max(left, right)
            at = s
    for i in range(whole, len(values)):
        if values[i] > best:
            best = values[i]
            at = i
    if at >= 0:
        while values[at] < best:
            at += 1
    return at


@njit(cache=True)
def nth_allowed(values: Floats, draw: float) -> int:
    """The site that a uniform draw in [0, 1) picks among those allowed."""
    count = 0
    for value in values:
        count += value > NOT_ALLOWED
    wanted = min(int(draw * count), count - 1)
    for i in range(len(values)):
        if values[i] > NOT_ALLOWED:
            if wanted == 0:
                return i
            wanted -= 1
    return -1


@njit(cache=True)
def most_connected(
    values: Floats, j: int, start: Ints, neighbour: Ints, fixed_end: Ints, site_of: Ints, local: Ints
) -> int:
    """Among the allowed sites the one with most arcs to what is placed there already; ties by score.

    `local` is scratch, zero on entry and on return.
    """
    for a in range(start[j], start[j + 1]):
        end = fixed_end[a] if neighbour[a] < 0 else site_of[neighbour[a]]
        if end >= 0:
            local[end] += 1
    best = -1
    for i in range(len(values)):
        if values[i] <= NOT_ALLOWED:
            continue
        if best < 0 or local[i] > local[best] or (local[i] == local[best] and values[i] > values[best]):
            best = i
    for i in range(len(local)):
        local[i] = 0
    return best


@njit(cache=True)
def forbid_where_memory_lacks(
    memory_left_mb: Floats, memory_mb: float, score: Floats, class_one_score: Floats
) -> None:
    for i in range(len(score)):
        if memory_left_mb[i] < memory_mb:
            score[i] = NOT_ALLOWED
            class_one_score[i] = NOT_ALLOWED


@njit(cache=True)
def assign(
    order: Ints,
    fragments: Fragments,
    room: Floats,
    memory_left_mb: Floats,
    lower: Floats,
    counts: Ints,
    class_one: int,
    draws: Floats,
    arcs: Arcs,
) -> tuple[Ints, int]:
    """Phase 2 of Figure 10, fragment by fragment in `order`. `room` and `memory_left_mb` are used up.

    Returns the site of every fragment, and the fragment for which no site was allowed (-1: none).
    """
    indptr, indices, parts, fixed, memory_mb, pinned = fragments
    arc_start, arc_neighbour, arc_fixed_end = arcs
    sites = len(room)
    slot, start, no_column = column_layout(counts, sites)
    dense = np.zeros((no_column + 1, sites))  # the last row stays zero, for variables that nobody has yet
    length = np.zeros(len(counts), np.int64)
    list_site = np.zeros(start[-1], np.int64)
    list_part = np.zeros(start[-1])
    squares, largest, margin, overdraft = np.zeros(sites), np.zeros(sites), room.copy(), -SLACK * room
    cross, top, score, class_one_score = np.zeros(sites), np.zeros(sites), np.zeros(sites), np.zeros(sites)
    local = np.zeros(sites, np.int64)
    site_of = np.zeros(len(order), np.int64) - 1

    for j in order:
        first, stop = indptr[j], indptr[j + 1]
        square = 0.0
        at_lower = 0.0
        largest_part = 0.0
        for a in range(first, stop):
            square += parts[a] * parts[a]
            at_lower += parts[a] * lower[indices[a]]
            largest_part = max(largest_part, parts[a])
        k = indices[first] if stop == first + 1 else -1
        single = k >= 0 and pinned[j] < 0 and (slot[k] >= 0 or length[k] == 0)
        row = slot[k] if single and slot[k] >= 0 else no_column
        if single:
            score_single(
                squares, largest, margin, room, overdraft, dense, row,
                parts[first], at_lower, fixed[j], score, class_one_score,
            )  # fmt: skip
        else:
            start_empty(largest_part, cross, top)
            for a in range(first, stop):
                k = indices[a]
                if slot[k] >= 0:
                    add_dense(dense, slot[k], parts[a], cross, top)
                    continue
                for b in range(start[k], start[k] + length[k]):
                    i = list_site[b]
                    cross[i] += parts[a] * list_part[b]
                    top[i] = max(top[i], list_part[b] + parts[a])
            score_candidates(
                squares, largest, margin, room, overdraft, cross, top,
                square, at_lower, fixed[j], score, class_one_score,
            )  # fmt: skip
        if memory_mb[j] > 0.0:
            forbid_where_memory_lacks(memory_left_mb, memory_mb[j] * (1.0 - SLACK), score, class_one_score)

        if pinned[j] >= 0:
            chosen = pinned[j] if score[pinned[j]] > NOT_ALLOWED else -1
        else:
            chosen = first_largest(class_one_score)
            if chosen < 0:
                chosen = first_largest(score)
            elif class_one == AT_RANDOM:
                chosen = nth_allowed(class_one_score, draws[j])
            elif class_one == BY_CROSSINGS:
                chosen = most_connected(
                    class_one_score, j, arc_start, arc_neighbour, arc_fixed_end, site_of, local
                )
        if chosen < 0:
            return site_of, j

        if single:
            cross[chosen] = parts[first] * dense[row, chosen]
            top[chosen] = parts[first] + dense[row, chosen]
        site_of[j] = chosen
        squares[chosen] += 2.0 * cross[chosen] + square
        largest[chosen] = max(largest[chosen], top[chosen])
        room[chosen] -= fixed[j]
        margin[chosen] -= fixed[j] + at_lower
        memory_left_mb[chosen] -= memory_mb[j]
        for a in range(first, stop):
            k = indices[a]
            if slot[k] >= 0:
                dense[slot[k], chosen] += parts[a]
                continue
            b = start[k]
            end = start[k] + length[k]
            while b < end and list_site[b] != chosen:
                b += 1
            if b == end:
                list_site[b] = chosen
                length[k] += 1
            list_part[b] += parts[a]
    return site_of, -1
