"""The mean latency of all queries while single fragments move: the arithmetic of `latency_kernels.py`, of
which a move redoes only what it changes.

The mean latency is a sum over arcs and sites, because an arc's delay enters it with a weight that no
placement changes. A move alters the work, the flows and the ways of two sites and of the fragment's
neighbours. How irregularly messages arrive then changes along the arcs from site to site, and is followed
until no arc changes by more than `close`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from mooring.arrays import Bools, Floats, Ints
from mooring.model.load.queued.latency_kernels import ROUNDS, Template, _after, _seconds, wait_s
from mooring.model.load.queued.way_kernels import between_s

# As in the simulator: nothing here allocates, so numba's reference counting is left out.
KERNEL: dict[str, Any] = {"cache": True, "_nrt": False, "error_model": "numpy"}

CLOSE = 1e-7
"""Of a squared coefficient of variation: the mean latency is right to about as much."""
COST, EXCESS, ELSEWHERE = range(3)
"""Of `sums`: seconds of the mean query at sites that keep up, utilisation above 1, ways from streams that are
everywhere."""
ENDLESS, OVERLOADED, MARKED, QUEUED, HEAD = range(5)
"""Of `counts`: sites with endless delays, overloaded sites; nodes and sites that wait to be redone."""
INTO, OUT, FORCED, WAITING = 1, 2, 4, 8
"""What waits to be redone at a site."""


class KeptLatencies(NamedTuple):
    """A placement with all that its latencies are made of."""

    close: float
    """Changes of a squared coefficient of variation up to this are not followed."""
    weight: Floats
    """Per arc: by how much the mean latency of all queries grows with its delay."""
    into_start: Ints
    into: Ints
    """The arcs that lead to a node are into[into_start[node]:into_start[node + 1]]."""
    node_start: Ints
    node: Ints
    """The nodes of a fragment, likewise."""
    stream_start: Ints
    stream: Ints
    """The streams of a site, likewise."""
    rank: Ints
    """Per node, in topological order."""
    sites: Ints
    """Per fragment."""
    first: Ints
    """Per site, of a list of its fragments."""
    following: Ints
    before: Ints
    site_of: Ints
    """Per node; -1: everywhere."""
    speed: Floats
    """Cores of a site that fixed load leaves."""
    way_s: Floats
    """Per arc, like all up to `part`."""
    transfer_s: Floats
    stays: Bools
    mean: Floats
    variance: Floats
    batches: Floats
    sent: Floats
    arriving: Floats
    mixing: Floats
    """What its variability counts for among all that comes to the site."""
    part: Floats
    inner: Floats
    """Per node, like the next two."""
    inner_variance: Floats
    together: Floats
    total: Floats
    """Per site, like all up to `links`."""
    service_s: Floats
    variability: Floats
    mix: Floats
    mixed: Floats
    arrivals: Floats
    used: Floats
    entering: Floats
    """Weight of the wait there."""
    wait_s: Floats
    in_s: Floats
    out_s: Floats
    link_s: Floats
    cost_s: Floats
    links: Floats
    """Scratch: by target site, of the links from one site."""
    state: Ints
    """Per site, what waits to be redone."""
    queue: Ints
    redone: Ints
    """Scratch: sites."""
    is_marked: Bools
    marked: Ints
    """Nodes that wait to be redone."""
    sums: Floats
    counts: Ints


def kept_latencies(template: Template, weight: Floats, sites: Ints, close: float = CLOSE) -> KeptLatencies:
    """A placement as it is, with a site for each fragment."""
    nodes, arcs = len(template.fragment_of), len(template.rate)
    fragments, count = len(sites), len(template.capacity_cores)
    streams = template.stream_count
    reader, fragment_of = template.reader, template.fragment_of
    into_start, into = _grouped(reader, nodes)
    node_start, node = _grouped(np.where(np.arange(nodes) < streams, -1, fragment_of), fragments)
    stream_start, stream = _grouped(template.stream_site[:streams], count)
    rank = np.empty(nodes, np.int64)
    rank[template.order] = np.arange(nodes)
    per_arc = np.zeros((7, arcs))
    per_node = np.zeros((3, nodes))
    per_site = np.zeros((13, count))
    arrays: list[Any] = [
        weight,
        into_start,
        into,
        node_start,
        node,
        stream_start,
        stream,
        rank,
        np.full(fragments, -1, np.int64),
        np.full(count, -1, np.int64),
        np.full(fragments, -1, np.int64),
        np.full(fragments, -1, np.int64),
        np.full(nodes, -1, np.int64),
        template.capacity_cores.copy(),
        np.zeros(arcs),
        np.zeros(arcs),
        np.zeros(arcs, np.bool_),
        *per_arc,
        *per_node,
        *per_site,
        np.zeros((count, 6)),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(nodes, np.bool_),
        np.zeros(nodes, np.int64),
        np.zeros(3),
        np.zeros(5, np.int64),
    ]
    k = KeptLatencies(close, *arrays)
    _begin(template, k, sites.astype(np.int64))
    return k


def _grouped(key: Ints, count: int) -> tuple[Ints, Ints]:
    """Starts, and the numbers of the entries by their key; negative keys are left out."""
    order = np.argsort(key, kind="stable")
    own = key[order]
    starts = np.searchsorted(own, np.arange(count + 1)).astype(np.int64)
    return starts, order.astype(np.int64)


@njit(**KERNEL)
def _begin(t, k, sites):  # type: ignore[no-untyped-def]
    for node in range(t.stream_count):
        k.site_of[node] = t.stream_site[node]
    for f in range(len(sites)):
        _settle_in(t, k, f, sites[f])
    for a in range(len(t.rate)):
        _set_way(t, k, a)
        k.batches[a] = k.arriving[a] = k.sent[a] = 1.0
        if k.site_of[t.producer[a]] < 0:
            k.arriving[a] = k.sent[a] = t.at_source[a]
            k.sums[ELSEWHERE] += k.weight[a] * k.way_s[a] if k.weight[a] > 0.0 else 0.0
    for at in range(len(t.order) - 1, -1, -1):
        _work_of(t, k, t.order[at])
        _pass_work(t, k, t.order[at])
    for node in t.order:
        k.together[node] = _together(t, k, node)
        for a in range(t.out_start[node], t.out_start[node + 1]):
            k.batches[a] = 1.0 + t.share[a] * (k.together[node] - 1.0)
    for s in range(len(t.capacity_cores)):
        _mark_site(k, s, INTO | OUT)
    _redo_sites(t, k)


@njit(**KERNEL)
def move(t, k, f, s):  # type: ignore[no-untyped-def]
    """Put a fragment at another site."""
    here = k.sites[f]
    if here == s:
        return
    _take_out(t, k, f)
    _settle_in(t, k, f, s)
    _mark_site(k, here, INTO | OUT)
    _mark_site(k, s, INTO | OUT)
    for n in range(k.node_start[f], k.node_start[f + 1]):
        node = k.node[n]
        for m in range(k.into_start[node], k.into_start[node + 1]):
            a = k.into[m]
            source = k.site_of[t.producer[a]]
            if source >= 0:
                _mark_site(k, source, OUT)
            if _set_way(t, k, a):
                _mark_node(k, t.producer[a])
        for a in range(t.out_start[node], t.out_start[node + 1]):
            if _set_way(t, k, a):
                _mark_node(k, node)
            if t.reader[a] >= 0:
                _mark_site(k, k.site_of[t.reader[a]], INTO)
    if k.counts[MARKED] > 0:
        _redo_work(t, k)
        for n in range(k.node_start[f], k.node_start[f + 1]):
            node = k.node[n]
            _mark_node(k, node)
            for a in range(t.out_start[node], t.out_start[node + 1]):
                if t.reader[a] >= 0:
                    _mark_node(k, t.reader[a])
        _redo_batches(t, k)
    _redo_sites(t, k)


@njit(**KERNEL)
def add_up(k):  # type: ignore[no-untyped-def]
    """The sums anew, without what rounding has left in them."""
    k.sums[COST] = k.sums[EXCESS] = 0.0
    for s in range(len(k.cost_s)):
        if k.cost_s[s] < math.inf:
            k.sums[COST] += k.cost_s[s]
        if not k.used[s] < 1.0:
            k.sums[EXCESS] += min(k.used[s] - 1.0, 1e6)


@njit(**KERNEL)
def _take_out(t, k, f):  # type: ignore[no-untyped-def]
    s, before, following = k.sites[f], k.before[f], k.following[f]
    if before < 0:
        k.first[s] = following
    else:
        k.following[before] = following
    if following >= 0:
        k.before[following] = before
    k.speed[s] = _speed(t, k, s)


@njit(**KERNEL)
def _settle_in(t, k, f, s):  # type: ignore[no-untyped-def]
    k.sites[f] = s
    k.following[f], k.before[f] = k.first[s], -1
    if k.first[s] >= 0:
        k.before[k.first[s]] = f
    k.first[s] = f
    for n in range(k.node_start[f], k.node_start[f + 1]):
        k.site_of[k.node[n]] = s
    k.speed[s] = _speed(t, k, s)


@njit(**KERNEL)
def _speed(t, k, s) -> float:  # type: ignore[no-untyped-def]
    left = t.capacity_cores[s]
    f = k.first[s]
    while f >= 0:
        left -= t.fixed_cores[f]
        f = k.following[f]
    return float(left)


@njit(**KERNEL)
def _mark_site(k, s, what):  # type: ignore[no-untyped-def]
    if k.state[s] == 0:
        k.redone[k.counts[QUEUED]] = s
        k.counts[QUEUED] += 1
    k.state[s] |= what | FORCED


@njit(**KERNEL)
def _mark_node(k, node):  # type: ignore[no-untyped-def]
    if not k.is_marked[node]:
        k.is_marked[node] = True
        k.marked[k.counts[MARKED]] = node
        k.counts[MARKED] += 1


@njit(**KERNEL)
def _take_node(k, sign) -> int:  # type: ignore[no-untyped-def]
    """The marked node that comes first, or with -1 last."""
    found = 0
    for n in range(1, k.counts[MARKED]):
        if sign * k.rank[k.marked[n]] < sign * k.rank[k.marked[found]]:
            found = n
    node = k.marked[found]
    k.counts[MARKED] -= 1
    k.marked[found] = k.marked[k.counts[MARKED]]
    k.is_marked[node] = False
    return int(node)


@njit(**KERNEL)
def _set_way(t, k, a) -> bool:  # type: ignore[no-untyped-def]
    """Whether it now stays at a site where it did not, or the other way round."""
    producer, reader = t.producer[a], t.reader[a]
    source = k.site_of[producer]
    target = t.query_site[t.query[a]] if reader < 0 else k.site_of[reader]
    way_s, transfer_s = t.channel_s[a], 0.0
    if source >= 0 and source != target:
        way_s += between_s(t.ways, source, target)
        if len(t.bandwidth):
            transfer_s = t.bytes[a] / t.bandwidth[source, target]
    stayed = k.stays[a]
    k.way_s[a], k.transfer_s[a] = way_s, transfer_s
    k.stays[a] = reader >= 0 and producer >= t.stream_count and way_s == 0.0 and source == target
    return bool(stayed != k.stays[a])


@njit(**KERNEL)
def _work_of(t, k, node) -> bool:  # type: ignore[no-untyped-def]
    """Of one output of a node, behind it at its site; whether that has changed."""
    total, square = 0.0, 0.0
    for a in range(t.out_start[node], t.out_start[node + 1]):
        if k.stays[a]:
            k.part[t.group[a]] += t.share[a] * k.mean[a]
            total += t.share[a] * k.mean[a]
            square += t.share[a] * (k.variance[a] + k.mean[a] ** 2)
    for a in range(t.out_start[node], t.out_start[node + 1]):
        square -= k.part[t.group[a]] ** 2
        k.part[t.group[a]] = 0.0
    square = max(square, 0.0)
    changed = total != k.inner[node] or square != k.inner_variance[node]
    k.inner[node], k.inner_variance[node] = total, square
    return bool(changed)


@njit(**KERNEL)
def _pass_work(t, k, node):  # type: ignore[no-untyped-def]
    """To the arcs that lead to a node."""
    inner, inner_variance = k.inner[node], k.inner_variance[node]
    for m in range(k.into_start[node], k.into_start[node + 1]):
        a = k.into[m]
        k.mean[a] = t.work_mean[a] + t.out_mean[a] * inner
        k.variance[a] = t.work_variance[a] + t.out_mean[a] * inner_variance
        k.variance[a] += t.out_variance[a] * inner**2 + 2.0 * t.covariance[a] * inner


@njit(**KERNEL)
def _redo_work(t, k):  # type: ignore[no-untyped-def]
    """Backwards from the marked nodes."""
    while k.counts[MARKED] > 0:
        node = _take_node(k, -1)
        if not _work_of(t, k, node):
            continue
        _pass_work(t, k, node)
        if k.site_of[node] >= 0:
            _mark_site(k, k.site_of[node], INTO | OUT)
        for m in range(k.into_start[node], k.into_start[node + 1]):
            if k.stays[k.into[m]]:
                _mark_node(k, t.producer[k.into[m]])


@njit(**KERNEL)
def _together(t, k, node) -> float:  # type: ignore[no-untyped-def]
    """How many outputs of a node come at once."""
    total, found = 0.0, 1.0
    for m in range(k.into_start[node], k.into_start[node + 1]):
        a = k.into[m]
        rate = t.rate[a] * t.out_mean[a]
        if rate <= 0.0:
            continue
        inputs = k.batches[a] if k.stays[a] else 1.0
        outputs = t.out_variance[a] / t.out_mean[a] + t.out_mean[a] + (inputs - 1.0) * t.out_mean[a]
        before = total * found
        total += rate
        found = (before + rate * outputs) / total
    return float(found)


@njit(**KERNEL)
def _redo_batches(t, k):  # type: ignore[no-untyped-def]
    """Forwards from the marked nodes."""
    while k.counts[MARKED] > 0:
        node = _take_node(k, 1)
        found = _together(t, k, node)
        if found == k.together[node]:
            continue
        k.together[node] = found
        _mark_site(k, k.site_of[node], OUT)
        for a in range(t.out_start[node], t.out_start[node + 1]):
            k.batches[a] = 1.0 + t.share[a] * (found - 1.0)
            if t.reader[a] >= 0:
                _mark_site(k, k.site_of[t.reader[a]], INTO)
                if k.stays[a]:
                    _mark_node(k, t.reader[a])


@njit(**KERNEL)
def _redo_sites(t, k):  # type: ignore[no-untyped-def]
    """Those marked, and all to which changed variability comes from there."""
    count = k.counts[QUEUED]
    for n in range(count):
        s = k.redone[n]
        if k.state[s] & INTO:
            _flows_into(t, k, s)
    for n in range(count):
        s = k.redone[n]
        if k.state[s] & OUT:
            _ways_out(t, k, s)
    k.counts[QUEUED] = k.counts[HEAD] = 0
    for n in range(count):
        s = k.redone[n]
        k.state[s] = FORCED
        _enqueue(k, s)
    size, left = len(k.queue), ROUNDS * len(k.queue)
    while k.counts[QUEUED] > 0 and left > 0:
        left -= 1
        s = k.queue[k.counts[HEAD]]
        k.counts[HEAD] = (k.counts[HEAD] + 1) % size
        k.counts[QUEUED] -= 1
        forced = k.state[s] & FORCED
        k.state[s] = 0
        arrivals = 1.0
        if k.total[s] > 0.0:
            arrivals = 1.0 - k.mix[s] + k.mix[s] * k.mixed[s] / k.total[s]
        if forced or abs(arrivals - k.arrivals[s]) > k.close:
            k.arrivals[s] = arrivals
            _send_on(t, k, s)
        _cost_of(k, s, arrivals)
    while k.counts[QUEUED] > 0:
        k.counts[QUEUED] -= 1
        k.state[k.queue[(k.counts[HEAD] + k.counts[QUEUED]) % size]] = 0


@njit(**KERNEL)
def _enqueue(k, s):  # type: ignore[no-untyped-def]
    if not k.state[s] & WAITING:
        k.state[s] |= WAITING
        k.queue[(k.counts[HEAD] + k.counts[QUEUED]) % len(k.queue)] = s
        k.counts[QUEUED] += 1


@njit(**KERNEL)
def _cost_of(k, s, arrivals):  # type: ignore[no-untyped-def]
    """What a site adds to the mean latency, with what of it is endless or too much."""
    k.wait_s[s] = wait_s(k.total[s], k.service_s[s], arrivals, k.variability[s]) if k.total[s] > 0.0 else 0.0
    used = k.total[s] * k.service_s[s] if k.total[s] > 0.0 else 0.0
    waits_s = k.entering[s] * k.wait_s[s] if k.entering[s] > 0.0 else 0.0
    cost_s = waits_s + k.in_s[s] + k.out_s[s] + k.link_s[s]
    if k.cost_s[s] < math.inf:
        k.sums[COST] -= k.cost_s[s]
    else:
        k.counts[ENDLESS] -= 1
    if cost_s < math.inf:
        k.sums[COST] += cost_s
    else:
        k.counts[ENDLESS] += 1
    if not k.used[s] < 1.0:
        k.counts[OVERLOADED] -= 1
        k.sums[EXCESS] -= min(k.used[s] - 1.0, 1e6)
    if not used < 1.0:
        k.counts[OVERLOADED] += 1
        k.sums[EXCESS] += min(used - 1.0, 1e6)
    if k.counts[OVERLOADED] == 0:
        k.sums[EXCESS] = 0.0
    k.cost_s[s], k.used[s] = cost_s, used


@njit(**KERNEL)
def _flows_into(t, k, s):  # type: ignore[no-untyped-def]
    """What comes into a site and is served there: equations 4, 5, 7 and 8, and what its tuples take."""
    total, mean, square, spread, mixed = 0.0, 0.0, 0.0, 0.0, 0.0
    in_s, entering = 0.0, 0.0
    f = k.first[s]
    while f >= 0:
        for n in range(k.node_start[f], k.node_start[f + 1]):
            node = k.node[n]
            for m in range(k.into_start[node], k.into_start[node + 1]):
                a = k.into[m]
                k.mixing[a] = 0.0 if k.stays[a] else k.mixing[a]
                if k.weight[a] > 0.0:
                    in_s += k.weight[a] * _served_s(t, k, a, s)
                if k.stays[a] or not _begins_flow(t, k, a, s):
                    continue
                rate, service_s, scv, waits_s, weight = _flow(t, k, a, s)
                in_s += waits_s
                entering += weight
                if rate <= 0.0:
                    continue
                total += rate
                mean += rate * service_s
                square += rate * service_s**2 * (1.0 + scv)
                spread += rate**2
                for b in range(a, t.out_start[t.producer[a] + 1]):
                    if _enters(t, k, b, s):
                        mixed += k.mixing[b] * k.arriving[b]
        f = k.following[f]
    k.total[s], k.mixed[s], k.in_s[s], k.entering[s] = total, mixed, in_s, entering
    k.service_s[s] = k.variability[s] = k.mix[s] = 0.0
    if total > 0.0:
        mean /= total
        k.service_s[s] = mean
        if mean > 0.0 and mean < math.inf:
            k.variability[s] = max(square / total / mean**2 - 1.0, 0.0)
        idle = 1.0 - min(total * mean, 1.0)
        k.mix[s] = 1.0 / (1.0 + 4.0 * idle**2 * (total**2 / spread - 1.0))


@njit(**KERNEL)
def _enters(t, k, a, s) -> bool:  # type: ignore[no-untyped-def]
    return bool(t.reader[a] >= 0 and not k.stays[a] and k.site_of[t.reader[a]] == s)


@njit(**KERNEL)
def _begins_flow(t, k, a, s) -> bool:  # type: ignore[no-untyped-def]
    """Arcs of one producer that lead into one site are one flow."""
    found = True
    for b in range(t.out_start[t.producer[a]], a):
        if _enters(t, k, b, s):
            found = False
    return found


@njit(**KERNEL)
def _served_s(t, k, a, s) -> float:  # type: ignore[no-untyped-def]
    """From when a tuple is taken up until what comes of it is there."""
    if t.rate[a] <= 0.0 or t.out_mean[a] <= 0.0:
        return 0.0
    own = t.work_mean[a] + t.covariance[a] / t.out_mean[a]
    biased = t.out_variance[a] / t.out_mean[a] + t.out_mean[a]
    return float(_seconds(own + (biased - 1.0) * k.inner[t.reader[a]], k.speed[s]))


@njit(**KERNEL)
def _flow(t, k, first, s):  # type: ignore[no-untyped-def]
    """Rate, service and its variability of the flow that begins with an arc; what its tuples wait for one
    another, and the weight of their wait for others."""
    last = t.out_start[t.producer[first] + 1]
    rate, rates = 0.0, 0.0
    for a in range(first, last):
        if _enters(t, k, a, s):
            rate = max(rate, t.rate[a])
            rates += t.rate[a]
    service_s, square, scv = 0.0, 0.0, 0.0
    for a in range(first, last):
        if _enters(t, k, a, s):
            k.mixing[a] = rate * t.rate[a] / rates if rate > 0.0 else 0.0
            if rate > 0.0:
                part = t.rate[a] / rate
                service_s += part * k.mean[a]
                square += part * k.variance[a] + part * (1.0 - part) * k.mean[a] ** 2
    if rate > 0.0:
        scv = square / service_s**2 if service_s > 0.0 else 0.0
        service_s = service_s / k.speed[s] if k.speed[s] > 0.0 else math.inf
        scv = scv if k.speed[s] > 0.0 else 0.0
    waits_s, weight, ahead_s = 0.0, 0.0, 0.0
    for a in range(first, last):
        if _enters(t, k, a, s):
            if k.weight[a] > 0.0 and t.out_mean[a] > 0.0:
                behind_s = ahead_s
                together = k.batches[a] if k.transfer_s[a] <= 0.0 else 1.0
                if together > 1.0:
                    behind_s += (together - 1.0) / 2.0 * service_s
                waits_s += k.weight[a] * behind_s
                weight += k.weight[a]
            ahead_s += t.share[a] * _seconds(k.mean[a], k.speed[s])
    return rate, service_s, scv, waits_s, weight


@njit(**KERNEL)
def _ways_out(t, k, s):  # type: ignore[no-untyped-def]
    """What leaves a site: the ways, and what is made there before it may leave."""
    out_s = 0.0
    for n in range(k.stream_start[s], k.stream_start[s + 1]):
        out_s += _ways_of(t, k, k.stream[n], 0.0)
    f = k.first[s]
    while f >= 0:
        for n in range(k.node_start[f], k.node_start[f + 1]):
            out_s += _ways_of(t, k, k.node[n], k.speed[s])
        f = k.following[f]
    k.out_s[s] = out_s


@njit(**KERNEL)
def _ways_of(t, k, node, speed) -> float:  # type: ignore[no-untyped-def]
    out_s = 0.0
    for a in range(t.out_start[node], t.out_start[node + 1]):
        if k.weight[a] <= 0.0 or t.rate[a] <= 0.0:
            continue
        others = k.inner[node]
        if k.stays[a]:
            for b in range(t.out_start[node], t.out_start[node + 1]):
                if k.stays[b] and t.group[b] == t.group[a]:
                    others -= t.share[b] * k.mean[b]
        made_s = _seconds(others, speed) if node >= t.stream_count else 0.0
        out_s += k.weight[a] * (k.way_s[a] + k.transfer_s[a] + made_s)
    return out_s


@njit(**KERNEL)
def _send_on(t, k, s):  # type: ignore[no-untyped-def]
    """How irregularly messages leave a site, and arrive elsewhere."""
    has_links = len(t.bandwidth) > 0
    for n in range(k.stream_start[s], k.stream_start[s + 1]):
        _send_from(t, k, k.stream[n], s, has_links)
    f = k.first[s]
    while f >= 0:
        for n in range(k.node_start[f], k.node_start[f + 1]):
            _send_from(t, k, k.node[n], s, has_links)
        f = k.following[f]
    if has_links:
        _through_links(t, k, s)


@njit(**KERNEL)
def _send_from(t, k, node, s, has_links):  # type: ignore[no-untyped-def]
    for a in range(t.out_start[node], t.out_start[node + 1]):
        if k.stays[a]:
            continue
        sent = t.at_source[a]
        if math.isnan(sent):
            sent = _after(t.rate[a], k.batches[a], s, k.total, k.service_s, k.variability, k.arrivals)
        k.sent[a] = sent
        if not has_links or not k.transfer_s[a] > 0.0:
            _arrive(t, k, a, sent)


@njit(**KERNEL)
def _arrive(t, k, a, now):  # type: ignore[no-untyped-def]
    change = now - k.arriving[a]
    if abs(change) > k.close:
        k.arriving[a] = now
        if t.reader[a] >= 0:
            target = k.site_of[t.reader[a]]
            k.mixed[target] += k.mixing[a] * change
            _enqueue(k, target)


@njit(**KERNEL)
def _through_links(t, k, s):  # type: ignore[no-untyped-def]
    """The links from one site, each as a server."""
    k.link_s[s] = 0.0
    for stage in range(3):
        for n in range(k.stream_start[s], k.stream_start[s + 1]):
            _link_stage(t, k, k.stream[n], s, stage)
        f = k.first[s]
        while f >= 0:
            for n in range(k.node_start[f], k.node_start[f + 1]):
                _link_stage(t, k, k.node[n], s, stage)
            f = k.following[f]


@njit(**KERNEL)
def _link_stage(t, k, node, s, stage):  # type: ignore[no-untyped-def]
    """Clear; add up all arcs of a link; then pass on by each of them what the whole link makes of it."""
    for a in range(t.out_start[node], t.out_start[node + 1]):
        if not k.transfer_s[a] > 0.0:
            continue
        link = k.links[t.query_site[t.query[a]] if t.reader[a] < 0 else k.site_of[t.reader[a]]]
        if stage == 0:
            link[:] = 0.0
        elif stage == 1 and t.rate[a] > 0.0:
            link[0] += t.rate[a]
            link[1] += t.rate[a] * k.transfer_s[a]
            link[2] += t.rate[a] * k.transfer_s[a] ** 2
            link[3] += t.rate[a] ** 2
            link[4] += t.rate[a] * k.sent[a]
        elif stage == 2:
            _pass_link(t, k, s, a, link)


@njit(**KERNEL)
def _pass_link(t, k, s, a, link):  # type: ignore[no-untyped-def]
    total = link[0]
    if total <= 0.0:
        _arrive(t, k, a, 1.0)
        return
    mean = link[1] / total
    scv = max(link[2] / total / mean**2 - 1.0, 0.0) if 0.0 < mean < math.inf else 0.0
    busy = min(total * mean, 1.0)
    mix = 1.0 / (1.0 + 4.0 * (1.0 - busy) ** 2 * (total**2 / link[3] - 1.0))
    arrivals = 1.0 - mix + mix * link[4] / total
    part = t.rate[a] / total
    leaving = busy**2 * scv + (1.0 - busy**2) * arrivals
    _arrive(t, k, a, part * leaving + 1.0 - part)
    if k.weight[a] > 0.0 and t.rate[a] > 0.0:
        k.link_s[s] += k.weight[a] * wait_s(total, mean, arrivals, scv)
