"""From a `Model` to the arrays that the kernels run on."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mooring.errors import InputError
from mooring.simulator.data_plane.kernels import records
from mooring.simulator.data_plane.kernels.calendar_kernels import FIRST_CALIBRATION
from mooring.simulator.data_plane.kernels.records import CACHE_LINE, NONE, Records, World
from mooring.simulator.data_plane.model import Model, OperatorPart, Reader, service_parameters


def lay_out(
    model: Model,
    rng: np.random.Generator,
    *,
    horizon_s: float,
    bins: int,
    batch: int = 1,
    queue_limit: float = np.inf,
    link_limit_s: float = 60.0,
    lateness_s: float = 60.0,
    buffer: int = 4096,
) -> World:
    """All arrays of a run, empty of tuples, at instant 0."""
    groups = [*_groups_of(model.source_groups, len(model.sources))]
    groups += _groups_of(model.operator_groups, len(model.operators))
    operators, panes = _operators(model, rng)
    emitters, group_array, arcs = _arcs(groups, rng)
    changes = sorted(
        (instant, capacity, index)
        for index, site in enumerate(model.sites)
        for instant, capacity in site.changes
    )
    sources = np.zeros(len(model.sources), records.SOURCE)
    sources["weight"] = batch
    width = max(min(buffer, (1 << 21) // max(len(sources), 1)), 128)
    instants = np.zeros((len(sources), width))
    clock = _clock(horizon_s, bins, batch, link_limit_s, lateness_s)
    world = World(
        clock=clock,
        slots=_slots(clock, len(sources), len(arcs), len(model.sites), len(operators)),
        buckets=np.zeros(0, records.BUCKET),
        tuples=_zeros(0, records.TUPLE),
        sites=_sites(model, queue_limit),
        operators=operators,
        panes=panes,
        arcs=arcs,
        groups=group_array,
        emitters=emitters,
        links=_links(model),
        sources=sources,
        instants=instants,
        births=instants if batch == 1 else np.zeros_like(instants),
        queries=np.zeros(model.queries, records.QUERY),
        histogram=np.zeros((model.queries, records.HISTOGRAM_BINS), np.uint32),
        changes=np.array(changes, records.CHANGE),
        site_series=np.zeros((bins, len(model.sites), 2)),
        query_series=np.zeros((bins, model.queries, 3)),
    )
    buckets = np.full(1 << max(len(world.slots).bit_length(), 8), NONE, np.int32)
    world = world._replace(buckets=np.stack([buckets, buckets], axis=1).view(records.BUCKET).ravel())
    return with_more_tuples(world, 1024)


def _zeros(count: int, kind: np.dtype[np.void]) -> Records:
    """Records that begin with a line of the processor's cache."""
    room = np.zeros(count * kind.itemsize + CACHE_LINE, np.uint8)
    first = -room.ctypes.data % CACHE_LINE
    return room[first : first + count * kind.itemsize].view(kind)


def _slots(clock: Records, sources: int, arcs: int, sites: int, operators: int) -> Records:
    """One slot per source, arc, site and operator, and one for the capacity changes."""
    counts = (sources, arcs, sites, operators, 1)
    kinds = (records.ARRIVAL, records.DELIVERY, records.COMPLETION, records.RELEASE, records.CAPACITY)
    slots = _zeros(sum(counts), records.SLOT)
    slots["kind"] = np.repeat(kinds, counts)
    slots["subject"] = np.concatenate([np.arange(count) for count in counts])
    firsts = np.cumsum(counts)[:-1]
    for name, first in zip(
        ("delivery_slots", "completion_slots", "release_slots", "capacity_slot"), firsts, strict=True
    ):
        clock[name] = first
    return slots


def with_more_tuples(world: World, count: int) -> World:
    """The same run with room for `count` tuple records in all."""
    old = len(world.tuples)
    tuples = _zeros(count, records.TUPLE)
    tuples[:old] = world.tuples
    tuples["next"][old:] = np.arange(old + 1, count + 1)
    tuples["next"][-1] = world.clock["free"][0]
    world.clock["free"] = old
    world.clock["free_count"] += count - old
    return world._replace(tuples=tuples)


