"""The state of a data-plane run as plain arrays of records.

Everything that changes while virtual time passes lives here, so that a run can be stopped at any instant,
looked at, changed (a move, a new capacity) and continued, and so that the compiled kernel needs no objects.
Times are seconds of virtual time, work is core-seconds, capacities are cores.

A *tuple* record is one tuple, or one batch of them (`weight`), and is in exactly one list at a time: free, in
flight on an arc, queued at a site (or part of what it serves to completion, or waiting there to be sent),
held for an operator that is being moved, or kept in a join's window.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

# How every kernel of this room is compiled. No kernel allocates, so numba's reference counting is left out,
# and what the event loop calls is inlined: together that is five times the speed.
KERNEL: dict[str, Any] = {"cache": True, "_nrt": False, "error_model": "numpy"}
INLINED: dict[str, Any] = {**KERNEL, "inline": "always"}

Records: TypeAlias = Any  # an array of one of the types below; numpy's typing cannot name their fields
NONE = -1
CACHE_LINE = 64
"""Bytes. A run of a thousand sites waits for memory most of the time: what is read with every tuple lies in
one line, and no record in more lines than it has to."""

SLOT = np.dtype(
    [
        ("time", "f8"),
        ("key", "i8"),  # kind << 56 | sequence: ties in time are broken in one way only
        ("next", "i4"),  # in the same bucket
        ("due", "i4"),  # 1: it has an event to come
        ("kind", "i4"),
        ("subject", "i4"),  # a source, arc, site or operator, by kind
    ],
    align=True,
)
BUCKET = np.dtype([("first", "i4"), ("last", "i4")], align=True)

TUPLE = np.dtype(
    [
        ("birth", "f8"),  # when the tuple that caused it entered the system
        ("time", "f8"),  # arrival: on an arc the instant to come, in a queue the one that was
        ("weight", "f8"),  # tuples in the batch
        ("sequence", "i8"),  # order of arrival at a site; breaks ties between tuples of equal age
        ("arc", "i4"),
        ("next", "i4"),
        ("right", "i4"),  # second child, where the queue is a heap by age
        ("unused", "i8", (2,)),
    ],
    align=True,
)

SITE = np.dtype(
    [
        ("capacity", "f8"),
        ("remaining", "f8"),  # work left of the tuple in service when `work_from` was
        ("work_from", "f8"),
        ("changed", "f8"),  # when the queue length last changed
        ("length", "f8"),  # tuples waiting or in service
        ("limit", "f8"),  # more than this is an overload
        ("area", "f8"),  # integral of the length
        ("busy", "f8"),  # seconds in service
        ("sojourn", "f8"),  # sum over completed tuples of time at the site
        ("completed", "f8"),
        ("longest", "f8"),
        ("outputs", "i8"),  # of the tuple in service
        ("current", "i4"),  # tuple in service
        ("head", "i4"),  # queue: list head, or root of the heap by age
        ("tail", "i4"),
        ("oldest_first", "i4"),
        ("to_completion", "i4"),  # 1: a tuple passes all operators here before the next one begins
        ("inner", "i4"),  # to completion: what is left of the present one to serve here, the newest first
        ("outbox_head", "i4"),  # to completion: what it sends elsewhere once it is finished
        ("outbox_tail", "i4"),
    ],
    align=True,
)

OPERATOR = np.dtype(
    [
        # Read and written with every tuple: one line of the processor's cache.
        ("random", "u8"),  # state of its own random stream, so that placements share their draws
        ("credit", "f8"),  # fraction of an output tuple owed
        ("send_work", "f8"),  # core-seconds per output tuple for crossings
        ("taken", "f8"),  # tuples processed
        ("given", "f8"),  # tuples put out
        ("work", "f8"),  # core-seconds used
        ("site", "i4"),
        ("kind", "i1"),
        ("service", "i1"),
        ("drawn", "i1"),  # 1: outputs drawn per tuple; 0: spread evenly
        ("held", "i1"),  # 1: not running now; arrivals wait in its channel
        ("service_a", "f8"),  # parameters of the service factor's distribution
        # Of joins, aggregates, and what is being moved.
        ("service_b", "f8"),
        ("service_c", "f8"),
        ("window", "f8"),  # join: seconds; aggregate: seconds of one pane (its slide)
        ("pane", "i8"),  # number of the aggregate's open pane
        ("pane_start", "i4"),  # its ring within the array of panes
        ("panes", "i4"),
        ("held_head", "i4"),
        ("held_tail", "i4"),
        ("first_head", "i4"),  # join windows, one per side
        ("first_tail", "i4"),
        ("second_head", "i4"),
        ("second_tail", "i4"),
    ],
    align=True,
)

ARC = np.dtype(
    [
        ("latency", "f8"),
        ("cost", "f8"),  # core-seconds per tuple (per pair for a join)
        ("receive_work", "f8"),  # core-seconds per tuple for the crossing
        ("selectivity", "f8"),
        ("last", "f8"),  # latest arrival given out: an arc delivers in order
        ("head", "i4"),
        ("tail", "i4"),
        ("operator", "i4"),  # its reader, or NONE
        ("query", "i4"),  # its reader, or NONE
        ("link", "i4"),  # the link whose bandwidth it shares, or NONE
        ("port", "i2"),  # which input of the reader
        ("closed", "i2"),  # 1: disconnected, nothing is sent
        # Of links with a bandwidth, and of groups of several.
        ("bytes", "f8"),  # per tuple
        ("share", "f8"),  # cumulative within its group
        ("unused", "f8", (6,)),
    ],
    align=True,
)

# Sources, then operators: what sends tuples on. The random stream chooses among the arcs of a group.
EMITTER = np.dtype([("random", "u8"), ("first_group", "i4"), ("last_group", "i4")], align=True)
GROUP = np.dtype([("first_arc", "i4"), ("last_arc", "i4")], align=True)  # each output goes to one arc of each
LINK = np.dtype([("seconds_per_byte", "f8"), ("free", "f8"), ("bytes", "f8")], align=True)
SOURCE = np.dtype(
    [("weight", "f8"), ("emitted", "f8"), ("at", "i8"), ("filled", "i8"), ("ended", "i4")], align=True
)
QUERY = np.dtype([("count", "f8"), ("sum", "f8"), ("max", "f8"), ("recent_max", "f8")], align=True)
CHANGE = np.dtype([("time", "f8"), ("capacity", "f8"), ("site", "i4")], align=True)

CLOCK = np.dtype(
    [
        ("now", "f8"),
        ("sequence", "i8"),
        ("events", "i8"),  # arrivals at operators and completions
        ("days_per_s", "f8"),  # of the calendar
        ("today", "i8"),  # no event is due on an earlier day
        ("taken", "i8"),  # events since the calendar was fitted, at
        ("calibrated", "f8"),
        ("calibration", "i8"),  # events after which it is fitted again
        (
            "delivery_slots",
            "i4",
        ),  # where the slots of arcs, sites and operators begin, and the one for changes
        ("completion_slots", "i4"),
        ("release_slots", "i4"),
        ("capacity_slot", "i4"),
        ("free", "i4"),  # list of free tuple records
        ("free_count", "i8"),
        ("needed", "i8"),  # tuple records asked for when growth is due
        ("status", "i4"),
        ("subject", "i4"),  # the site, source or link that the status speaks of
        ("batch", "i8"),  # most tuples in one record
        ("bin", "i8"),
        ("bin_s", "f8"),
        ("origin", "f8"),  # when counting began (after the warm-up)
        ("lateness", "f8"),  # how long a join keeps a tuple while its other side is silent
        ("link_limit", "f8"),  # seconds of backlog on a link that count as overload
        ("change", "i8"),  # next scheduled capacity change
    ],
    align=True,
)

# Kinds of event, in the order in which they happen at one instant.
CAPACITY, RELEASE, COMPLETION, DELIVERY, ARRIVAL = range(5)
# Kinds of operator; a union, a filter and a map differ in nothing that virtual time could show.
MAP, AGGREGATE, JOIN = range(3)
# Distributions of the service time around its mean.
CONSTANT, EXPONENTIAL, HYPEREXPONENTIAL, ERLANG = range(4)
# Why the kernel came back.
DONE, GROW, REFILL, SITE_OVERLOAD, LINK_OVERLOAD = range(5)

# Latency histogram: logarithmic, 0.7% wide, so that a quantile is off by less than half of that.
HISTOGRAM_FLOOR_S = 1e-6
HISTOGRAM_RATIO = 1.007
HISTOGRAM_BINS = int(np.ceil(np.log(1e5 / HISTOGRAM_FLOOR_S) / np.log(HISTOGRAM_RATIO))) + 1


class World(NamedTuple):
    """Every array of a run, handed to the kernels as one value."""

    clock: Records
    slots: Records
    buckets: Records
    tuples: Records
    sites: Records
    operators: Records
    panes: Records  # tuples per pane of each window aggregate
    arcs: Records
    groups: Records
    emitters: Records
    links: Records
    sources: Records
    instants: Records  # per source, a buffer of arrival instants to come
    births: Records  # and when the tuples behind them were born (earlier, for batches)
    queries: Records
    histogram: Records  # per query, tuples by latency
    changes: Records  # scheduled capacity changes, in order of time
    site_series: Records  # per time bin and site: busy share, mean length
    query_series: Records  # per time bin and query: count, sum and maximum of latencies
