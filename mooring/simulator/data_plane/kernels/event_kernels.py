"""The data plane's event loop: sources, arcs and sites in virtual time.

A site serves one tuple at a time, at the speed of its capacity; service takes cost over capacity. An arc
delivers in order after its latency; arcs of one link share its bandwidth. Queries are passive: what they
receive is recorded when it is sent, at the instant at which it will arrive.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mooring.simulator.data_plane.kernels.calendar_kernels import cancel, next_slot, schedule, take_first
from mooring.simulator.data_plane.kernels.draw_kernels import outputs_of, service_factor, uniform
from mooring.simulator.data_plane.kernels.queue_kernels import give_back, queue_put, queue_take, take
from mooring.simulator.data_plane.kernels.records import (
    AGGREGATE,
    ARRIVAL,
    COMPLETION,
    CONSTANT,
    DELIVERY,
    DONE,
    GROW,
    HISTOGRAM_BINS,
    HISTOGRAM_FLOOR_S,
    HISTOGRAM_RATIO,
    INLINED,
    JOIN,
    KERNEL,
    LINK_OVERLOAD,
    NONE,
    REFILL,
    RELEASE,
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
def _start(w: World, clock: Records, site: Records, node: int) -> float:
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
def _schedule(w: World, clock: Records, site_id: int, finish: float) -> None:
    slot = clock.completion_slots + site_id
    if finish < math.inf:
        schedule(w.slots, w.buckets, clock, slot, finish)
    else:
        cancel(w.slots, w.buckets, slot)


@njit(**INLINED)
def _enqueue(w: World, clock: Records, site_id: int, node: int) -> None:
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
        _schedule(w, clock, site_id, _start(w, clock, site, node))
    else:
        queue_put(site, w.tuples, node)


@njit(**INLINED)
def _arrive(w: World, clock: Records, node: int) -> None:
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
        _enqueue(w, clock, operator.site, node)


@njit(**INLINED)
def _send(w: World, clock: Records, arc_id: int, weight: float, birth: float) -> None:
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
        _arrive(w, clock, node)
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


@njit(**INLINED)
def _emit(w: World, clock: Records, emitter_id: int, amount: int, birth: float) -> None:
    """Send tuples to every reader (to one arc of each group), at most `batch` in one record."""
    emitter = w.emitters[emitter_id]
    left = amount
    while left > 0:
        weight = min(left, clock.batch)
        left -= weight
        for group_id in range(emitter.first_group, emitter.last_group):
            group = w.groups[group_id]
            _send(w, clock, _chosen(w, emitter, group.first_arc, group.last_arc), float(weight), birth)


@njit(**INLINED)
def _complete(w: World, clock: Records, site_id: int) -> tuple[int, int, float]:
    """Finish a service and begin the next; return who sends how many tuples on, and how old they are."""
    clock.events += 1
    site = w.sites[site_id]
    node = site.current
    tuple_ = w.tuples[node]
    site.area += (clock.now - site.changed) * site.length
    site.changed = clock.now
    site.length -= tuple_.weight
    site.busy += clock.now - site.work_from
    site.sojourn += (clock.now - tuple_.time) * tuple_.weight
    site.completed += tuple_.weight
    operator_id = w.arcs[tuple_.arc].operator
    outputs = site.outputs
    birth = tuple_.birth
    give_back(clock, w.tuples, node)
    waiting = queue_take(site, w.tuples)
    site.current = NONE
    finish = math.inf
    if waiting != NONE:
        finish = _start(w, clock, site, waiting)
    if finish < math.inf:
        schedule(w.slots, w.buckets, clock, clock.completion_slots + site_id, finish)
    w.operators[operator_id].given += outputs
    return w.sources.shape[0] + operator_id, outputs, birth


@njit(**INLINED)
def _deliver(w: World, clock: Records, arc_id: int) -> None:
    """The first tuple on an arc arrives; the arc's next event is the one behind it."""
    arc = w.arcs[arc_id]
    node = arc.head
    arc.head = w.tuples[node].next
    if arc.head != NONE:
        schedule(w.slots, w.buckets, clock, clock.delivery_slots + arc_id, w.tuples[arc.head].time)
    _arrive(w, clock, node)


@njit(**INLINED)
def _originate(w: World, clock: Records, source_id: int) -> tuple[int, int, float]:
    """A tuple (or a batch) enters; return who sends how many tuples on, and when they were born."""
    source = w.sources[source_id]
    birth = w.births[source_id, source.at]
    source.at += 1
    source.emitted += source.weight
    if source.at < source.filled:
        schedule(w.slots, w.buckets, clock, source_id, w.instants[source_id, source.at])
    return source_id, int(source.weight), birth


