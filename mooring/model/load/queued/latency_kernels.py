"""The latencies of a placement, compiled: the same arithmetic as `latencies.py` in its corrected form, over
arrays that do not depend on the placement, for searches that look at many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mooring.arrays import Floats, Ints
from mooring.model.load import two_moment_wait
from mooring.model.load.queued.way_kernels import Ways, between_s

wait_in_services = njit(cache=True)(two_moment_wait.wait_in_services)

ROUNDS = 200
CLOSE = 1e-9


class Template(NamedTuple):
    """A problem's arcs as arrays, sorted by producer; nodes are streams first, then operators."""

    stream_count: int
    stream_site: Ints
    """-1: everywhere."""
    fragment_of: Ints
    """Per node; -1 for streams."""
    order: Ints
    """Nodes, producers before readers."""
    out_start: Ints
    """A node's arcs are out_start[node]:out_start[node + 1]."""
    producer: Ints
    reader: Ints
    """-1: a query."""
    query: Ints
    rate: Floats
    share: Floats
    group: Ints
    """Arcs of one group share their producer's output."""
    work_mean: Floats
    work_variance: Floats
    out_mean: Floats
    out_variance: Floats
    covariance: Floats
    channel_s: Floats
    bytes: Floats
    at_source: Floats
    """Variability of a stream's tuples; not a number where the producer is an operator."""
    query_site: Ints
    ways: Ways
    bandwidth: Floats
    """Site x site; of no rows where it is not stated."""
    capacity_cores: Floats
    fixed_cores: Floats
    """Per fragment."""


@njit(cache=True)
def wait_s(rate, service_s, arrival_scv, service_scv) -> float:  # type: ignore[no-untyped-def]
    """Infinite at full utilisation and beyond."""
    rho = rate * service_s
    if not rho < 1.0:
        return math.inf
    return float(service_s * wait_in_services(rho, arrival_scv, service_scv))


@njit(cache=True)
def _ways(t, site_of):  # type: ignore[no-untyped-def]
    """Per arc: latency, time to send, and whether a message goes on at once."""
    count = len(t.rate)
    way_s, transfer_s, stays = np.zeros(count), np.zeros(count), np.zeros(count, np.bool_)
    for a in range(count):
        source = site_of[t.producer[a]]
        target = t.query_site[t.query[a]] if t.reader[a] < 0 else site_of[t.reader[a]]
        way_s[a] = t.channel_s[a]
        if source >= 0 and source != target:
            way_s[a] += between_s(t.ways, source, target)
            if len(t.bandwidth):
                transfer_s[a] = t.bytes[a] / t.bandwidth[source, target]
        stays[a] = (
            t.reader[a] >= 0 and t.producer[a] >= t.stream_count and way_s[a] == 0.0 and source == target
        )
    return way_s, transfer_s, stays


@njit(cache=True)
def _work(t, stays):  # type: ignore[no-untyped-def]
    """Backwards: per arc the work of a tuple at its reader and behind it there, and per node that of one
    output."""
    mean, variance = np.zeros(len(t.rate)), np.zeros(len(t.rate))
    inner, inner_variance = np.zeros(len(t.fragment_of)), np.zeros(len(t.fragment_of))
    part = np.zeros(len(t.rate))  # groups are numbered like arcs
    for at in range(len(t.order) - 1, -1, -1):
        node = t.order[at]
        total, square = 0.0, 0.0
        for a in range(t.out_start[node], t.out_start[node + 1]):
            r = t.reader[a]
            if r >= 0:
                mean[a] = t.work_mean[a] + t.out_mean[a] * inner[r]
                variance[a] = t.work_variance[a] + t.out_mean[a] * inner_variance[r]
                variance[a] += t.out_variance[a] * inner[r] ** 2 + 2.0 * t.covariance[a] * inner[r]
            if stays[a]:
                part[t.group[a]] += t.share[a] * mean[a]
                total += t.share[a] * mean[a]
                square += t.share[a] * (variance[a] + mean[a] ** 2)
        for a in range(t.out_start[node], t.out_start[node + 1]):
            square -= part[t.group[a]] ** 2
            part[t.group[a]] = 0.0
        inner[node] = total
        inner_variance[node] = max(square, 0.0)
    return mean, variance, inner


