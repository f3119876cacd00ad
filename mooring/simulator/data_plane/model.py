"""A data plane described part by part, before it is laid out in arrays.

This is the simulator's own vocabulary: sites, operators, sources, queries and the arcs between them, all by
number. It is independent of problem files; `binding` translates those, and the validation against theory
builds its queues directly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mooring.errors import InputError
from mooring.simulator.data_plane.arrivals import Arrivals, balanced_means
from mooring.simulator.data_plane.kernels.records import CONSTANT, ERLANG, EXPONENTIAL, HYPEREXPONENTIAL, MAP

MOST_PHASES = 1000
"""A service of less variability than one in so many is drawn as constant by whoever needs it."""


@dataclass(frozen=True)
class SitePart:
    capacity_cores: float
    oldest_first: bool = False
    to_completion: bool = False
    changes: tuple[tuple[float, float], ...] = ()  # (instant in s, capacity in cores from then on)


@dataclass(frozen=True)
class OperatorPart:
    site: int
    name: str = ""
    kind: int = MAP
    window_s: float = 0.0
    slide_s: float = 0.0  # aggregates; 0 means tumbling
    service_scv: float = 0.0  # of the service time: 0 constant, 1 exponential
    drawn: bool = False  # outputs drawn per tuple, instead of spread evenly
    send_work_us: float = 0.0  # CPU per output tuple for crossings


@dataclass(frozen=True)
class Reader:
    """One end of an arc: an operator's input, or a query."""

    operator: int | None = None
    query: int | None = None
    port: int = 0
    cost_us: float = 0.0
    selectivity: float = 1.0
    latency_s: float = 0.0
    receive_work_us: float = 0.0
    bytes: float = 0.0
    link: int | None = None
    share: float = 1.0  # of the group's tuples


@dataclass
class Model:
    """Sites, operators, sources, queries, links, and who reads whom."""

    sites: list[SitePart] = field(default_factory=list)
    operators: list[OperatorPart] = field(default_factory=list)
    sources: list[Arrivals] = field(default_factory=list)
    links: list[float] = field(default_factory=list)  # bytes per second; 0 counts bytes without limiting them
    queries: int = 0
    source_groups: dict[int, list[tuple[Reader, ...]]] = field(default_factory=dict)
    operator_groups: dict[int, list[tuple[Reader, ...]]] = field(default_factory=dict)

    def site(self, capacity_cores: float, **options: object) -> int:
        self.sites.append(SitePart(capacity_cores, **options))  # type: ignore[arg-type]
        return len(self.sites) - 1

    def operator(self, site: int, **options: object) -> int:
        self.operators.append(OperatorPart(site, **options))  # type: ignore[arg-type]
        return len(self.operators) - 1

    def source(self, arrivals: Arrivals) -> int:
        self.sources.append(arrivals)
        return len(self.sources) - 1

    def query(self) -> int:
        self.queries += 1
        return self.queries - 1

    def link(self, bytes_per_s: float = 0.0) -> int:
        self.links.append(bytes_per_s)
        return len(self.links) - 1

    def from_source(self, source: int, *readers: Reader) -> None:
        """Each of the source's tuples goes to one of `readers`, by their shares; call again for further
        copies.
        """
        self.source_groups.setdefault(source, []).append(readers)

    def from_operator(self, operator: int, *readers: Reader) -> None:
        self.operator_groups.setdefault(operator, []).append(readers)


def service_parameters(scv: float) -> tuple[int, float, float, float]:
    """The distribution of mean one with this squared coefficient of variation that the kernel can draw."""
    if scv == 0:
        return CONSTANT, 0.0, 0.0, 0.0
    if scv == 1:
        return EXPONENTIAL, 0.0, 0.0, 0.0
    if scv > 1:
        return HYPEREXPONENTIAL, *balanced_means(scv)
    if not 0 < scv < 1 or scv * MOST_PHASES < 1:
        raise InputError(
            f"found a squared coefficient of variation of {scv!r} for service times",
            remedy=f"use 0, or a number from {1 / MOST_PHASES:g} on",
        )
    phases = round(1 / scv)
    if math.isclose(phases * scv, 1, rel_tol=1e-9):
        return ERLANG, float(phases), 0.0, float(phases)
    # So many phases or, with chance b, one fewer; c of the phases make the mean (Tijms 1994).
    phases = math.ceil(1 / scv)
    fewer = (phases * scv - math.sqrt(phases * (1 + scv) - phases**2 * scv)) / (1 + scv)
    return ERLANG, float(phases), fewer, phases - fewer
