"""From a problem to a data plane: which arcs there are, and what each costs once the operators have sites.

Two things are added to the problem's own graph. An operator without readers gets a sink beside it, so that
its output's latency can be seen. And where crossings cost CPU, a stream that enters at a site gets a *relay*
there, and so does a query: they are the ends of crossings at which no operator stands, and the load model
charges them too.

Nodes are numbered streams first, then operators, then relays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mooring.model.problem.latencies import with_changed
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Arrivals
from mooring.simulator.data_plane.kernels.records import AGGREGATE, JOIN, MAP
from mooring.simulator.data_plane.model import Model, OperatorPart, Reader, SitePart


@dataclass(frozen=True)
class Behaviour:
    """What a problem file leaves open about how tuples behave."""

    service_scv: float = 0.0  # variability of service times where the problem states none; 0: cost_us exactly
    drawn: bool = False  # selectivities drawn per tuple; False: spread evenly
    oldest_first: bool = False  # sites serve by age; False: first come, first served
    to_completion: bool = False  # a tuple passes all operators of a site before the next one begins
    slide_s: Mapping[str, float] | None = None  # aggregates (by name) whose windows slide by this much
    capacity_changes: tuple[tuple[float, str, float], ...] = ()  # (instant in s, site, cores from then on)


@dataclass(frozen=True)
class Sink:
    """A query of the problem, or the end of an operator that nobody reads (which is at no site)."""

    name: str
    site: int | None = None
    max_latency_ms: float | None = None


@dataclass(frozen=True)
class Arc:
    """One arc by its ends: from a node to an operator (or relay) or a sink."""

    producer: int
    operator: int | None = None
    sink: int | None = None
    port: int = 0
    share: float = 1.0
    channel: tuple[str, str] | None = None  # producer and reader by name; None: inside a fragment


def spare_channel(other: str, name: str) -> str:
    """The producer's side of a channel from an operator to the readers of another."""
    return f"{other} for {name}"