def _clock(horizon_s: float, bins: int, batch: int, link_limit_s: float, lateness_s: float) -> Records:
    clock = np.zeros(1, records.CLOCK)
    clock["free"] = NONE
    clock["days_per_s"], clock["calibration"] = 1000.0, FIRST_CALIBRATION
    clock["batch"] = batch
    clock["bin_s"] = horizon_s / bins
    clock["link_limit"] = link_limit_s
    clock["lateness"] = lateness_s
    return clock


def _sites(model: Model, queue_limit: float) -> Records:
    sites = _zeros(len(model.sites), records.SITE)
    sites["capacity"] = [site.capacity_cores for site in model.sites]
    sites["oldest_first"] = [site.oldest_first for site in model.sites]
    sites["limit"] = queue_limit
    sites["to_completion"] = [site.to_completion for site in model.sites]
    for name in ("current", "head", "tail", "inner", "outbox_head", "outbox_tail"):
        sites[name] = NONE
    return sites


def _panes_of(part: OperatorPart, index: int) -> int:
    if part.kind != records.AGGREGATE:
        return 0
    count = part.window_s / (part.slide_s or part.window_s)
    if abs(count - round(count)) > 1e-6 or count < 1:
        raise InputError(
            f"operator {part.name or index}: a window of {part.window_s} s cannot slide by {part.slide_s} s",
            remedy="make the window a whole multiple of the slide",
        )
    return round(count)


def _operators(model: Model, rng: np.random.Generator) -> tuple[Records, Records]:
    operators = _zeros(len(model.operators), records.OPERATOR)
    operators["random"] = rng.integers(0, 2**64, len(operators), dtype=np.uint64)
    for name in ("held_head", "held_tail", "first_head", "first_tail", "second_head", "second_tail"):
        operators[name] = NONE
    panes = 0
    for index, part in enumerate(model.operators):
        record = operators[index]
        record["site"], record["kind"], record["drawn"] = part.site, part.kind, part.drawn
        record["send_work"] = part.send_work_us / 1e6
        kind, a, b, c = service_parameters(part.service_scv)
        record["service"], record["service_a"], record["service_b"], record["service_c"] = kind, a, b, c
        record["window"] = part.window_s
        record["panes"] = _panes_of(part, index)
        record["pane_start"] = panes
        panes += int(record["panes"])
        if record["panes"]:
            record["window"] = part.slide_s or part.window_s
    return operators, np.zeros(panes)


def _groups_of(groups: dict[int, list[tuple[Reader, ...]]], count: int) -> Iterable[list[tuple[Reader, ...]]]:
    return (groups.get(index, []) for index in range(count))


def _arcs(
    emitter_groups: list[list[tuple[Reader, ...]]], rng: np.random.Generator
) -> tuple[Records, Records, Records]:
    emitters = np.zeros(len(emitter_groups), records.EMITTER)
    emitters["random"] = rng.integers(0, 2**64, len(emitters), dtype=np.uint64)
    flat = [group for groups in emitter_groups for group in groups]
    group_array = np.zeros(len(flat), records.GROUP)
    arcs = _zeros(sum(len(group) for group in flat), records.ARC)
    ends = np.cumsum([len(groups) for groups in emitter_groups])
    emitters["last_group"] = ends
    emitters["first_group"][1:] = ends[:-1]
    at = 0
    for index, group in enumerate(flat):
        group_array[index] = (at, at + len(group))
        cumulative = np.cumsum([reader.share for reader in group])
        for reader, share in zip(group, cumulative / cumulative[-1], strict=True):
            _fill_arc(arcs[at : at + 1], reader, share)
            at += 1
    return emitters, group_array, arcs


def _fill_arc(arc: Records, reader: Reader, share: float) -> None:
    arc["latency"], arc["cost"], arc["selectivity"] = (
        reader.latency_s,
        reader.cost_us / 1e6,
        reader.selectivity,
    )
    arc["receive_work"], arc["bytes"], arc["share"] = reader.receive_work_us / 1e6, reader.bytes, share
    arc["head"] = arc["tail"] = NONE
    arc["operator"] = NONE if reader.operator is None else reader.operator
    arc["query"] = NONE if reader.query is None else reader.query
    arc["link"] = NONE if reader.link is None else reader.link
    arc["port"] = reader.port


def _links(model: Model) -> Records:
    links = np.zeros(len(model.links), records.LINK)
    links["seconds_per_byte"] = [1 / rate if rate > 0 else 0.0 for rate in model.links]
    return links
