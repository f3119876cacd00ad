"""The report of a simulated run, by the problem's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isnan
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mooring.arrays import Floats
from mooring.notebook import Cell, data_frame, html_table, save_json
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.data_plane.kernels.records import HISTOGRAM_FLOOR_S, HISTOGRAM_RATIO
from mooring.simulator.data_plane.latency import Latency

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class SimulatedQuery:
    latency: Latency
    max_latency_ms: float | None  # the limit
    within_limit: float | None  # share of its tuples

    def as_json(self) -> dict[str, float | None]:
        return {
            **self.latency.as_json(),
            "max_latency_ms": self.max_latency_ms,
            "within_limit": self.within_limit,
        }


@dataclass(frozen=True)
class SimulatedSite:
    utilisation: float  # of what the fixed load leaves of its capacity
    mean_queue: float  # tuples waiting or in service
    max_queue: float

    def as_json(self) -> dict[str, float]:
        return {"utilisation": self.utilisation, "mean_queue": self.mean_queue, "max_queue": self.max_queue}


@dataclass(frozen=True)
class Series:
    """The run over time, in equal bins; NaN where nothing arrived."""

    time_s: Floats  # middles of the bins
    mean_latency_ms: Floats
    max_latency_ms: Floats
    utilisation: Floats  # bins x sites
    queue: Floats  # bins x sites, mean length


@dataclass(frozen=True, repr=False)
class SimulationReport:
    seconds: float  # virtual time counted, warm-up left out
    events: int  # arrivals at operators and completions
    overloaded: bool
    verdict: str
    overload: dict[str, object] | None
    latency: Latency  # all queries together
    queries: dict[str, SimulatedQuery]
    sites: dict[str, SimulatedSite]
    stream_rates: dict[str, float]
    bandwidth: float  # bytes per second between sites
    series: Series

    def __repr__(self) -> str:
        return f"SimulationReport({self.seconds:g} s: {self.verdict})"

    def _repr_html_(self) -> str:
        sites: dict[str, dict[str, Cell]] = {name: {**site.as_json()} for name, site in self.sites.items()}
        return html_table("Queries", self._rows) + html_table("Sites", sites, [self.verdict])

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each query."""
        return data_frame(self._rows, "query")

    def save(self, file: str | PathLike[str]) -> Path:
        return save_json(file, self.as_json())

    def figure(self) -> Figure:
        """Latency and queues over time."""
        from mooring.simulator.data_plane.figure import draw_report  # which is about this class

        return draw_report(self)

    @property
    def _rows(self) -> dict[str, dict[str, Cell]]:
        return {name: {**query.as_json()} for name, query in self.queries.items()}

    def as_json(self, most_series: int | None = None) -> dict[str, object]:
        """Stable keys, plain values; a number that does not exist is null. `most_series`: the course over
        time of at most so many sites, the busiest; None: of all.
        """
        series = self.series
        shown = set(largest({name: site.utilisation for name, site in self.sites.items()}, most_series))
        return {
            "seconds": self.seconds,
            "events": self.events,
            "overloaded": self.overloaded,
            "verdict": self.verdict,
            "overload": self.overload,
            "latency": self.latency.as_json(),
            "queries": {name: query.as_json() for name, query in self.queries.items()},
            "sites": {name: site.as_json() for name, site in self.sites.items()},
            "stream_rates": self.stream_rates,
            "bandwidth": self.bandwidth,
            "series": {
                "time_s": _plain(series.time_s),
                "mean_latency_ms": _plain(series.mean_latency_ms),
                "max_latency_ms": _plain(series.max_latency_ms),
                "mean_utilisation": _plain(series.utilisation.mean(axis=1)),
                "all_queues": _plain(series.queue.sum(axis=1)),
                "sites": {
                    name: {
                        "utilisation": _plain(series.utilisation[:, i]),
                        "queue": _plain(series.queue[:, i]),
                    }
                    for i, name in enumerate(self.sites)
                    if name in shown
                },
            },
        }


