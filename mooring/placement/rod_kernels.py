"""The inner loops of ROD, over arrays only.

Everything is kept in parts of the whole: `q[i, k]` is the part of variable k's load that site i carries, and
`room[i]` the part of the capacity left that is site i's, so that the weights of the paper are q / room. Then
a candidate's plane distance is (room - q.B) / |q|, and adding a fragment with parts `p` changes |q|^2 by
2 q.p + |p|^2: only the fragment's own variables are touched, whatever the number of variables.

The columns of q are stored by how often they are touched. A variable that loads at least as many fragments as
there are sites gets a dense column, contiguous over the sites, so that the loops over sites vectorise; the
others get a list of (site, q) with room for each of their fragments. Memory is linear in the input.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# `class_one` in the kernel's terms.
BY_PLANE_DISTANCE = 0
BY_CROSSINGS = 1
AT_RANDOM = 2

NOT_ALLOWED = -1e300
# Rounding in sums of up to a million parts must not turn a site that is exactly full into an overloaded one.
SLACK = 1e-9

# `ninf` and `nnan` hold (the sentinels are finite); the others let the loops over sites vectorise.
FAST = {"nnan", "ninf", "nsz", "reassoc", "contract", "arcp"}


@njit(cache=True)
def row_squares(indptr: Ints, parts: Floats) -> Floats:
    """Squared norm of every row of parts."""
    result = np.zeros(len(indptr) - 1)
    for j in range(len(result)):
        for a in range(indptr[j], indptr[j + 1]):
            result[j] += parts[a] * parts[a]
    return result


@njit(cache=True)
def column_layout(counts: Ints, sites: int) -> tuple[Ints, Ints, int]:
    """Where each variable's column lives: a dense slot (or -1), and the start of its list, if it has one."""
    variables = len(counts)
    slot = np.full(variables, -1, np.int64)
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
def candidate_scores(
    squares: Floats,
    largest: Floats,
    margin: Floats,
    room: Floats,
    overdraft: Floats,
    cross: Floats,
    top: Floats,
    parts_square: float,
    parts_lower: float,
    fixed: float,
    score: Floats,
    class_one_score: Floats,
) -> tuple[float, float]:
    """Score every site as a candidate and return the best scores, in class I and overall.

    The score is the signed square of the plane distance: the same order without a square root.
    """
    best_one = NOT_ALLOWED
    best_any = NOT_ALLOWED
    for i in range(len(score)):
        left = room[i] - fixed
        distance = margin[i] - parts_lower - fixed
        norm = max(squares[i] + 2.0 * cross[i] + parts_square, 1e-290)
        value = distance * abs(distance) / norm
        value = value if left >= overdraft[i] else NOT_ALLOWED
        score[i] = value
        one = value if max(largest[i], top[i]) <= left + SLACK else NOT_ALLOWED
        class_one_score[i] = one
        best_one = max(best_one, one)
        best_any = max(best_any, value)
    return best_one, best_any


@njit(cache=True, fastmath=FAST)
def start_with(column: Floats, part: float, least: float, cross: Floats, top: Floats) -> None:
    for i in range(len(cross)):
        cross[i] = part * column[i]
        top[i] = max(least, column[i] + part)


@njit(cache=True)
def start_empty(least: float, cross: Floats, top: Floats) -> None:
    for i in range(len(cross)):
        cross[i] = 0.0
        top[i] = least


@njit(cache=True, fastmath=FAST)
def add_dense(column: Floats, part: float, cross: Floats, top: Floats) -> None:
    for i in range(len(cross)):
        cross[i] += part * column[i]
        top[i] = max(top[i], column[i] + part)


@njit(cache=True)
def first_at_least(values: Floats, bound: float) -> int:
    for i in range(len(values)):
        if values[i] >= bound:
            return i
    return -1


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
def most_connected(values: Floats, neighbours: Ints, fixed_ends: Ints, site_of: Ints, local: Ints) -> int:
    """Among the allowed sites the one with most arcs to what is placed there already; ties by score.

    `local` is scratch, zero on entry and on return.
    """
    for a in range(len(neighbours)):
        end = fixed_ends[a] if neighbours[a] < 0 else site_of[neighbours[a]]
        if end >= 0:
            local[end] += 1
    best = -1
    for i in range(len(values)):
        if values[i] <= NOT_ALLOWED:
            continue
        if best < 0 or local[i] > local[best] or (local[i] == local[best] and values[i] > values[best]):
            best = i
    for a in range(len(neighbours)):
        end = fixed_ends[a] if neighbours[a] < 0 else site_of[neighbours[a]]
        if end >= 0:
            local[end] = 0
    return best


