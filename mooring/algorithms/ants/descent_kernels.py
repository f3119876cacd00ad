"""Coordinate descent on the mean latency of all queries, and the way it starts, compiled.

Every candidate that matters is judged by the whole model, of which a move redoes what it changes
(`model/load/queued/kept_latency_kernels.py`); the site's totals (`rules.py`) tell which ones matter.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.cell_kernels import station_of
from mooring.arrays import Bools, Floats, Ints
from mooring.model.load.queued.kept_latency_kernels import (
    COST,
    ELSEWHERE,
    ENDLESS,
    EXCESS,
    KERNEL,
    OVERLOADED,
    move,
)
from mooring.model.load.queued.latency_kernels import evaluate
from mooring.model.load.queued.way_kernels import between_s, row_s

OVERLOADED_S = 1e6
"""Beyond any latency: how much too much there is counts first."""
SLACK = 1e-9
LEAST_GAIN = 1e-9
"""Of the mean latency: moves that save less are not made."""
LOOKS_AGAIN = 16
"""Sites after which it is computed anew whether any further one could still be cheaper."""
WEIGHT, FIXED, MEMORY = 5, 6, 7
"""Columns of a site's totals."""


class FragmentFlows(NamedTuple):
    """What descent needs of every fragment beside the template of arcs."""

    pinned: Ints
    memory_mb: Floats
    memory_limit_mb: Floats
    flow: Floats
    """Totals of its own flows, as `rules` has them."""
    start: Ints
    """Its neighbours are start[f]:start[f + 1]."""
    neighbour: Ints
    """A fragment, or ~site."""
    weight: Floats
    """Of the way there, in the mean latency."""
    path: Floats
    """Core-seconds until a result is there, times its weight."""


class Allowed(NamedTuple):
    """Where fragments may go, beside pins."""

    chain_of: Ints
    """Per fragment; -1: of none."""
    seen: Bools
    """Chain x site; of no rows: everywhere."""


class Chains(NamedTuple):
    """All chains one after another."""

    task_start: Ints
    tasks: Floats
    fragment: Ints
    start_site: Ints
    start_fragment: Ints
    end_site: Ints
    end_fragment: Ints
    end_weight: Floats


@njit(cache=True)
def objective(t, sites, query_s, wait_s, utilisation) -> float:  # type: ignore[no-untyped-def]
    """Mean latency of all queries in seconds; where something is overloaded, more than any."""
    evaluate(t, sites, query_s, wait_s, utilisation)
    too_much, total = 0.0, 0.0
    for s in range(len(utilisation)):
        if not utilisation[s] < 1.0:
            too_much += min(utilisation[s] - 1.0, 1e6)
    for q in range(len(query_s)):
        total += query_s[q]
    if too_much > 0.0 or not total < math.inf:
        return float(OVERLOADED_S * (1.0 + too_much))
    return float(total / max(len(query_s), 1))


@njit(**KERNEL)
def wait_with(totals, capacity, flow, fixed):  # type: ignore[no-untyped-def]
    """Wait at a site before and after a flow is added to its totals, its utilisation after, and how
    irregularly messages leave then."""
    before = station_of(capacity, totals[0], totals[1], totals[2], totals[3], totals[4], totals[FIXED])
    after = station_of(
        capacity,
        totals[0] + flow[0],
        totals[1] + flow[1],
        totals[2] + flow[2],
        totals[3] + flow[3],
        totals[4] + flow[4],
        totals[FIXED] + fixed,
    )
    return before[1], after[1], after[0], after[2]


@njit(**KERNEL)
def _add_fragment(t, f, totals, j, s, sign):  # type: ignore[no-untyped-def]
    for column in range(6):
        totals[s, column] += sign * f.flow[j, column]
    totals[s, FIXED] += sign * t.fixed_cores[j]
    totals[s, MEMORY] += sign * f.memory_mb[j]


@njit(cache=True)
def site_totals(t, f, sites):  # type: ignore[no-untyped-def]
    """Of the fragments that have a site."""
    totals = np.zeros((len(t.capacity_cores), 8))
    for j in range(len(sites)):
        if sites[j] >= 0:
            _add_fragment(t, f, totals, j, sites[j], 1.0)
    return totals


@njit(**KERNEL)
def _fits(t, f, totals, j, s) -> bool:  # type: ignore[no-untyped-def]
    """By fixed load and memory; `j` is counted at no site."""
    if totals[s, FIXED] + t.fixed_cores[j] > t.capacity_cores[s] * (1.0 + SLACK):
        return False
    return bool(totals[s, MEMORY] + f.memory_mb[j] <= f.memory_limit_mb[s] * (1.0 + SLACK))


