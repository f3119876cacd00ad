"""How far a placement is from keeping its rules, kept up to date while fragments move, over arrays only.

A move touches two sites. So what it changes costs the planes of two sites, the groups of one fragment, the
readers of the nodes beside it, and, where queries have limits, one pass over the graph. A move that is
refused is made backwards: there is one piece of arithmetic, and no second one that has to agree with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mooring.arrays import Bools, Floats, Ints, Words
from mooring.model.placement.copy_kernels import copy
from mooring.model.placement.random_kernels import random_index, random_unit

PLANES, GROUPS, LINKS, LATE, USAGE = range(5)
"""Sums that are kept: what is beyond each kind of rule, and the flow in flight."""
ANYWHERE = -(2**40)
"""The owner of a node that is everywhere."""
ENOUGH = 1e-9
"""Violations that differ by less are the same: rounding."""


class RuleArrays(NamedTuple):
    """What does not change while fragments move. An end is a fragment, or ~site."""

    demand: Floats
    """Fragments, then arcs that cost CPU when they cross (both ends): rows x planes."""
    capacity: Floats
    """Sites x planes; infinite where not limited."""
    weight: Floats
    """Per plane, of one unit beyond the capacity."""
    arc_start: Ints
    """Of such arcs, by fragment."""
    arc_of: Ints
    arc_ends: Ints
    kind: Ints
    """Per fragment, its row of `allowed`."""
    allowed: Bools
    """Kinds x sites."""
    group_start: Ints
    """Of the groups that a fragment belongs to."""
    group_of: Ints
    group_side: Ints
    isolates: Bools
    """Per group: no site has members of both sides; else no site has two members."""
    group_weight: float
    owner: Ints
    """Per node, its end; `ANYWHERE` where it is everywhere."""
    flow: Floats
    """Out of each node per second."""
    read_start: Ints
    """Readers by node, those of one operator beside each other."""
    reader: Ints
    """The end of each."""
    reader_of: Ints
    """The operator or query that it is an instance of."""
    reader_share: Floats
    beside_start: Ints
    """Per fragment, the nodes whose flows it changes when it moves."""
    beside: Ints
    latency: Floats
    """Sites x sites, ms; empty where neither flows nor limits count."""
    bandwidth: Floats
    """Sites x sites; empty where no link is limited."""
    link_weight: float
    hop_from: Ints
    """Arcs between nodes in an order in which producers come first."""
    hop_to: Ints
    hop_ms: Floats
    """Of the channel on the arc."""
    end_node: Ints
    """What queries read."""
    end_query: Ints
    query_site: Ints
    limit: Floats
    """Per query, ms; infinite where it has none."""
    limit_weight: Floats


class HeldRules(NamedTuple):
    """Of one placement, kept up to date."""

    sites: Ints
    used: Floats
    """Sites x planes."""
    members: Ints
    """Groups x sites x 2."""
    links: Floats
    """Flow between sites, where any link is limited."""
    sums: Floats
    part: Floats
    """Scratch, per site; zero between calls."""
    instance: Floats
    reached: Floats
    """Scratch, per node."""
    query_ms: Floats


@njit(cache=True)
def violation(held) -> float:  # type: ignore[no-untyped-def]
    s = held.sums
    return float(s[PLANES] + s[GROUPS] + s[LINKS] + s[LATE])


@njit(cache=True)
def _beyond(rules, held, site) -> float:  # type: ignore[no-untyped-def]
    total = 0.0
    for p in range(len(rules.weight)):
        over = held.used[site, p] - rules.capacity[site, p]
        if over > 0.0:
            total += over * rules.weight[p]
    return total


@njit(cache=True)
def _add(rules, held, row, site, sign) -> None:  # type: ignore[no-untyped-def]
    for p in range(len(rules.weight)):
        held.used[site, p] += sign * rules.demand[row, p]


@njit(cache=True)
def _crowd(rules, held, group, site) -> float:  # type: ignore[no-untyped-def]
    if site >= rules.allowed.shape[1]:  # what has no site yet
        return 0.0
    first, second = held.members[group, site, 0], held.members[group, site, 1]
    if rules.isolates[group]:
        return float(min(first, second))
    return float(max(first - 1, 0))


@njit(cache=True)
def _count(rules, held, f, site, change) -> None:  # type: ignore[no-untyped-def]
    for n in range(rules.group_start[f], rules.group_start[f + 1]):
        group = rules.group_of[n]
        before = _crowd(rules, held, group, site)
        held.members[group, site, rules.group_side[n]] += change
        held.sums[GROUPS] += (_crowd(rules, held, group, site) - before) * rules.group_weight


@njit(cache=True)
def _end(sites, end) -> int:  # type: ignore[no-untyped-def]
    return int(sites[end] if end >= 0 else ~end)


@njit(cache=True)
def _add_node(rules, held, node, sign) -> None:  # type: ignore[no-untyped-def]
    """What flows out of a node: once to every site that reads it, as much as the most that one reader takes
    there."""
    if rules.owner[node] == ANYWHERE or rules.flow[node] == 0.0:
        return
    source = _end(held.sites, rules.owner[node])
    begin, end = rules.read_start[node], rules.read_start[node + 1]
    n = begin
    while n < end:
        same = n
        while same < end and rules.reader_of[same] == rules.reader_of[n]:
            at = _end(held.sites, rules.reader[same])
            held.instance[at] += rules.reader_share[same]
            held.part[at] = max(held.part[at], min(held.instance[at], 1.0))
            same += 1
        for back in range(n, same):
            held.instance[_end(held.sites, rules.reader[back])] = 0.0
        n = same
    limited = rules.bandwidth.shape[0] > 0
    for n in range(begin, end):
        at = _end(held.sites, rules.reader[n])
        flow = rules.flow[node] * held.part[at]
        held.part[at] = 0.0
        if at == source or flow == 0.0:
            continue
        held.sums[USAGE] += sign * flow * rules.latency[source, at] / 1e3
        if limited and rules.bandwidth[source, at] < np.inf:
            most = rules.bandwidth[source, at]
            before = max(held.links[source, at] - most, 0.0)
            held.links[source, at] += sign * flow
            after = max(held.links[source, at] - most, 0.0)
            held.sums[LINKS] += (after - before) / most * rules.link_weight


@njit(cache=True)
def set_latencies(rules, held) -> None:  # type: ignore[no-untyped-def]
    """Per query, the longest way to it, and what that is beyond the limits."""
    held.reached[:] = 0.0
    held.query_ms[:] = 0.0
    for n in range(len(rules.hop_from)):
        source, target = rules.hop_from[n], rules.hop_to[n]
        hop = rules.hop_ms[n]
        if rules.owner[source] != ANYWHERE:
            hop += rules.latency[_end(held.sites, rules.owner[source]), _end(held.sites, rules.owner[target])]
        held.reached[target] = max(held.reached[target], held.reached[source] + hop)
    for n in range(len(rules.end_node)):
        node, q = rules.end_node[n], rules.end_query[n]
        hop = 0.0
        if rules.owner[node] != ANYWHERE:
            hop = rules.latency[_end(held.sites, rules.owner[node]), rules.query_site[q]]
        held.query_ms[q] = max(held.query_ms[q], held.reached[node] + hop)
    late = 0.0
    for q in range(len(rules.limit)):
        if held.query_ms[q] > rules.limit[q]:
            late += (held.query_ms[q] / rules.limit[q] - 1.0) * rules.limit_weight[q]
    held.sums[LATE] = late


@njit(cache=True)
def hold(rules, held, sites) -> None:  # type: ignore[no-untyped-def]
    """Everything from scratch, so that rounding never piles up for long."""
    copy(sites, held.sites)
    held.used[:] = 0.0
    held.members[:] = 0
    held.links[:] = 0.0
    held.sums[:] = 0.0
    fragments = len(sites)
    for f in range(fragments):
        _add(rules, held, f, sites[f], 1.0)
        for n in range(rules.group_start[f], rules.group_start[f + 1]):
            held.members[rules.group_of[n], sites[f], rules.group_side[n]] += 1
    for e in range(rules.arc_ends.shape[0]):
        source = _end(sites, rules.arc_ends[e, 0])
        target = _end(sites, rules.arc_ends[e, 1])
        if source != target:
            _add(rules, held, fragments + e, source, 1.0)
            _add(rules, held, fragments + e, target, 1.0)
    for site in range(held.used.shape[0]):
        held.sums[PLANES] += _beyond(rules, held, site)
        for group in range(len(rules.isolates)):
            held.sums[GROUPS] += _crowd(rules, held, group, site) * rules.group_weight
    for node in range(len(rules.owner)):
        _add_node(rules, held, node, 1.0)
    if len(rules.limit) > 0:
        set_latencies(rules, held)


@njit(cache=True)
def shift(rules, held, f, j) -> None:  # type: ignore[no-untyped-def]
    """Fragment f to site j."""
    i = held.sites[f]
    if i == j:
        return
    held.sums[PLANES] -= _beyond(rules, held, i) + _beyond(rules, held, j)
    _add(rules, held, f, i, -1.0)
    _add(rules, held, f, j, 1.0)
    fragments, count = len(held.sites), rules.allowed.shape[1]
    for n in range(rules.arc_start[f], rules.arc_start[f + 1]):
        e = rules.arc_of[n]
        other = rules.arc_ends[e, 1] if rules.arc_ends[e, 0] == f else rules.arc_ends[e, 0]
        end = _end(held.sites, other)
        if end >= count:
            continue
        row, crossed, crosses = fragments + e, end != i and i < count, end != j and j < count
        if crossed:
            _add(rules, held, row, i, -1.0)
        if crosses:
            _add(rules, held, row, j, 1.0)
        change = (1.0 if crosses else 0.0) - (1.0 if crossed else 0.0)
        if change == 0.0:
            continue
        if end in (i, j):
            _add(rules, held, row, end, change)
        else:  # where f has no site yet, or no longer
            held.sums[PLANES] -= _beyond(rules, held, end)
            _add(rules, held, row, end, change)
            held.sums[PLANES] += _beyond(rules, held, end)
    held.sums[PLANES] += _beyond(rules, held, i) + _beyond(rules, held, j)
    _count(rules, held, f, i, -1)
    _count(rules, held, f, j, 1)
    for n in range(rules.beside_start[f], rules.beside_start[f + 1]):
        _add_node(rules, held, rules.beside[n], -1.0)
    held.sites[f] = j
    for n in range(rules.beside_start[f], rules.beside_start[f + 1]):
        _add_node(rules, held, rules.beside[n], 1.0)
    if len(rules.limit) > 0:
        set_latencies(rules, held)


@njit(cache=True)
def look_everywhere(rules, held, order: Ints, most: int) -> int:  # type: ignore[no-untyped-def]
    """Whether some placement keeps all rules, by trying them all: 1 where `held` is one, 0 where there is
    none, -1 where more than `most` partial ones would have to be looked at.

    All of `order` begin at a site beyond the last, where nothing counts. What a partial placement breaks,
    those that it leads to break too.
    """
    count, depth, looked = rules.allowed.shape[1], 0, 0
    at = np.full(len(order) + 1, -1, np.int64)
    if violation(held) > ENOUGH:
        return 0
    while depth < len(order):
        f = order[depth]
        at[depth] += 1
        while at[depth] < count and not rules.allowed[rules.kind[f], at[depth]]:
            at[depth] += 1
        if at[depth] == count:
            shift(rules, held, f, count)
            at[depth] = -1
            depth -= 1
            if depth < 0:
                return 0
            continue
        looked += 1
        if looked > most:
            return -1
        shift(rules, held, f, at[depth])
        if violation(held) <= ENOUGH:
            depth += 1
    return 1


@njit(cache=True)
def mend(  # type: ignore[no-untyped-def]
    rules, held, free: Ints, homes: Ints, stay: float, most_away: int, hot: float, cold: float, floor: float,
    steps: int, best: Ints, word: Words,
) -> float:  # fmt: skip
    """Anneal on the violation until it is at most `floor`, in place; returns the least, of `best`.

    `homes[f]`: where f runs now (-1: nowhere yet). Every fragment away from home counts `stay`, and no more
    than `most_away` may be.
    """
    sites = held.used.shape[0]
    away = 0
    for f in range(len(homes)):
        away += homes[f] >= 0 and held.sites[f] != homes[f]
    now = violation(held) + stay * away
    least = now
    copy(held.sites, best)
    for step in range(steps):
        if least <= floor:
            break
        temperature = hot * (cold / hot) ** (step / steps)
        f = free[random_index(word, len(free))]
        i = held.sites[f]
        g = -1
        if random_unit(word) < 0.5:
            g = free[random_index(word, len(free))]
            j = held.sites[g]
            if i == j or not rules.allowed[rules.kind[g], i]:
                continue
        else:
            j = random_index(word, sites)
        if i == j or not rules.allowed[rules.kind[f], j]:
            continue
        more = 0
        if homes[f] >= 0:
            more += int(j != homes[f]) - int(i != homes[f])
        if g >= 0 and homes[g] >= 0:
            more += int(i != homes[g]) - int(j != homes[g])
        if more > 0 and away + more > most_away:
            continue
        shift(rules, held, f, j)
        if g >= 0:
            shift(rules, held, g, i)
        then = violation(held) + stay * (away + more)
        if then <= now or random_unit(word) < np.exp((now - then) / temperature):
            now = then
            away += more
            if now < least - ENOUGH:
                least = now
                copy(held.sites, best)
        else:
            shift(rules, held, f, i)
            if g >= 0:
                shift(rules, held, g, j)
    return least