def largest(values: Mapping[str, float | None], most: int | None) -> list[str]:
    """The names of the largest values, in order; what has none, because nothing arrived, comes first."""

    def rank(name: str) -> float:
        value = values[name]
        return -inf if value is None or isnan(value) else -value

    if most is None or len(values) <= most:
        return list(values)
    kept = set(sorted(values, key=rank)[:most])
    return [name for name in values if name in kept]


def _plain(values: Floats) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


def report_of(engine: SimulatedEngine) -> SimulationReport:
    """Read everything off an engine; the run may have ended early."""
    simulation, problem = engine.simulation, engine.problem
    world, seconds = simulation.world, max(simulation.counted_s, 1e-300)
    busy = simulation.utilisation()
    lengths = (
        world.sites["area"] + (simulation.now_s - world.sites["changed"]) * world.sites["length"]
    ) / seconds
    overload, verdict = _verdict(engine)
    return SimulationReport(
        seconds=simulation.counted_s,
        events=simulation.events,
        overloaded=overload is not None,
        verdict=verdict,
        overload=overload,
        latency=simulation.latency(),
        queries={sink.name: _query(engine, q) for q, sink in enumerate(engine.binding.sinks)},
        sites={
            site.name: SimulatedSite(float(busy[i]), float(lengths[i]), float(world.sites["longest"][i]))
            for i, site in enumerate(problem.sites)
        },
        stream_rates={
            stream.name: float(world.sources["emitted"][k]) / seconds
            for k, stream in enumerate(problem.streams)
        },
        bandwidth=float(world.links["bytes"].sum()) / seconds,
        series=_series(engine),
    )


def _query(engine: SimulatedEngine, index: int) -> SimulatedQuery:
    limit_ms = engine.binding.sinks[index].max_latency_ms
    latency = engine.simulation.latency([index])
    within = None
    if limit_ms is not None and latency.tuples:
        last = np.log(limit_ms / 1e3 / HISTOGRAM_FLOOR_S) / np.log(HISTOGRAM_RATIO)
        below = engine.simulation.world.histogram[index, : int(max(last, 0.0)) + 1].sum()
        within = 1.0 if latency.max_ms <= limit_ms else float(below) / latency.tuples
    return SimulatedQuery(latency, limit_ms, within)


def _verdict(engine: SimulatedEngine) -> tuple[dict[str, object] | None, str]:
    overload, sites = engine.simulation.overload, engine.problem.sites
    if overload is None:
        busiest = int(np.argmax(shares := engine.simulation.utilisation()))
        return None, f"kept up; busiest site {sites[busiest].name!r} at {shares[busiest]:.1%}"
    if overload.kind == "link":
        ends = engine.binding.link_ends[overload.subject]
        where = f"link {sites[ends[0]].name!r} -> {sites[ends[1]].name!r}"
        backlog = f"{overload.backlog:.0f} s of sending"
    else:
        where, backlog = f"site {sites[overload.subject].name!r}", f"{overload.backlog:.0f} tuples"
    facts: dict[str, object] = {"kind": overload.kind, "where": where, "at_s": overload.at_s}
    facts["backlog"] = overload.backlog
    what = (
        "the simulation ran out of memory, most of it used"
        if overload.kind == "memory"
        else "backlog grew without bound"
    )
    return facts, f"overloaded: {what} at {where}, {backlog} at {overload.at_s:.1f} s"


def _series(engine: SimulatedEngine) -> Series:
    simulation = engine.simulation
    busy, queue = simulation.busy_share(), simulation.mean_length()
    done = len(busy)
    per_query = simulation.world.query_series[:done]
    count, total, longest = per_query[:, :, 0].sum(axis=1), per_query[:, :, 1].sum(axis=1), per_query[:, :, 2]
    clock = simulation.world.clock[0]
    some = count > 0
    return Series(
        time_s=clock["origin"] + (np.arange(done) + 0.5) * clock["bin_s"],
        mean_latency_ms=np.where(some, 1e3 * total / np.where(some, count, 1), np.nan),
        max_latency_ms=np.where(some, 1e3 * longest.max(axis=1, initial=0.0), np.nan),
        utilisation=busy,
        queue=queue,
    )