@njit(**KERNEL)
def _estimate(t, f, totals, sites, j, s) -> float:  # type: ignore[no-untyped-def]
    """What fragment j would cost at site s, roughly: its ways, its work, its wait and that of the others."""
    cost, enters = 0.0, 1.0
    for n in range(f.start[j], f.start[j + 1]):
        other = ~f.neighbour[n] if f.neighbour[n] < 0 else sites[f.neighbour[n]]
        cost += f.weight[n] * between_s(t.ways, other, s) if other >= 0 else 0.0
        if other == s and f.neighbour[n] >= 0:
            enters = 0.0
    was, now, used, _ = wait_with(totals[s], t.capacity_cores[s], f.flow[j], t.fixed_cores[j])
    if not used < 1.0:
        return float(OVERLOADED_S * min(used, 1e6) + cost)
    speed = t.capacity_cores[s] - totals[s, FIXED] - t.fixed_cores[j]
    return float(
        cost + f.path[j] / speed + enters * f.flow[j, WEIGHT] * now + totals[s, WEIGHT] * (now - was)
    )


@njit(**KERNEL)
def objective_of(k) -> float:  # type: ignore[no-untyped-def]
    """The same of a placement that is kept while fragments move."""
    if k.counts[OVERLOADED] > 0:
        return float(OVERLOADED_S * (1.0 + k.sums[EXCESS]))
    if k.counts[ENDLESS] > 0:
        return OVERLOADED_S
    return float(k.sums[COST] + k.sums[ELSEWHERE])


@njit(**KERNEL)
def _best_estimates(t, f, sites, totals, allowed, j, promising, estimates) -> int:  # type: ignore[no-untyped-def]
    """Fill in the sites where fragment j, which is counted at none, would cost least; their number."""
    found, pinned = 0, f.pinned[j]
    for s in range(len(t.capacity_cores)):
        if s == sites[j] or (pinned >= 0 and s != pinned):
            continue
        if len(allowed.seen) > 0 and not allowed.seen[allowed.chain_of[j], s]:
            continue
        if not _fits(t, f, totals, j, s):
            continue
        estimate = _estimate(t, f, totals, sites, j, s)
        if (found == len(promising) and not estimate < estimates[found - 1]) or not estimate < math.inf:
            continue
        found = min(found + 1, len(promising))
        at = found - 1
        while at > 0 and estimate < estimates[at - 1]:
            promising[at], estimates[at] = promising[at - 1], estimates[at - 1]
            at -= 1
        promising[at], estimates[at] = s, estimate
    return found


@njit(**KERNEL)
def descend(t, f, k, totals, order, allowed, promising, estimates, home, most_moves) -> bool:  # type: ignore[no-untyped-def]
    """Each fragment of `order` in turn to the site where the mean latency is least; whether any has moved.

    promising, estimates: scratch, as long as the number of sites that are
    looked at, the most promising by estimate. At most most_moves fragments are not at home in the end.
    """
    away = 0
    for j in range(len(home)):
        away += k.sites[j] != home[j]
    changed = False
    for j in order:
        here = k.sites[j]
        if here == home[j] and away >= most_moves:
            continue
        _add_fragment(t, f, totals, j, here, -1.0)
        found = _best_estimates(t, f, k.sites, totals, allowed, j, promising, estimates)
        best, chosen = objective_of(k), here
        for n in range(found):
            move(t, k, j, promising[n])
            cost = objective_of(k)
            if cost < best * (1.0 - LEAST_GAIN):
                best, chosen, changed = cost, promising[n], True
        move(t, k, j, chosen)
        away += int(chosen != home[j]) - int(here != home[j])
        _add_fragment(t, f, totals, j, chosen, 1.0)
    return changed


@njit(cache=True)
def _task_costs(t, c, f, totals, k):  # type: ignore[no-untyped-def]
    """Per site what task k costs there if messages enter with it, and if they come from a task before it."""
    count, j = len(t.capacity_cores), c.fragment[k]
    entering, staying = np.full(count, math.inf), np.full(count, math.inf)
    flow, own = f.flow[j], c.tasks[k, rules.WEIGHT]
    for s in range(count):
        if not _fits(t, f, totals, j, s):
            continue
        was, now, used, _ = wait_with(totals[s], t.capacity_cores[s], flow, t.fixed_cores[j])
        if not used < 1.0:
            entering[s] = staying[s] = OVERLOADED_S * min(used, 1e6)
            continue
        work_s = c.tasks[k, rules.PATH] / (t.capacity_cores[s] - totals[s, FIXED] - t.fixed_cores[j])
        staying[s] = own * work_s + totals[s, WEIGHT] * (now - was)
        entering[s] = staying[s] + own * now
    return entering, staying


