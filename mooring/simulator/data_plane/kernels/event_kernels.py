"""The data plane's event loop: sources, arcs and sites in virtual time."""

from __future__ import annotations

import math

from numba import njit

from mooring.simulator.data_plane.kernels.calendar_kernels import next_slot, schedule, take_first
from mooring.simulator.data_plane.kernels.queue_kernels import give_back, queue_take
from mooring.simulator.data_plane.kernels.records import (
    ARRIVAL,
    COMPLETION,
    DELIVERY,
    DONE,
    GROW,
    INLINED,
    KERNEL,
    NONE,
    REFILL,
    RELEASE,
    Records,
    World,
)
from mooring.simulator.data_plane.kernels.service_kernels import (
    arrive,
    emit,
    enqueue,
    go_on,
    set_completion,
    start,
)


@njit(**INLINED)
def _complete(w: World, clock: Records, site_id: int) -> tuple[int, int, float]:
    """Finish a service and begin the next, unless this one is to be followed through the site; return who
    sends how many tuples on, and how old they are.
    """
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
    site.current = NONE
    if not site.to_completion:
        waiting = queue_take(site, w.tuples)
        finish = math.inf
        if waiting != NONE:
            finish = start(w, clock, site, waiting)
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
    arrive(w, clock, node)


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
        set_completion(w, clock, site_id, finish)


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
        enqueue(w, clock, operator.site, node)
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
        emitter, amount, birth, keeper = NONE, 0, 0.0, NONE
        if kind == COMPLETION:
            emitter, amount, birth = _complete(w, clock, subject)
            if w.sites[subject].to_completion:
                keeper = subject
        elif kind == DELIVERY:
            _deliver(w, clock, subject)
        elif kind == ARRIVAL:
            emitter, amount, birth = _originate(w, clock, subject)
        elif kind == RELEASE:
            release(w, clock, subject)
        else:
            _change_capacity(w, clock)
        if amount > 0:
            emit(w, clock, emitter, amount, birth, keeper)
        if keeper != NONE:
            go_on(w, clock, keeper)
        if clock.status != DONE:
            status: int = clock.status
            return status
    clock.now = until
    end = clock.origin + (clock.bin + 1) * clock.bin_s
    while until >= end and clock.bin < w.site_series.shape[0]:
        close_bin(w, clock, end)
        end = clock.origin + (clock.bin + 1) * clock.bin_s
    return DONE
