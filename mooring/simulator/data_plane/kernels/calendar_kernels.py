"""A calendar queue of events (Brown 1988) over slots, in total order by (time, key).

Every source, arc, site and operator has one slot, because each has at most one event to come (an arc's
later tuples wait in its own list). A slot's event is put off or cancelled in place, so nothing here is ever
stale and the size never changes. Time is cut into days of equal length; a day's events hang in order from
one of the buckets, which are reused year after year. With about one event a day, both scheduling and
finding the next take a few steps however many slots there are, and the processor has little to guess: a
third of a heap's time. The length of the day follows the run; it affects speed only, never the order.
"""

from __future__ import annotations

from numba import njit

from mooring.simulator.data_plane.kernels.records import INLINED, KERNEL, NONE, Records

FIRST_CALIBRATION = 512
LAST_CALIBRATION = 1 << 18
EVENTS_PER_DAY = 1.0


@njit(**INLINED)
def _day(clock: Records, time: float) -> int:
    return int(time * clock.days_per_s)


@njit(**KERNEL)
def _link(slots: Records, buckets: Records, clock: Records, slot: int) -> None:
    """Hang a slot into its day's bucket, behind whatever comes before it."""
    entry = slots[slot]
    day = _day(clock, entry.time)
    clock.today = min(clock.today, day)
    bucket = buckets[day & (buckets.shape[0] - 1)]
    if bucket.first == NONE:
        entry.next = NONE
        bucket.first = slot
        bucket.last = slot
        return
    last = slots[bucket.last]
    if last.time < entry.time or (last.time == entry.time and last.key < entry.key):
        entry.next = NONE
        last.next = slot
        bucket.last = slot
        return
    before = NONE
    after = bucket.first
    while slots[after].time < entry.time or (
        slots[after].time == entry.time and slots[after].key < entry.key
    ):
        before = after
        after = slots[after].next
    entry.next = after
    if before == NONE:
        bucket.first = slot
    else:
        slots[before].next = slot


@njit(**KERNEL)
def cancel(slots: Records, buckets: Records, clock: Records, slot: int) -> None:
    """Take a slot's event out of the calendar, if it has one."""
    entry = slots[slot]
    if not entry.due:
        return
    entry.due = 0
    bucket = buckets[_day(clock, entry.time) & (buckets.shape[0] - 1)]
    before = NONE
    at = bucket.first
    while at != slot:
        before = at
        at = slots[at].next
    if before == NONE:
        bucket.first = entry.next
    else:
        slots[before].next = entry.next
    if bucket.last == slot:
        bucket.last = before


@njit(**INLINED)
def schedule(slots: Records, buckets: Records, clock: Records, slot: int, time: float) -> None:
    """Give a slot its next event, instead of the one that it has, if any."""
    entry = slots[slot]
    if entry.due:
        cancel(slots, buckets, clock, slot)
    clock.sequence += 1
    entry.key = (entry.kind << 56) | clock.sequence
    entry.time = time
    entry.due = 1
    _link(slots, buckets, clock, slot)


@njit(**INLINED)
def next_slot(slots: Records, buckets: Records, clock: Records) -> int:
    """The slot whose event comes first, or NONE; it stays in the calendar."""
    mask = buckets.shape[0] - 1
    day = clock.today
    for _ in range(buckets.shape[0]):
        first: int = buckets[day & mask].first
        if first != NONE and _day(clock, slots[first].time) <= day:
            clock.today = day
            return first
        day += 1
    # Nothing for a whole year: look for the earliest of all, and go straight there.
    found = NONE
    for index in range(buckets.shape[0]):
        first = buckets[index].first
        if first != NONE and (found == NONE or slots[first].time < slots[found].time):
            found = first
    if found != NONE:
        clock.today = _day(clock, slots[found].time)
    return found


@njit(**INLINED)
def take_first(slots: Records, buckets: Records, clock: Records, slot: int) -> None:
    """Remove the event that `next_slot` found, and now and then fit the day to the pace of events."""
    entry = slots[slot]
    entry.due = 0
    bucket = buckets[_day(clock, entry.time) & (buckets.shape[0] - 1)]
    bucket.first = entry.next
    if entry.next == NONE:
        bucket.last = NONE
    clock.taken += 1
    if clock.taken >= clock.calibration:
        _calibrate(slots, buckets, clock, entry.time)


@njit(**KERNEL)
def _calibrate(slots: Records, buckets: Records, clock: Records, now: float) -> None:
    elapsed = now - clock.calibrated
    pace = clock.taken / elapsed / EVENTS_PER_DAY if elapsed > 0.0 else clock.days_per_s
    clock.calibrated = now
    clock.taken = 0
    clock.calibration = min(2 * clock.calibration, LAST_CALIBRATION)
    if 0.5 * clock.days_per_s <= pace <= 2.0 * clock.days_per_s:
        return
    clock.days_per_s = min(pace, 1e12)
    clock.today = int(now * clock.days_per_s)
    for index in range(buckets.shape[0]):
        buckets[index].first = NONE
        buckets[index].last = NONE
    for slot in range(slots.shape[0]):
        if slots[slot].due:
            _link(slots, buckets, clock, slot)
