"""Serving a tuple at a site and sending on its results.

A site serves one tuple at a time, at the speed of its capacity; service takes cost over capacity. The results
go to the tail of the queue of each reader, or, where the site serves *to completion* (the ants paper, section
3.1), through all further operators there before the next tuple begins. An arc delivers in order after its
latency; arcs of one link share its bandwidth. Queries are passive: what they receive is recorded when it is
sent, at the instant at which it will arrive.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mooring.simulator.data_plane.kernels.calendar_kernels import cancel, schedule
from mooring.simulator.data_plane.kernels.draw_kernels import outputs_of, service_factor, uniform
from mooring.simulator.data_plane.kernels.queue_kernels import give_back, queue_put, queue_take, take
from mooring.simulator.data_plane.kernels.records import (
    AGGREGATE,
    CONSTANT,
    HISTOGRAM_BINS,
    HISTOGRAM_FLOOR_S,
    HISTOGRAM_RATIO,
    INLINED,
    JOIN,
    KERNEL,
    LINK_OVERLOAD,
    NONE,
    SITE_OVERLOAD,
    Records,
    World,
)
from mooring.simulator.data_plane.kernels.window_kernels import closed_share, joined_pairs

_PER_BIN = 1.0 / math.log(HISTOGRAM_RATIO)


@njit(**INLINED)
def _record_latency(w: World, clock: Records, query: int, time: float, birth: float, weight: float) -> None:
    latency = time - birth
    record = w.queries[query]
    record.count += weight
    record.sum += latency * weight
    record.max = max(record.max, latency)
    record.recent_max = max(record.recent_max, latency)
    bin_ = 0
    if latency > HISTOGRAM_FLOOR_S:
        bin_ = min(1 + int(math.log(latency / HISTOGRAM_FLOOR_S) * _PER_BIN), HISTOGRAM_BINS - 1)
    w.histogram[query, bin_] += np.uint32(weight)
    instant = int((time - clock.origin) / clock.bin_s)
    series = w.query_series[min(instant, w.query_series.shape[0] - 1), query]
    series[0] += weight
    series[1] += latency * weight
    series[2] = max(series[2], latency)


@njit(**INLINED)
def start(w: World, clock: Records, site: Records, node: int) -> float:
    """Begin to serve a tuple: draw its work and its outputs, and return when it will be finished."""
    tuple_ = w.tuples[node]
    arc = w.arcs[tuple_.arc]
    operator = w.operators[arc.operator]
    weight = tuple_.weight
    charged = weight
    if operator.kind == JOIN:
        charged = joined_pairs(clock, w.tuples, operator, arc.port, tuple_.birth, weight)
        outputs = outputs_of(operator, arc.selectivity, charged)
    elif operator.kind == AGGREGATE:
        closed = closed_share(operator, w.panes, tuple_.birth, weight)
        operator.credit += arc.selectivity * closed
        outputs = int(operator.credit)
        operator.credit -= outputs
    else:
        outputs = outputs_of(operator, arc.selectivity, weight)
    if operator.service == CONSTANT:
        work = arc.cost * charged
    else:
        work = 0.0
        for _ in range(int(charged)):
            work += arc.cost * service_factor(operator)
    work += arc.receive_work * weight + operator.send_work * outputs
    site.current = node
    site.outputs = outputs
    site.remaining = work
    site.work_from = clock.now
    operator.taken += weight
    operator.work += work
    finish: float = clock.now
    if work > 0.0:
        finish = clock.now + work / site.capacity if site.capacity > 0.0 else math.inf
    return finish


@njit(**INLINED)
def set_completion(w: World, clock: Records, site_id: int, finish: float) -> None:
    slot = clock.completion_slots + site_id
    if finish < math.inf:
        schedule(w.slots, w.buckets, clock, slot, finish)
    else:
        cancel(w.slots, w.buckets, clock, slot)


@njit(**INLINED)
def enqueue(w: World, clock: Records, site_id: int, node: int) -> None:
    site = w.sites[site_id]
    tuple_ = w.tuples[node]
    site.area += (clock.now - site.changed) * site.length
    site.changed = clock.now
    site.length += tuple_.weight
    site.longest = max(site.longest, site.length)
    if site.length > site.limit:
        clock.status = SITE_OVERLOAD
        clock.subject = site_id
    tuple_.time = clock.now
    clock.sequence += 1
    tuple_.sequence = clock.sequence
    if site.current == NONE:
        set_completion(w, clock, site_id, start(w, clock, site, node))
    else:
        queue_put(site, w.tuples, node)


@njit(**INLINED)
def arrive(w: World, clock: Records, node: int) -> None:
    clock.events += 1
    operator = w.operators[w.arcs[w.tuples[node].arc].operator]
    if operator.held:
        w.tuples[node].next = NONE
        if operator.held_head == NONE:
            operator.held_head = node
        else:
            w.tuples[operator.held_tail].next = node
        operator.held_tail = node
    else:
        enqueue(w, clock, operator.site, node)


@njit(**INLINED)
def send(w: World, clock: Records, arc_id: int, weight: float, birth: float) -> None:
    arc = w.arcs[arc_id]
    if arc.closed:
        return
    time = clock.now + arc.latency
    if arc.link != NONE:
        link = w.links[arc.link]
        link.bytes += arc.bytes * weight
        link.free = max(link.free, clock.now) + arc.bytes * weight * link.seconds_per_byte
        time = link.free + arc.latency
        if link.free - clock.now > clock.link_limit:
            clock.status = LINK_OVERLOAD
            clock.subject = arc.link
    time = max(time, arc.last)
    arc.last = time
    if arc.query != NONE:
        _record_latency(w, clock, arc.query, time, birth, weight)
        return
    node = take(clock, w.tuples)
    tuple_ = w.tuples[node]
    tuple_.birth = birth
    tuple_.time = time
    tuple_.weight = weight
    tuple_.arc = arc_id
    if time <= clock.now:
        arrive(w, clock, node)
        return
    tuple_.next = NONE
    if arc.head == NONE:
        arc.head = node
        schedule(w.slots, w.buckets, clock, clock.delivery_slots + arc_id, time)
    else:
        w.tuples[arc.tail].next = node
    arc.tail = node


@njit(**INLINED)
def _chosen(w: World, emitter: Records, first: int, last: int) -> int:
    arc_id = first
    if last - first > 1:
        draw = uniform(emitter)
        while arc_id < last - 1 and w.arcs[arc_id].share < draw:
            arc_id += 1
    return arc_id


@njit(**KERNEL)
def _keep(w: World, clock: Records, site_id: int, arc_id: int, weight: float, birth: float) -> None:
    """An output of a tuple that is served to completion: to be served next where it stays at the site, to be
    sent when all is done where it does not.
    """
    site, arc = w.sites[site_id], w.arcs[arc_id]
    if arc.closed:
        return
    node = take(clock, w.tuples)
    tuple_ = w.tuples[node]
    tuple_.birth = birth
    tuple_.time = clock.now
    tuple_.weight = weight
    tuple_.arc = arc_id
    stays = arc.operator != NONE and arc.latency == 0.0 and arc.link == NONE
    if stays and w.operators[arc.operator].site == site_id and not w.operators[arc.operator].held:
        clock.events += 1
        site.length += weight  # the caller has brought the integral up to now
        site.longest = max(site.longest, site.length)
        tuple_.next = site.inner
        site.inner = node
        return
    tuple_.next = NONE
    if site.outbox_head == NONE:
        site.outbox_head = node
    else:
        w.tuples[site.outbox_tail].next = node
    site.outbox_tail = node


@njit(**KERNEL)
def go_on(w: World, clock: Records, site_id: int) -> None:
    """Serve what is left of the present tuple; when nothing is, begin the next and send what came of it."""
    site = w.sites[site_id]
    node = site.inner
    if node != NONE:
        site.inner = w.tuples[node].next
        set_completion(w, clock, site_id, start(w, clock, site, node))
        return
    waiting = queue_take(site, w.tuples)
    if waiting != NONE:
        set_completion(w, clock, site_id, start(w, clock, site, waiting))
    node = site.outbox_head
    site.outbox_head = NONE
    while node != NONE:
        tuple_ = w.tuples[node]
        following, arc_id, weight, birth = tuple_.next, tuple_.arc, tuple_.weight, tuple_.birth
        give_back(clock, w.tuples, node)
        send(w, clock, arc_id, weight, birth)
        node = following


@njit(**INLINED)
def emit(w: World, clock: Records, emitter_id: int, amount: int, birth: float, keeper: int) -> None:
    """Send tuples to every reader (to one arc of each group), at most `batch` in one record; where a site
    serves to completion, `keeper`, it keeps them until then.
    """
    emitter = w.emitters[emitter_id]
    left = amount
    while left > 0:
        weight = min(left, clock.batch)
        left -= weight
        for group_id in range(emitter.first_group, emitter.last_group):
            group = w.groups[group_id]
            arc_id = _chosen(w, emitter, group.first_arc, group.last_arc)
            if keeper == NONE:
                send(w, clock, arc_id, float(weight), birth)
            else:
                _keep(w, clock, keeper, arc_id, float(weight), birth)