@njit(cache=True)
def assign(
    order: Ints,
    indptr: Ints,
    indices: Ints,
    parts: Floats,
    fixed: Floats,
    memory_mb: Floats,
    pinned: Ints,
    room: Floats,
    memory_left_mb: Floats,
    lower: Floats,
    counts: Ints,
    class_one: int,
    draws: Floats,
    arc_start: Ints,
    arc_neighbour: Ints,
    arc_fixed_end: Ints,
) -> tuple[Ints, int]:
    """Phase 2 of Figure 10, fragment by fragment in `order`. `room` and `memory_left_mb` are used up.

    Returns the site of every fragment, and the fragment for which no site was allowed (-1: none).
    """
    sites = len(room)
    slot, start, dense_count = column_layout(counts, sites)
    dense = np.zeros((dense_count, sites))
    list_site = np.empty(start[-1], np.int64)
    list_part = np.empty(start[-1])
    length = np.zeros(len(counts), np.int64)
    squares = np.zeros(sites)
    largest = np.zeros(sites)
    margin = room.copy()
    overdraft = -SLACK * room
    cross = np.empty(sites)
    top = np.empty(sites)
    score = np.empty(sites)
    class_one_score = np.empty(sites)
    local = np.zeros(sites, np.int64)
    limited = np.isfinite(memory_left_mb).any()
    site_of = np.full(len(order), -1, np.int64)

    for j in order:
        parts_square = 0.0
        parts_lower = 0.0
        parts_top = 0.0
        for a in range(indptr[j], indptr[j + 1]):
            parts_square += parts[a] * parts[a]
            parts_lower += parts[a] * lower[indices[a]]
            parts_top = max(parts_top, parts[a])
        first = indptr[j]
        if first < indptr[j + 1] and slot[indices[first]] >= 0:
            start_with(dense[slot[indices[first]]], parts[first], parts_top, cross, top)
            first += 1
        else:
            start_empty(parts_top, cross, top)
        for a in range(first, indptr[j + 1]):
            k = indices[a]
            if slot[k] >= 0:
                add_dense(dense[slot[k]], parts[a], cross, top)
            else:
                for b in range(start[k], start[k] + length[k]):
                    i = list_site[b]
                    cross[i] += parts[a] * list_part[b]
                    top[i] = max(top[i], list_part[b] + parts[a])

        if pinned[j] >= 0:
            chosen = pinned[j]
            if room[chosen] - fixed[j] < overdraft[chosen] or memory_left_mb[chosen] < memory_mb[j]:
                return site_of, j
        else:
            best_one, best_any = candidate_scores(
                squares, largest, margin, room, overdraft, cross, top,
                parts_square, parts_lower, fixed[j], score, class_one_score,
            )  # fmt: skip
            if limited and memory_mb[j] > 0.0:
                best_one, best_any = NOT_ALLOWED, NOT_ALLOWED
                for i in range(sites):
                    if memory_left_mb[i] < memory_mb[j]:
                        score[i] = NOT_ALLOWED
                        class_one_score[i] = NOT_ALLOWED
                    best_one = max(best_one, class_one_score[i])
                    best_any = max(best_any, score[i])
            if best_any <= NOT_ALLOWED:
                return site_of, j
            if best_one <= NOT_ALLOWED:
                chosen = first_at_least(score, best_any)
            elif class_one == AT_RANDOM:
                chosen = nth_allowed(class_one_score, draws[j])
            elif class_one == BY_CROSSINGS:
                chosen = most_connected(
                    class_one_score,
                    arc_neighbour[arc_start[j] : arc_start[j + 1]],
                    arc_fixed_end[arc_start[j] : arc_start[j + 1]],
                    site_of,
                    local,
                )
            else:
                chosen = first_at_least(class_one_score, best_one)

        site_of[j] = chosen
        squares[chosen] += 2.0 * cross[chosen] + parts_square
        largest[chosen] = max(largest[chosen], top[chosen])
        room[chosen] -= fixed[j]
        margin[chosen] -= fixed[j] + parts_lower
        memory_left_mb[chosen] -= memory_mb[j]
        for a in range(indptr[j], indptr[j + 1]):
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
                list_part[b] = 0.0
                length[k] += 1
            list_part[b] += parts[a]
    return site_of, -1
