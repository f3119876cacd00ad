"""The course of an adapted run: what was so at each look, and what it comes to.

This is for those who judge a run afterwards, so the headroom here is the true one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from mooring.contracts.decider import finite
from mooring.contracts.engine import Measurement
from mooring.model.problem.query import Query
from mooring.simulator.data_plane.report import SimulationReport, largest
from mooring.simulator.runs.query_sharing import Reused

ENOUGH = 1.25
"""Headroom that counts as enough."""


@dataclass(frozen=True)
class Moment:
    """One look."""

    at_s: float
    headroom: float
    """True: by the rates, capacities and costs that the simulator had."""
    utilisation: Mapping[str, float]
    """Per site, since the look before."""
    latency_ms: Mapping[str, float | None]
    """Per query that is there, the mean since the look before; None: nothing arrived."""
    limits_met: Mapping[str, bool]
    """Per query that is there and has a limit: its mean latency was within it. Where nothing arrives although
    something did before, it was not."""

    @property
    def busiest(self) -> float:
        return max(self.utilisation.values())


@dataclass(frozen=True)
class MadeMove:
    at_s: float
    fragment: str
    from_site: str
    to_site: str
    pause_s: float
    asked_by: str

    def as_json(self) -> dict[str, object]:
        return {
            "at_s": self.at_s,
            "fragment": self.fragment,
            "from": self.from_site,
            "to": self.to_site,
            "pause_s": self.pause_s,
            "asked_by": self.asked_by,
        }


@dataclass(frozen=True)
class Traffic:
    """Messages between machines at the sites, and to and from the run session."""

    messages: Mapping[str, int] = field(default_factory=dict)
    """By kind."""
    bytes: int = 0

    @property
    def total(self) -> int:
        return sum(self.messages.values())

    def as_json(self) -> dict[str, object]:
        return {"messages": dict(self.messages), "bytes": self.bytes}


@dataclass
class LimitWatch:
    """Whether each query's limit is met, look by look."""

    queries: Sequence[Query]
    absent: Callable[[], set[str]]

    def __post_init__(self) -> None:
        self._arrived: set[str] = set()

    def met(self, measured: Measurement) -> tuple[dict[str, float | None], dict[str, bool]]:
        """Latencies and limits of the queries that are there."""
        latencies: dict[str, float | None] = {}
        met: dict[str, bool] = {}
        self._arrived -= self.absent()
        for query in self.queries:
            report = measured.queries.get(query.name)
            if query.name in self.absent() or report is None:
                continue
            latencies[query.name] = mean_ms = report.mean_latency_ms
            if mean_ms is not None:
                self._arrived.add(query.name)
            if query.max_latency_ms is not None:
                silent = mean_ms is None and query.name in self._arrived
                met[query.name] = not silent and (mean_ms is None or mean_ms <= query.max_latency_ms)
        return latencies, met


@dataclass(frozen=True)
class CourseReport:
    """How one way of adapting did."""

    way: str
    moments: tuple[Moment, ...]
    moves: tuple[MadeMove, ...]
    incidents: tuple[tuple[float, str], ...]
    simulated: SimulationReport
    whys: Mapping[str, int]
    """Why nothing was done, and at how many looks."""
    ledger: tuple[Mapping[str, object], ...] = ()
    """What lists promised, and what came of it."""
    traffic: Traffic = field(default_factory=Traffic)
    """Where machines at the sites decide."""
    reused: tuple[Reused, ...] = ()
    """What queries that came have found running."""

    def summary(self) -> dict[str, float | None]:
        """Shares are of the looks; latencies of all tuples that arrived."""
        moments, latency = self.moments, self.simulated.latency
        met = [value for moment in moments for value in moment.limits_met.values()]
        within = [query.within_limit for query in self.simulated.queries.values()]
        counted = [share for share in within if share is not None]
        most = max((self.count(move.fragment) for move in self.moves), default=0)
        return {
            "room_share": fmean(moment.headroom >= 1.0 for moment in moments),
            "enough_room_share": fmean(moment.headroom >= ENOUGH for moment in moments),
            "limits_met_share": fmean(met) if met else None,
            "tuples_within_limits": fmean(counted) if counted else None,
            "mean_latency_ms": latency.mean_ms if latency.tuples else None,
            "p99_latency_ms": latency.p99_ms if latency.tuples else None,
            "mean_busiest": fmean(moment.busiest for moment in moments),
            "moves": float(len(self.moves)),
            "most_moves_of_one": float(most),
            "pauses_s": sum(move.pause_s for move in self.moves),
        }

    def count(self, fragment: str) -> int:
        return sum(move.fragment == fragment for move in self.moves)

    def as_json(self, most_series: int | None = None) -> dict[str, object]:
        """Stable keys; a number that does not exist is null. `most_series`: the course over time of at most
        so many sites, the busiest, and queries, the latest; None: of all.
        """
        busiest = largest(
            {name: each.utilisation for name, each in self.simulated.sites.items()}, most_series
        )
        means_ms = {name: each.latency.mean_ms for name, each in self.simulated.queries.items()}
        latest = largest(means_ms, most_series)
        return {
            "summary": self.summary(),
            "verdict": self.simulated.verdict,
            "queries": {name: query.as_json() for name, query in self.simulated.queries.items()},
            "sites": {name: site.as_json() for name, site in self.simulated.sites.items()},
            "moves": [move.as_json() for move in self.moves],
            "reused": [each.as_json() for each in self.reused],
            "incidents": [{"at_s": at_s, "what": what} for at_s, what in self.incidents],
            "nothing_done": dict(self.whys),
            "ledger": [dict(entry) for entry in self.ledger],
            "control": self.traffic.as_json(),
            "data_bytes": self.simulated.bandwidth * self.simulated.seconds,
            "series": {
                "at_s": [moment.at_s for moment in self.moments],
                "headroom": [finite(moment.headroom) for moment in self.moments],
                "mean_utilisation": [fmean(moment.utilisation.values()) for moment in self.moments],
                "utilisation": _columns([moment.utilisation for moment in self.moments], set(busiest)),
                "latency_ms": _columns([moment.latency_ms for moment in self.moments], set(latest)),
                "limits_met": [
                    fmean(moment.limits_met.values()) if moment.limits_met else None
                    for moment in self.moments
                ],
            },
        }


def _columns(
    rows: Sequence[Mapping[str, float | None]], shown: Container[str]
) -> dict[str, list[float | None]]:
    names = dict.fromkeys(name for row in rows for name in row if name in shown)
    return {name: [row.get(name) for row in rows] for name in names}