@njit(**KERNEL)
def set_capacity(w: World, clock: Records, site_id: int, capacity: float) -> None:
    """Change a site's speed now; the tuple in service keeps the work that it has had."""
    site = w.sites[site_id]
    if site.current != NONE:
        served = clock.now - site.work_from
        site.busy += served
        site.remaining = max(site.remaining - served * site.capacity, 0.0)
        site.work_from = clock.now
    site.capacity = capacity
    if site.current != NONE:
        finish = clock.now if site.remaining == 0.0 else math.inf
        if capacity > 0.0:
            finish = clock.now + site.remaining / capacity
        _schedule(w, clock, site_id, finish)


@njit(**KERNEL)
def _change_capacity(w: World, clock: Records) -> None:
    change = w.changes[clock.change]
    clock.change += 1
    if clock.change < w.changes.shape[0]:
        schedule(w.slots, w.buckets, clock, clock.capacity_slot, w.changes[clock.change].time)
    set_capacity(w, clock, change.site, change.capacity)


@njit(**KERNEL)
def release(w: World, clock: Records, operator_id: int) -> None:
    """Let an operator run again: what waited in its channel arrives at its site now, in order."""
    operator = w.operators[operator_id]
    operator.held = 0
    node = operator.held_head
    operator.held_head = NONE
    while node != NONE:
        following = w.tuples[node].next
        _enqueue(w, clock, operator.site, node)
        node = following


@njit(**KERNEL)
def close_bin(w: World, clock: Records, end: float) -> None:
    """Bring every site's integrals up to the end of a time bin and store them for it."""
    for site_id in range(w.sites.shape[0]):
        site = w.sites[site_id]
        site.area += (end - site.changed) * site.length
        site.changed = end
        if site.current != NONE:
            served = end - site.work_from
            site.busy += served
            site.remaining = max(site.remaining - served * site.capacity, 0.0)
            site.work_from = end
        w.site_series[clock.bin, site_id, 0] = site.busy
        w.site_series[clock.bin, site_id, 1] = site.area
    clock.bin += 1


@njit(**INLINED)
def _records_needed(w: World, clock: Records, kind: int, subject: int) -> int:
    """Most tuple records that the event can ask for: one per copy, and one more where it starts a join."""
    amount = 0
    emitter_id = subject
    if kind == COMPLETION:
        node = w.sites[subject].current
        amount = w.sites[subject].outputs
        emitter_id = w.sources.shape[0] + w.arcs[w.tuples[node].arc].operator
    elif kind == ARRIVAL:
        amount = int(w.sources[subject].weight)
    else:
        return 2
    emitter = w.emitters[emitter_id]
    copies = (amount + clock.batch - 1) // clock.batch
    needed: int = 2 + 2 * copies * (emitter.last_group - emitter.first_group)
    return needed


@njit(**KERNEL)
def advance(w: World, until: float) -> int:
    """Let virtual time pass up to and including `until`; say why it came back."""
    clock = w.clock[0]
    clock.status = DONE
    while True:
        slot = next_slot(w.slots, w.buckets, clock)
        if slot == NONE or w.slots[slot].time > until:
            break
        event = w.slots[slot]
        time, kind, subject = event.time, event.kind, event.subject
        if (
            kind == ARRIVAL
            and not w.sources[subject].ended
            and w.sources[subject].at + 1 >= w.sources[subject].filled
        ):
            return REFILL
        needed = _records_needed(w, clock, kind, subject)
        if needed > clock.free_count:
            clock.needed = needed
            return GROW
        end = clock.origin + (clock.bin + 1) * clock.bin_s
        while time >= end and clock.bin < w.site_series.shape[0]:
            close_bin(w, clock, end)
            end = clock.origin + (clock.bin + 1) * clock.bin_s
        clock.now = time
        take_first(w.slots, w.buckets, clock, slot)
        emitter, amount, birth = NONE, 0, 0.0
        if kind == COMPLETION:
            emitter, amount, birth = _complete(w, clock, subject)
        elif kind == DELIVERY:
            _deliver(w, clock, subject)
        elif kind == ARRIVAL:
            emitter, amount, birth = _originate(w, clock, subject)
        elif kind == RELEASE:
            release(w, clock, subject)
        else:
            _change_capacity(w, clock)
        if amount > 0:
            _emit(w, clock, emitter, amount, birth)
        if clock.status != DONE:
            status: int = clock.status
            return status
    clock.now = until
    end = clock.origin + (clock.bin + 1) * clock.bin_s
    while until >= end and clock.bin < w.site_series.shape[0]:
        close_bin(w, clock, end)
        end = clock.origin + (clock.bin + 1) * clock.bin_s
    return DONE