@njit(cache=True)
def _batches(t, stays):  # type: ignore[no-untyped-def]
    batches = np.ones(len(t.rate))
    of_node, rate_of_node = np.ones(len(t.fragment_of)), np.zeros(len(t.fragment_of))
    for node in t.order:
        for a in range(t.out_start[node], t.out_start[node + 1]):
            batches[a] = 1.0 + t.share[a] * (of_node[node] - 1.0)
            rate, r = t.rate[a] * t.out_mean[a], t.reader[a]
            if r < 0 or rate <= 0.0:
                continue
            inputs = batches[a] if stays[a] else 1.0
            biased = t.out_variance[a] / t.out_mean[a] + t.out_mean[a]
            before = rate_of_node[r] * of_node[r]
            rate_of_node[r] += rate
            outputs = biased + (inputs - 1.0) * t.out_mean[a]
            of_node[r] = (before + rate * outputs) / rate_of_node[r]
    return batches


@njit(cache=True)
def _entries(t, site_of, stays, mean, variance, speed):  # type: ignore[no-untyped-def]
    """Arcs of one producer that lead into one site, as one flow: per arc the first arc of its flow (-1:
    none), and at that arc rate, service and its variability."""
    count = len(t.rate)
    entry = np.full(count, -1, np.int64)
    rate, service_s, scv = np.zeros(count), np.zeros(count), np.zeros(count)
    for a in range(count):
        if t.reader[a] < 0 or stays[a]:
            continue
        entry[a] = a
        for b in range(t.out_start[t.producer[a]], a):
            if entry[b] == b and site_of[t.reader[b]] == site_of[t.reader[a]]:
                entry[a] = b
                break
        rate[entry[a]] = max(rate[entry[a]], t.rate[a])
    square = np.zeros(count)
    for a in range(count):
        e = entry[a]
        if e >= 0 and rate[e] > 0.0:
            part = t.rate[a] / rate[e]
            service_s[e] += part * mean[a]
            square[e] += part * variance[a] + part * (1.0 - part) * mean[a] ** 2
    for e in range(count):
        if entry[e] == e and rate[e] > 0.0:
            if service_s[e] > 0.0:
                scv[e] = square[e] / service_s[e] ** 2
            has = speed[site_of[t.reader[e]]]
            service_s[e] = service_s[e] / has if has > 0.0 else math.inf
            scv[e] = scv[e] if has > 0.0 else 0.0
    return entry, rate, service_s, scv


@njit(cache=True)
def _added(server, rate, service_s, scv, count):  # type: ignore[no-untyped-def]
    """Equations 4, 5, 7 and 8 for every server: rate, service, its variability, weight of the flows' own
    variability."""
    total, mean, square, spread = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count)
    for f in range(len(server)):
        s = server[f]
        if s >= 0 and rate[f] > 0.0:
            total[s] += rate[f]
            mean[s] += rate[f] * service_s[f]
            square[s] += rate[f] * service_s[f] ** 2 * (1.0 + scv[f])
            spread[s] += rate[f] ** 2
    variability, weight = np.zeros(count), np.zeros(count)
    for s in range(count):
        if total[s] <= 0.0:
            continue
        mean[s] /= total[s]
        if mean[s] > 0.0 and mean[s] < math.inf:
            variability[s] = max(square[s] / total[s] / mean[s] ** 2 - 1.0, 0.0)
        idle = 1.0 - min(total[s] * mean[s], 1.0)
        weight[s] = 1.0 / (1.0 + 4.0 * idle**2 * (total[s] ** 2 / spread[s] - 1.0))
    return total, mean, variability, weight


@njit(cache=True)
def _mixed(server, rate, own, total, weight):  # type: ignore[no-untyped-def]
    """Equation 6: how irregularly all flows of every server come together."""
    found = np.zeros(len(total))
    for f in range(len(server)):
        if server[f] >= 0 and rate[f] > 0.0:
            found[server[f]] += rate[f] * own[f]
    for s in range(len(total)):
        found[s] = 1.0 - weight[s] + weight[s] * found[s] / total[s] if total[s] > 0.0 else 1.0
    return found


