"""From a problem and a placement to a data plane, and back from its numbers to the problem's names.

Arcs are kept in the order in which the arrays have them, each with its ends, so that a move can find and
reroute those that it touches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mooring.problem.operator import Operator
from mooring.problem.problem import Problem
from mooring.simulator.arrivals import Arrivals
from mooring.simulator.model import Model, OperatorPart, Reader, SitePart
from mooring.simulator.records import AGGREGATE, JOIN, MAP


@dataclass(frozen=True)
class Behaviour:
    """What a problem file leaves open about how tuples behave."""

    service_scv: float = 0.0  # squared coefficient of variation of service times; 0: cost_us exactly
    drawn: bool = False  # selectivities drawn per tuple; False: spread evenly
    oldest_first: bool = False  # sites serve by age; False: first come, first served
    slide_s: Mapping[str, float] | None = None  # aggregates (by name) whose windows slide by this much
    capacity_changes: tuple[tuple[float, str, float], ...] = ()  # (instant in s, site, cores from then on)


@dataclass(frozen=True)
class Arc:
    """One arc by its ends: a node (streams first, then operators) and an operator or query."""

    producer: int
    operator: int | None = None
    query: int | None = None
    port: int = 0
    share: float = 1.0


class Binding:
    """The fixed part: which arcs there are. Where they lead follows from the sites of the operators."""

    def __init__(self, problem: Problem, behaviour: Behaviour | None = None) -> None:
        self.problem = problem
        self.behaviour = behaviour or Behaviour()
        self.stream_count = len(problem.streams)
        self.link_ends: list[tuple[int, int]] = []  # the sites that each link joins
        self._links: dict[tuple[int, int], int] = {}
        self._loaded: dict[str, list[int]] = {}  # operators with a direct load, by stream
        for j, operator in enumerate(problem.operators):
            for stream in operator.load or ():
                self._loaded.setdefault(stream, []).append(j)
        self._queries: dict[str, list[int]] = {}  # by the operator that they read
        for q, query in enumerate(problem.queries):
            self._queries.setdefault(query.reads, []).append(q)
        self.groups: list[list[tuple[Arc, ...]]] = [
            self._groups_of(node) for node in range(self.stream_count + len(problem.operators))
        ]
        self.arcs: list[Arc] = [arc for groups in self.groups for group in groups for arc in group]
        self.fragment_of = {j: f for f, members in enumerate(problem.fragments) for j in members}
        self._site_of_stream = [self._site(stream.site) for stream in problem.streams]
        self._site_of_query = [self._site(query.site) for query in problem.queries]
        self._bytes = self._bytes_by_node()

    def _site(self, name: str | None) -> int | None:
        return None if name is None else self.problem.site_index[name]

    def _groups_of(self, node: int) -> list[tuple[Arc, ...]]:
        """One group per reader: the instances of a split operator share a group, everything else is alone."""
        problem = self.problem
        by_reader: dict[tuple[str, int], list[Arc]] = {}
        for j in dict.fromkeys(problem.graph.readers[node]):
            operator = problem.operators[j]
            for port, producers in enumerate(problem.graph.ports[j]):
                if node in producers:
                    arc = Arc(node, operator=j, port=port, share=operator.share)
                    by_reader.setdefault((operator.logical_name, port), []).append(arc)
        groups = [tuple(arcs) for arcs in by_reader.values()]
        if node < self.stream_count:
            name = problem.streams[node].name
            groups += [(Arc(node, operator=j),) for j in self._loaded.get(name, ())]
        else:
            name = problem.operators[node - self.stream_count].logical_name
            groups += [(Arc(node, query=q),) for q in self._queries.get(name, ())]
        return groups

    def _bytes_by_node(self) -> list[float]:
        """Bytes per tuple of every stream and operator; an operator that states none has its widest
        input's.
        """
        found = [stream.bytes or 0.0 for stream in self.problem.streams] + [0.0] * len(self.problem.operators)
        for j in self.problem.graph.order:
            stated = self.problem.operators[j].bytes
            widest = max((found[node] for port in self.problem.graph.ports[j] for node in port), default=0.0)
            found[self.stream_count + j] = widest if stated is None else stated
        return found

    # Where things are, given the operators' sites.

    def producer_site(self, arc: Arc, sites: Sequence[int]) -> int | None:
        if arc.producer < self.stream_count:
            return self._site_of_stream[arc.producer]
        return sites[arc.producer - self.stream_count]

    def reader_site(self, arc: Arc, sites: Sequence[int]) -> int | None:
        return self._site_of_query[arc.query] if arc.query is not None else sites[arc.operator or 0]

    def crossing(self, arc: Arc, sites: Sequence[int]) -> tuple[int, int] | None:
        """The two sites that the arc joins, if they differ; a stream without a site is everywhere."""
        start, end = self.producer_site(arc, sites), self.reader_site(arc, sites)
        return None if start is None or end is None or start == end else (start, end)

    def _link(self, ends: tuple[int, int]) -> int:
        """Every pair of sites that tuples cross between has a link, so that bytes are counted."""
        if ends not in self._links:
            self._links[ends] = len(self.link_ends)
            self.link_ends.append(ends)
        return self._links[ends]

    def link_rates(self) -> list[float]:
        """Bytes per second of every link so far; 0 where there is no limit."""
        bandwidth = self.problem.network.bandwidth
        if bandwidth is None:
            return [0.0] * len(self.link_ends)
        rates = [float(bandwidth[ends]) for ends in self.link_ends]
        return [rate if np.isfinite(rate) else 0.0 for rate in rates]

    def reader(self, arc: Arc, sites: Sequence[int]) -> Reader:
        """The arc with everything that depends on where its ends are."""
        network, ends = self.problem.network, self.crossing(arc, sites)
        latency_ms = self._channel_ms(arc)
        if ends is not None and network.latency_ms is not None:
            latency_ms += float(network.latency_ms[ends])
        operator = None if arc.operator is None else self.problem.operators[arc.operator]
        cost_us, selectivity = (0.0, 1.0) if operator is None else self._statistics(arc, operator)
        return Reader(
            operator=arc.operator,
            query=arc.query,
            port=arc.port,
            cost_us=cost_us,
            selectivity=selectivity,
            latency_s=latency_ms / 1e3,
            receive_work_us=network.comm_us if ends is not None and operator is not None else 0.0,
            bytes=self._bytes[arc.producer],
            link=None if ends is None else self._link(ends),
            share=arc.share,
        )

    def _channel_ms(self, arc: Arc) -> float:
        """A channel stands between two fragments; streams and queries read and write without one."""
        between = arc.producer >= self.stream_count and arc.operator is not None
        if (
            between
            and self.fragment_of[arc.producer - self.stream_count] != self.fragment_of[arc.operator or 0]
        ):
            return self.problem.network.channel_ms
        return 0.0

    def _statistics(self, arc: Arc, operator: Operator) -> tuple[float, float]:
        if operator.load is not None:
            return 1e6 * operator.load[self.problem.streams[arc.producer].name], 0.0
        source = operator.inputs[arc.port]
        return operator.cost_us_of(source), operator.selectivity_of(source)

    def send_work_us(self, operator: int, sites: Sequence[int]) -> float:
        """CPU per output tuple for the crossings to all its readers."""
        comm_us = self.problem.network.comm_us
        return sum(
            comm_us * arc.share
            for group in self.groups[self.stream_count + operator]
            for arc in group
            if self.crossing(arc, sites) is not None
        )

    def model(self, sites: Sequence[int], arrivals: Sequence[Arrivals]) -> Model:
        """The data plane under a placement (site per operator), fed by one arrival process per stream."""
        parts = [SitePart(site.capacity, self.behaviour.oldest_first) for site in self.problem.sites]
        model = Model(sites=parts, sources=list(arrivals), queries=len(self.problem.queries))
        model.operators = [self._operator_part(j, sites) for j in range(len(self.problem.operators))]
        for node, groups in enumerate(self.groups):
            readers = [tuple(self.reader(arc, sites) for arc in group) for group in groups]
            if node < self.stream_count:
                model.source_groups[node] = readers
            else:
                model.operator_groups[node - self.stream_count] = readers
        model.links = self.link_rates()
        return model

    def _operator_part(self, j: int, sites: Sequence[int]) -> OperatorPart:
        operator = self.problem.operators[j]
        kind = MAP
        if operator.kind == "join":
            kind = JOIN
        elif operator.kind == "aggregate" and operator.window_s is not None:
            kind = AGGREGATE
        slides = self.behaviour.slide_s or {}
        return OperatorPart(
            site=sites[j],
            kind=kind,
            window_s=operator.window_s or 0.0,
            slide_s=slides.get(operator.name, slides.get(operator.logical_name, 0.0)),
            service_scv=self.behaviour.service_scv,
            drawn=self.behaviour.drawn or operator.variable,
            send_work_us=self.send_work_us(j, sites),
        )