class Binding:
    """The graph of a problem's data plane. Operators' sites are passed in, since they change."""

    def __init__(
        self,
        problem: Problem,
        behaviour: Behaviour | None = None,
        stand_ins: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`stand_ins`: per operator, by the name in the file, others that its readers may be given instead,
        over a channel of their own (`spare_channel`).
        """
        self.problem = problem
        self.network = problem.network
        """As it is now: latencies change while a run goes on."""
        self.behaviour = behaviour or Behaviour()
        self.stream_count, self.operator_count = len(problem.streams), len(problem.operators)
        self.fragment_of = {j: f for f, members in enumerate(problem.fragments) for j in members}
        self.sinks: list[Sink] = []
        self.relay_sites: list[int] = []
        self.link_ends: list[tuple[int, int]] = []  # the sites that each link joins
        self._links: dict[tuple[int, int], int] = {}
        self._stream_sites = [self._site(stream.site) for stream in problem.streams]
        self._sinks_of = self._find_sinks()
        self._loaded: dict[str, list[int]] = {}  # operators with a direct load, by stream
        for j, operator in enumerate(problem.operators):
            for name in operator.load or ():
                self._loaded.setdefault(name, []).append(j)
        self.groups: list[list[tuple[Arc, ...]]] = [
            self._groups_of(node) for node in range(self.stream_count + self.operator_count)
        ]
        self.spare_closed: set[tuple[str, str]] = set()
        """Spare channels over which nothing goes now."""
        for name, others in (stand_ins or {}).items():
            for other in others:
                self._add_spare(name, other)
        if problem.network.comm_us > 0:
            self._add_relays()
        self.arcs: list[Arc] = [arc for groups in self.groups for group in groups for arc in group]
        self._bytes = self._bytes_by_node()

    def _site(self, name: str | None) -> int | None:
        return None if name is None else self.problem.site_index[name]

    # The graph.

    def _find_sinks(self) -> dict[str, list[int]]:
        """Sinks by the (logical) operator that they read."""
        found: dict[str, list[int]] = {}
        for query in self.problem.queries:
            found.setdefault(query.reads, []).append(len(self.sinks))
            self.sinks.append(Sink(query.name, self._site(query.site), query.max_latency_ms))
        taken = {query.name for query in self.problem.queries}
        for j, operator in enumerate(self.problem.operators):
            unread = not self.problem.graph.readers[self.stream_count + j] and operator.load is None
            if unread and operator.logical_name not in found:
                found[operator.logical_name] = [len(self.sinks)]
                name = operator.logical_name
                self.sinks.append(Sink(f"{name} (unread)" if name in taken else name))
        return found

    def _name(self, node: int) -> str:
        if node < self.stream_count:
            return self.problem.streams[node].name
        return self.problem.fragment_names[self.fragment_of[node - self.stream_count]]

    def _to_operator(self, node: int, j: int, port: int = 0) -> Arc:
        inside = (
            node >= self.stream_count and self.fragment_of[node - self.stream_count] == self.fragment_of[j]
        )
        channel = None if inside else (self._name(node), self._name(self.stream_count + j))
        return Arc(node, operator=j, port=port, share=self.problem.operators[j].share, channel=channel)

    def _groups_of(self, node: int) -> list[tuple[Arc, ...]]:
        """One group per reader: the instances of a split operator share a group, everything else is alone."""
        problem = self.problem
        by_reader: dict[tuple[str, int], list[Arc]] = {}
        for j in dict.fromkeys(problem.graph.readers[node]):
            for port, producers in enumerate(problem.graph.ports[j]):
                if node in producers:
                    key = (problem.operators[j].logical_name, port)
                    by_reader.setdefault(key, []).append(self._to_operator(node, j, port))
        groups = [tuple(arcs) for arcs in by_reader.values()]
        if node < self.stream_count:
            name = problem.streams[node].name
            return groups + [(self._to_operator(node, j),) for j in self._loaded.get(name, ())]
        for sink in self._sinks_of.get(problem.operators[node - self.stream_count].logical_name, ()):
            implicit = self.sinks[sink].site is None
            channel = None if implicit else (self._name(node), self.sinks[sink].name)
            groups.append((Arc(node, sink=sink, channel=channel),))
        return groups

    def _add_spare(self, name: str, other: str) -> None:
        """From each instance of `other` to whoever reads that of `name` in another fragment."""
        nodes = zip(self.problem.nodes_by_name[name], self.problem.nodes_by_name[other], strict=True)
        for own, instead in nodes:
            for group in self._groups_of(own):
                arcs = tuple(
                    replace(arc, producer=instead, channel=(spare_channel(other, name), arc.channel[1]))
                    for arc in group
                    if arc.channel is not None
                )
                self.spare_closed |= {arc.channel for arc in arcs if arc.channel is not None}
                self.groups[instead] += [arcs] if arcs else []

    def _add_relays(self) -> None:
        """Route each stream with a site, and each query, through a relay at its site."""
        for stream, site in enumerate(self._stream_sites):
            if site is not None:
                relay = self._new_relay(site)
                node = self.stream_count + relay
                onward = [
                    tuple(replace(arc, producer=node) for arc in group) for group in self.groups[stream]
                ]
                self.groups.append(onward)
                self.groups[stream] = [(Arc(stream, operator=relay),)]
        relays = {}
        for sink, described in enumerate(self.sinks):
            if described.site is not None:
                relays[sink] = self._new_relay(described.site)
                self.groups.append([(Arc(self.stream_count + relays[sink], sink=sink),)])
        for node in range(self.stream_count, self.stream_count + self.operator_count):
            self.groups[node] = [
                tuple(
                    arc if arc.sink is None else replace(arc, sink=None, operator=relays[arc.sink])
                    for arc in group
                )
                if any(arc.sink in relays for arc in group)
                else group
                for group in self.groups[node]
            ]

    def _new_relay(self, site: int) -> int:
        self.relay_sites.append(site)
        return self.operator_count + len(self.relay_sites) - 1

    def _bytes_by_node(self) -> list[float]:
        """Bytes per tuple of every node; an operator that states none has its widest input's."""
        found = [stream.bytes or 0.0 for stream in self.problem.streams]
        found += [0.0] * (self.operator_count + len(self.relay_sites))
        for j in self.problem.graph.order:
            stated = self.problem.operators[j].bytes
            widest = max((found[node] for port in self.problem.graph.ports[j] for node in port), default=0.0)
            found[self.stream_count + j] = widest if stated is None else stated
        for arc in self.arcs:
            if (
                arc.producer < self.stream_count
                and arc.operator is not None
                and arc.operator >= self.operator_count
            ):
                found[self.stream_count + arc.operator] = found[arc.producer]
        return found

    # Where things are, given the operators' sites.

    def site_of(self, operator: int, sites: Sequence[int]) -> int:
        """Of an operator, or of a relay (which never moves)."""
        if operator < self.operator_count:
            return int(sites[operator])
        return self.relay_sites[operator - self.operator_count]

    def crossing(self, arc: Arc, sites: Sequence[int]) -> tuple[int, int] | None:
        """The two sites that the arc joins, if they differ.

        A stream without a site is everywhere, and an operator whose load is given directly is charged
        nothing else.
        """
        if arc.operator is not None and self._has_direct_load(arc.operator):
            return None
        if arc.producer < self.stream_count:
            start = self._stream_sites[arc.producer]
        else:
            start = self.site_of(arc.producer - self.stream_count, sites)
        if arc.operator is not None:
            end: int | None = self.site_of(arc.operator, sites)
        else:
            end = self.sinks[arc.sink or 0].site
        return None if start is None or end is None or start == end else (start, end)

    def _has_direct_load(self, operator: int) -> bool:
        return operator < self.operator_count and self.problem.operators[operator].load is not None

    def _link(self, ends: tuple[int, int]) -> int:
        """Every pair of sites that tuples cross between has a link, so that bytes are counted."""
        if ends not in self._links:
            self._links[ends] = len(self.link_ends)
            self.link_ends.append(ends)
        return self._links[ends]

    def set_latencies(self, changed: Mapping[tuple[int, int], float]) -> None:
        """Between pairs of sites, in both directions; arcs that cross there have to be rerouted."""
        assert self.network.latency_ms is not None, "a change of latencies needs a problem with latency_ms"
        self.network = replace(self.network, latency_ms=with_changed(self.network.latency_ms, changed))

    def link_rates(self, first: int = 0) -> list[float]:
        """Bytes per second of every link so far, from a number on; 0 where there is no limit."""
        bandwidth = self.problem.network.bandwidth
        if bandwidth is None:
            return [0.0] * (len(self.link_ends) - first)
        rates = [float(bandwidth[ends]) for ends in self.link_ends[first:]]
        return [rate if np.isfinite(rate) else 0.0 for rate in rates]

    def reader(self, arc: Arc, sites: Sequence[int]) -> Reader:
        """The arc with everything that depends on where its ends are."""
        network, ends = self.network, self.crossing(arc, sites)
        latency_ms = self._channel_ms(arc)
        if ends is not None and network.latency_ms is not None:
            latency_ms += float(network.latency_ms[ends])
        cost_us, selectivity = self._statistics(arc)
        return Reader(
            operator=arc.operator,
            query=arc.sink,
            port=arc.port,
            cost_us=cost_us,
            selectivity=selectivity,
            latency_s=latency_ms / 1e3,
            receive_work_us=network.comm_us if ends is not None and arc.operator is not None else 0.0,
            bytes=self._bytes[arc.producer],
            link=None if ends is None else self._link(ends),
            share=arc.share,
        )

    def _channel_ms(self, arc: Arc) -> float:
        """Every channel between two fragments adds its delay; streams and queries are no fragments."""
        last = self.stream_count + self.operator_count
        between = self.stream_count <= arc.producer < last and (arc.operator or 0) < self.operator_count
        return self.problem.network.channel_ms if between and arc.sink is None and arc.channel else 0.0

    def _statistics(self, arc: Arc) -> tuple[float, float]:
        """Cost and selectivity at the reader.

        Each side of a split join gets its share of the tuples, but keys that match meet, so that an
        instance has its share of the pairs and not the share's square.
        """
        if arc.operator is None or arc.operator >= self.operator_count:
            return 0.0, 1.0
        operator = self.problem.operators[arc.operator]
        if operator.load is not None:
            return 1e6 * operator.load[self._stream_name(arc.producer)], 0.0
        source = operator.inputs[arc.port]
        pairs = operator.share if operator.kind == "join" and operator.share > 0 else 1.0
        return operator.cost_us_of(source) / pairs, operator.selectivity_of(source) / pairs

    def _stream_name(self, node: int) -> str:
        """Of a stream, or of the stream behind a relay."""
        if node >= self.stream_count:
            relay = node - self.stream_count
            node = next(s for s in range(self.stream_count) if self.groups[s][0][0].operator == relay)
        return self.problem.streams[node].name

    def send_work_us(self, operator: int, sites: Sequence[int]) -> float:
        """CPU per output tuple for the crossings to all its readers."""
        comm_us = self.problem.network.comm_us
        return sum(
            comm_us * arc.share
            for group in self.groups[self.stream_count + operator]
            for arc in group
            if comm_us > 0 and arc.channel not in self.spare_closed and self.crossing(arc, sites) is not None
        )

    def model(self, sites: Sequence[int], arrivals: Sequence[Arrivals]) -> Model:
        """The data plane under a placement (site per operator), fed by one arrival process per stream."""
        parts = [
            SitePart(site.capacity, self.behaviour.oldest_first, self.behaviour.to_completion)
            for site in self.problem.sites
        ]
        model = Model(sites=parts, sources=list(arrivals), queries=len(self.sinks))
        model.operators = [self._operator_part(j, sites) for j in range(self.operator_count)]
        for relay, site in enumerate(self.relay_sites, start=self.operator_count):
            model.operators.append(OperatorPart(site, send_work_us=self.send_work_us(relay, sites)))
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
            site=int(sites[j]),
            name=operator.name,
            kind=kind,
            window_s=operator.window_s or 0.0,
            slide_s=slides.get(operator.name, slides.get(operator.logical_name, 0.0)),
            service_scv=operator.variability or self.behaviour.service_scv,
            drawn=self.behaviour.drawn or operator.variable,
            send_work_us=self.send_work_us(j, sites),
        )