@njit(cache=True)
def _link_of(t, site_of, transfer_s):  # type: ignore[no-untyped-def]
    """Links that take time, numbered as they come; -1 on the others."""
    found = np.full(len(t.rate), -1, np.int64)
    count = 0
    if len(t.bandwidth) == 0:
        return found, count
    number = np.full(t.bandwidth.shape, -1, np.int64)
    for a in range(len(t.rate)):
        if transfer_s[a] > 0.0:
            source = site_of[t.producer[a]]
            target = t.query_site[t.query[a]] if t.reader[a] < 0 else site_of[t.reader[a]]
            if number[source, target] < 0:
                number[source, target] = count
                count += 1
            found[a] = number[source, target]
    return found, count


@njit(cache=True)
def _after(rate, own, server, total, mean, variability, arrivals) -> float:  # type: ignore[no-untyped-def]
    """What a server makes of a flow: the part of its messages, and how many tuples come together (`own`)."""
    if total[server] <= 0.0:
        return 1.0
    busy = min(total[server] * mean[server], 1.0) ** 2
    part = rate / total[server]
    leaving = busy * variability[server] + (1.0 - busy) * arrivals[server]
    return float(part * leaving + own - part)


@njit(cache=True)
def evaluate(t, sites, query_s, site_wait_s, utilisation):  # type: ignore[no-untyped-def]
    """Fill in the latency of every query, and wait and utilisation of every site; sites: per fragment."""
    nodes, count, site_count = len(t.fragment_of), len(t.rate), len(t.capacity_cores)
    site_of = np.empty(nodes, np.int64)
    for node in range(nodes):
        site_of[node] = t.stream_site[node] if node < t.stream_count else sites[t.fragment_of[node]]
    speed = t.capacity_cores.copy()
    for f in range(len(sites)):
        speed[sites[f]] -= t.fixed_cores[f]
    way_s, transfer_s, stays = _ways(t, site_of)
    mean, variance, inner = _work(t, stays)
    batches = _batches(t, stays)
    entry, rate, service_s, scv = _entries(t, site_of, stays, mean, variance, speed)
    server = np.full(count, -1, np.int64)
    for a in range(count):
        if entry[a] == a:
            server[a] = site_of[t.reader[a]]
    at = _added(server, rate, service_s, scv, site_count)
    link, link_count = _link_of(t, site_of, transfer_s)
    on = _added(link, t.rate, transfer_s, np.zeros(count), link_count)
    arrivals, link_arrivals = _settle(t, site_of, stays, batches, entry, rate, server, at, link, on)
    for s in range(site_count):
        site_wait_s[s] = wait_s(at[0][s], at[1][s], arrivals[s], at[2][s]) if at[0][s] > 0.0 else 0.0
        utilisation[s] = at[0][s] * at[1][s] if at[0][s] > 0.0 else 0.0
    for a in range(count):
        way_s[a] += transfer_s[a]
        if link[a] >= 0:
            n = link[a]
            way_s[a] += wait_s(on[0][n], on[1][n], link_arrivals[n], on[2][n])
    at_entry_s = _at_entry(t, site_of, entry, service_s, batches, transfer_s, mean, speed, site_wait_s)
    _ages(t, site_of, stays, mean, inner, way_s, at_entry_s, speed, query_s)


@njit(cache=True)
def _at_sites(t, entry, rate, server, at, arriving):  # type: ignore[no-untyped-def]
    """How irregularly messages come to every site, from how they come on the arcs."""
    total, own = np.zeros(len(entry)), np.zeros(len(entry))
    for a in range(len(entry)):
        if entry[a] >= 0:
            total[entry[a]] += t.rate[a]
            own[entry[a]] += t.rate[a] * arriving[a]
    for e in range(len(entry)):
        own[e] = own[e] / total[e] if total[e] > 0.0 else 1.0
    return _mixed(server, rate, own, at[0], at[3])