@njit(cache=True)
def shortest_ways(t, c, f, totals, sites, chains, one_by_one):  # type: ignore[no-untyped-def]
    """Place chain after chain on the way with the least latency, given those before; totals and sites change
    in place.

    Where a whole chain finds no room that way, or where time is short, its tasks are placed one by one.
    Returns -1, or the chain for which there is no room at all.
    """
    for n in chains:
        first, last = c.task_start[n], c.task_start[n + 1]
        if (
            not one_by_one
            and _shortest_way(t, c, f, totals, sites, n, first, last)
            and _has_room(t, c, f, totals, sites, first, last)
        ):
            continue
        for k in range(first, last):
            if sites[c.fragment[k]] >= 0:
                _add_fragment(t, f, totals, c.fragment[k], sites[c.fragment[k]], -1.0)
                sites[c.fragment[k]] = -1
        for k in range(first, last):
            if not _shortest_way(t, c, f, totals, sites, n, k, k + 1):
                return n
    return -1


@njit(cache=True)
def emptiest_sites(t, f, totals, sites) -> int:  # type: ignore[no-untyped-def]
    """Every fragment that has no site goes where the least is used; returns -1, or one that fits nowhere."""
    for j in range(len(sites)):
        if sites[j] >= 0:
            continue
        best, least = -1, math.inf
        for s in range(len(t.capacity_cores)):
            used = (totals[s, 1] + totals[s, FIXED]) / t.capacity_cores[s]
            if used < least and _fits(t, f, totals, j, s):
                best, least = s, used
        if best < 0:
            return j
        sites[j] = best
        _add_fragment(t, f, totals, j, best, 1.0)
    return -1


@njit(cache=True)
def _has_room(t, c, f, totals, sites, first, last) -> bool:  # type: ignore[no-untyped-def]
    for k in range(first, last):
        s = sites[c.fragment[k]]
        if totals[s, FIXED] + totals[s, 1] > t.capacity_cores[s]:
            return False
        if totals[s, MEMORY] > f.memory_limit_mb[s] * (1.0 + SLACK):
            return False
    return True


@njit(cache=True)
def _shortest_way(t, c, f, totals, sites, n, first, last) -> bool:  # type: ignore[no-untyped-def]
    """Some tasks of chain n, by Viterbi's algorithm over their sites; false where there is no room. A message
    waits where it enters a site, not where it stays."""
    site_count = len(t.capacity_cores)
    came, cost = np.zeros((last - first, site_count), np.int64), np.empty(site_count)
    start, is_fragment = c.start_site[n], c.start_fragment[n] >= 0
    if is_fragment:
        start = sites[c.start_fragment[n]]
    if first > c.task_start[n]:
        start, is_fragment = sites[c.fragment[first - 1]], True
    for k in range(first, last):
        entering, staying = _task_costs(t, c, f, totals, k)
        _relax(t, c, k, k == first, start, is_fragment, entering, staying, cost, came[k - first])
    end = sites[c.end_fragment[n]] if c.end_fragment[n] >= 0 else c.end_site[n]
    for s in range(site_count):
        if end >= 0:
            cost[s] += c.end_weight[n] * between_s(t.ways, s, end)
    at = np.argmin(cost)
    if not cost[at] < math.inf:
        return False
    for k in range(last - 1, first - 1, -1):
        sites[c.fragment[k]] = at
        at = came[k - first, at]
    for k in range(first, last):
        _add_fragment(t, f, totals, c.fragment[k], sites[c.fragment[k]], 1.0)
    return True


@njit(cache=True)
def _relax(t, c, k, is_first, start, is_fragment, entering, staying, cost, came):  # type: ignore[no-untyped-def]
    """One task further: cost becomes that of the best way to every site.

    From the cheapest sites before it on, until none can still be cheaper with no way at all; a row of
    latencies at a time, which lies together in memory. Of equals, staying comes first, then the site of least
    number.
    """
    count, own = len(entering), c.tasks[k, rules.WEIGHT]
    if is_first:
        for s in range(count):
            here = start == s and is_fragment
            straight_s = between_s(t.ways, start, s) if start >= 0 else 0.0
            cost[s] = staying[s] if here else own * straight_s + entering[s]
        return
    before, way_s = cost.copy(), np.empty(count)
    moves = np.zeros(count, np.bool_)
    for s in range(count):
        cost[s], came[s] = before[s] + staying[s], s
    most = math.inf
    for n, p in enumerate(np.argsort(before, kind="mergesort")):
        if n % LOOKS_AGAIN == 1:
            most = -math.inf
            for s in range(count):
                if entering[s] < math.inf:
                    most = max(most, cost[s] - entering[s])
        if before[p] > most or not before[p] < math.inf:
            return
        row_s(t.ways, p, way_s)
        for s in range(count):
            through = before[p] + own * way_s[s] + entering[s]
            if through < cost[s] or (moves[s] and through == cost[s] and p < came[s]):
                cost[s], came[s], moves[s] = through, p, True
