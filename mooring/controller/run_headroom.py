"""How far a run is from overload: worked out once per look, and read by everything that shows it.

At the rates, costs and capacities of the picture, the headroom of a site is the least of three factors: how
far all rates can grow before its CPU is full (`growth_by_site`), before the batches of one of its fragments
take longer than the trigger (`growth_by_batch_time`), and before the state of its fragments fills its memory
(`growth_by_memory`). The picture already agrees with what was
observed: the surveyor counts a site with what it really gets done. A site that falls behind has no more than
the share that it keeps up with. The interval follows from how much the rates vary,
and from the difference between the measured and the modelled load of a site.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from mooring.contracts.decider import finite
from mooring.contracts.picture import Picture
from mooring.model.load.feasible.batch_time import growth_by_batch_time
from mooring.model.load.feasible.headroom import growth_by_site, headroom
from mooring.model.load.feasible.memory import growth_by_memory
from mooring.model.load.micro_batches import BatchTimes
from mooring.quantity import factor_words

Limit = Literal["CPU", "time", "memory", "backlog", "slots"]
_LIMITS = {
    "CPU": "no CPU left",
    "time": "batches as long as the trigger",
    "memory": "no memory left for state",
    "backlog": "a growing backlog",
    "slots": "no slot or executor left",
}
_BEYOND = {**_LIMITS, "time": "batches longer than the trigger"}


@dataclass(frozen=True)
class SiteHeadroom:
    """Of a site, or of the run."""

    factor: float
    """By which all rates can grow; infinite where nothing that grows loads it."""
    low: float
    high: float
    limit: Limit = "CPU"
    fragment: str | None = None
    """Whose batches or backlog it is."""
    load_cores: Mapping[str, float] = field(default_factory=dict)
    """By the model, at these rates: what is fixed, for rows, for pairs of joins, for refreshes of views."""

    def as_json(self) -> dict[str, object]:
        bounded = math.isfinite(self.factor)
        return {
            "factor": finite(self.factor),
            "low": finite(self.low),
            "high": finite(self.high),
            "limit": self.limit if bounded else None,
            "fragment": self.fragment,
            "words": factor_words(finite(self.factor), finite(self.low), finite(self.high)),
        }


@dataclass(frozen=True)
class RunHeadroom:
    missing: str = "the run has no observation yet"
    """What has to be known before there is a headroom; empty: it is known."""
    all: SiteHeadroom | None = None
    site: str | None = None
    """The site that is full first."""
    sites: Mapping[str, SiteHeadroom] = field(default_factory=dict)
    streams: Mapping[str, tuple[float, str | None]] = field(default_factory=dict)
    """Each stream alone, the others as they are: by how much it can grow, and the site that is full then."""

    @property
    def idle_streams(self) -> list[str]:
        """Streams that load nothing now, so that no factor says how far they can grow."""
        return [name for name, (factor, _) in self.streams.items() if math.isinf(factor)]

    def as_json(self) -> dict[str, object]:
        known = None if self.all is None else self.all.as_json()
        return {
            **(known or dict.fromkeys(("factor", "low", "high", "limit", "fragment"))),
            "site": self.site,
            "missing": self.missing,
            "words": self.words(),
            "sites": {
                name: {**room.as_json(), "model_load_cores": dict(room.load_cores)}
                for name, room in self.sites.items()
            },
            "streams": {
                name: {"factor": finite(factor), "site": site}
                for name, (factor, site) in self.streams.items()
            },
            "idle_streams": self.idle_streams,
        }

    def words(self) -> str:
        """
        >>> RunHeadroom("measurements so far: 1, needed: 3").words()
        'not known yet: measurements so far: 1, needed: 3'
        >>> streams = {"x": (1.4, "a"), "y": (math.inf, None)}
        >>> RunHeadroom("", SiteHeadroom(1.4, 1.2, 1.5), "a", {}, streams).words()
        'x 1.40 (1.20 to 1.50), then no CPU left at a; y loads nothing'
        """
        if self.all is None:
            return f"not known yet: {self.missing}"
        room = self.all
        said = factor_words(finite(room.factor), finite(room.low), finite(room.high))
        if math.isfinite(room.factor) and self.site is not None:
            of = f" of {room.fragment}" if room.fragment else ""
            when = f"then {_LIMITS[room.limit]}" if room.factor >= 1.0 else f"now {_BEYOND[room.limit]}"
            said += f", {when}{of} at {self.site}"
        if idle := self.idle_streams:
            more = f" and {len(idle) - 3} more" if len(idle) > 3 else ""
            verb = "loads" if len(idle) == 1 else "load"
            said += f"; {', '.join(idle[:3])}{more} {verb} nothing"
        return said


def shown_words(document: Mapping[str, Any] | None) -> str:
    """Of the headroom in a status file."""
    return RunHeadroom().words() if document is None else str(document["words"])


def run_headroom(picture: Picture) -> RunHeadroom:
    """Of what runs, by what is known of it."""
    problem, model, sites, rates = picture.problem, picture.model, picture.sites, picture.rates
    errors = np.zeros_like(rates) if picture.rate_errors is None else picture.rate_errors
    least_rates = np.maximum(rates - errors, 0.0)
    least, most = picture.capacity_bounds or (model.capacity_cores, model.capacity_cores)
    cpu = growth_by_site(model, sites, rates)
    low_cpu = growth_by_site(replace(model, capacity_cores=least), sites, rates + errors)
    high_cpu = growth_by_site(replace(model, capacity_cores=most), sites, least_rates)
    times = picture.batches or BatchTimes(1.0, np.zeros(model.fragment_count))
    time, low_time, high_time = (
        growth_by_batch_time(model, sites, at, times) for at in (rates, rates + errors, least_rates)
    )
    # How much of a batch grows with the rates is as unsure as how much of the CPU does.
    shorter, longer = (
        np.divide(
            bound, cpu, out=np.ones_like(cpu), where=np.isfinite(cpu) & np.isfinite(bound) & (cpu > 0.0)
        )
        for bound in (low_cpu, high_cpu)
    )
    no_limit = np.full(model.site_count, math.inf)
    memory = no_limit if picture.memory is None else growth_by_memory(model, sites, picture.memory)
    loads = _load_cores(picture)
    rooms: dict[str, SiteHeadroom] = {}
    for s, site in enumerate(problem.sites):
        here = np.flatnonzero(sites == s)
        slowest = int(here[np.argmin(time[here])]) if len(here) else None
        by_time = math.inf if slowest is None else float(time[slowest])
        fragment: str | None = None
        limit: Limit = "CPU"
        if slowest is not None and by_time < cpu[s]:
            fragment, limit = problem.fragment_names[slowest], "time"
        low_by_time = min(1.0, float(shorter[s])) * float(low_time[here].min(initial=math.inf))
        high_by_time = max(1.0, float(longer[s])) * float(high_time[here].min(initial=math.inf))
        low = min(float(low_cpu[s]), low_by_time, float(memory[s]))
        high = min(float(high_cpu[s]), high_by_time, float(memory[s]))
        factor = min(float(cpu[s]), by_time, float(memory[s]))
        if memory[s] < min(float(cpu[s]), by_time):
            fragment, limit = None, "memory"
        if (stall := picture.behind.get(site.name)) is not None and stall.share is not None:
            blocked, high = stall.kind == "blocked site", min(high, stall.share)
            fragment = None if blocked else stall.name
            limit = "slots" if blocked else "time" if stall.kind == "slow batches" else "backlog"
            factor = min(factor, stall.share)
        rooms[site.name] = SiteHeadroom(
            factor, min(low, factor), max(high, factor), limit, fragment, loads[s]
        )
    of_streams = headroom(model, sites, rates).streams
    streams = {
        stream.name: (growth.factor, None if growth.site is None else problem.sites[growth.site].name)
        for stream, growth in zip(problem.streams, of_streams, strict=True)
    }
    first = min(rooms, key=lambda name: rooms[name].factor)
    bounded = math.isfinite(rooms[first].factor)
    whole = SiteHeadroom(
        rooms[first].factor,
        min(room.low for room in rooms.values()),
        min(room.high for room in rooms.values()),
        rooms[first].limit,
        rooms[first].fragment,
    )
    return RunHeadroom("", whole, first if bounded else None, rooms, streams)


def _load_cores(picture: Picture) -> list[dict[str, float]]:
    """Per site, by what it is for."""
    model, sites = picture.model, picture.sites
    refreshed = np.array([name in picture.refreshed for name in picture.problem.fragment_names])
    of_pairs = np.array([variable.kind == "pairs" for variable in model.variables])
    coefficients, values = model.sparse_site_coefficients(sites), model.present
    parts = {
        "fixed": np.bincount(sites, np.where(refreshed, 0.0, model.fixed_cores), model.site_count),
        "rows": coefficients @ np.where(of_pairs, 0.0, values),
        "pairs": coefficients @ np.where(of_pairs, values, 0.0),
        "views": np.bincount(sites, np.where(refreshed, model.fixed_cores, 0.0), model.site_count),
    }
    return [{name: float(part[s]) for name, part in parts.items()} for s in range(model.site_count)]