@njit(cache=True)
def _settle(t, site_of, stays, batches, entry, rate, server, at, link, on):  # type: ignore[no-untyped-def]
    """The variability of the messages at every site and link, iterated to a fixed point."""
    count = len(t.rate)
    sent, arriving = np.ones(count), np.ones(count)
    for _ in range(ROUNDS):
        arrivals = _at_sites(t, entry, rate, server, at, arriving)
        for a in range(count):
            if not stays[a]:
                sent[a] = t.at_source[a]
                if math.isnan(sent[a]):
                    home = site_of[t.producer[a]]
                    sent[a] = _after(t.rate[a], batches[a], home, at[0], at[1], at[2], arrivals)
        on_links = _mixed(link, t.rate, sent, on[0], on[3])
        largest = 0.0
        for a in range(count):
            if not stays[a]:
                now = sent[a]
                if link[a] >= 0:
                    now = _after(t.rate[a], 1.0, link[a], on[0], on[1], on[2], on_links)
                largest = max(largest, abs(now - arriving[a]))
                arriving[a] = now
        if largest <= CLOSE:
            break
    arrivals = _at_sites(t, entry, rate, server, at, arriving)
    return arrivals, _mixed(link, t.rate, sent, on[0], on[3])


@njit(cache=True)
def _seconds(core_seconds, speed) -> float:  # type: ignore[no-untyped-def]
    if core_seconds <= 0.0:
        return 0.0
    return float(core_seconds / speed) if speed > 0.0 else math.inf


@njit(cache=True)
def _at_entry(t, site_of, entry, service_s, batches, transfer_s, mean, speed, waits):  # type: ignore[no-untyped-def]
    """Per arc into a site: the wait there, also for what came with it and is served before it."""
    found, ahead_s = np.zeros(len(t.rate)), np.zeros(len(t.rate))
    for a in range(len(t.rate)):
        e = entry[a]
        if e < 0:
            continue
        site = site_of[t.reader[a]]
        found[a] = waits[site] + ahead_s[e]
        together = batches[a] if transfer_s[a] <= 0.0 else 1.0
        if together > 1.0:
            found[a] += (together - 1.0) / 2.0 * service_s[e]
        ahead_s[e] += t.share[a] * _seconds(mean[a], speed[site])
    return found


@njit(cache=True)
def _ages(t, site_of, stays, mean, inner, way_s, at_entry_s, speed, query_s):  # type: ignore[no-untyped-def]
    """How old tuples are, followed forwards from the streams."""
    summed, rates = np.zeros(len(t.fragment_of)), np.zeros(len(t.fragment_of))
    delivered = np.zeros(len(query_s))
    query_s[:] = 0.0
    for node in t.order:
        born_s = summed[node] / rates[node] if rates[node] > 0.0 else 0.0
        for a in range(t.out_start[node], t.out_start[node + 1]):
            if t.rate[a] <= 0.0:
                continue
            age_s = born_s + way_s[a]
            if node >= t.stream_count:
                others = inner[node]
                if stays[a]:
                    for b in range(t.out_start[node], t.out_start[node + 1]):
                        if stays[b] and t.group[b] == t.group[a]:
                            others -= t.share[b] * mean[b]
                age_s += _seconds(others, speed[site_of[node]])
            r = t.reader[a]
            rate = t.rate[a] * t.out_mean[a]
            if r < 0:
                query_s[t.query[a]] += t.rate[a] * age_s
                delivered[t.query[a]] += t.rate[a]
            elif rate > 0.0:
                own = t.work_mean[a] + t.covariance[a] / t.out_mean[a]
                biased = t.out_variance[a] / t.out_mean[a] + t.out_mean[a]
                age_s += 0.0 if stays[a] else at_entry_s[a]
                age_s += _seconds(own + (biased - 1.0) * inner[r], speed[site_of[r]])
                rates[r] += rate
                summed[r] += rate * age_s
    for q in range(len(query_s)):
        query_s[q] = query_s[q] / delivered[q] if delivered[q] > 0.0 else 0.0
