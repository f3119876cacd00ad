"""A placement as steps that messages pass: which arcs there are, what each costs, and which stay at a site.

Nodes are numbered streams first, then operators, then *relays*: where crossings between sites cost CPU, a
stream that enters at a site and a query are the ends of crossings at which no operator stands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from mooring.arrays import Floats
from mooring.model.load.rates import output_rates
from mooring.model.problem.operator import Operator
from mooring.model.problem.problem import Problem

Link = tuple[int, int]
"""The sites that it joins."""


@dataclass(frozen=True)
class Moments:
    """How many of something there are per tuple: mean and variance."""

    mean: float
    variance: float = 0.0

    @property
    def biased(self) -> float:
        """How many there are where there is one: the mean as those see it that are counted."""
        return 1.0 if self.mean <= 0.0 else self.variance / self.mean + self.mean

    @classmethod
    def whole(cls, mean: float) -> Moments:
        """The whole number below or above the mean, as often as the mean asks for."""
        part = mean - math.floor(mean)
        return cls(mean, part * (1.0 - part))


ONE = Moments(1.0)


@dataclass(frozen=True)
class StepArc:
    """One producer's output on its way to one reader."""

    producer: int
    reader: int | None
    """A node; None: a query."""
    query: int | None
    rate: float
    share: float = 1.0
    """The part of the producer's output that this one of several instances gets."""
    group: tuple[int, int] = (0, 0)
    """Arcs of one producer and group share its output; every group gets all of it."""
    stays: bool = False
    """A message goes on to the reader before the next message begins."""
    latency_s: float = 0.0
    link: Link | None = None
    transfer_s: float = 0.0
    work: Moments = Moments(0.0)
    """Core-seconds that a tuple costs at its reader, what comes of it left out."""
    outputs: Moments = ONE
    """Tuples that its reader puts out for one."""
    covariance: float = 0.0
    """Covariance of work and outputs: a tuple that meets many others in a join has both."""


@dataclass
class Steps:
    stream_count: int
    sites: list[int | None]
    """Per node; None for a stream that is everywhere."""
    send_s: list[float]
    """Per node, core-seconds per output tuple for crossings."""
    arcs: list[StepArc] = field(default_factory=list)
    out: list[list[int]] = field(default_factory=list)
    """Per node, its arcs by number, in the order in which its outputs are sent."""
    order: list[int] = field(default_factory=list)
    """Nodes, producers before readers."""


def steps_of(problem: Problem, site_of_operator: Sequence[int], crossing_costs: bool = True) -> Steps:
    """Every arc of the problem's data plane under a placement, at the present rates; on request without what
    crossings cost in CPU (`comm_us`).
    """
    return _Builder(problem, site_of_operator, crossing_costs).build()


class _Builder:
    def __init__(self, problem: Problem, site_of_operator: Sequence[int], crossing_costs: bool) -> None:
        self.problem, self.network = problem, problem.network
        self.comm_s = self.network.comm_us / 1e6 if crossing_costs else 0.0
        self.streams = problem.graph.stream_count
        sites = [None if s.site is None else problem.site_index[s.site] for s in problem.streams]
        self.steps = Steps(self.streams, [*sites, *(int(site) for site in site_of_operator)], [])
        self.rates: Floats = output_rates(problem)
        self.fragment_of = {j: f for f, members in enumerate(problem.fragments) for j in members}
        self.bytes = node_bytes(problem)
        self.relay_of_stream: dict[int, int] = {}
        self.relay_of_query: dict[int, int] = {}

    def build(self) -> Steps:
        steps, graph = self.steps, self.problem.graph
        steps.order = [*range(self.streams), *(self.streams + j for j in graph.order)]
        if self.comm_s > 0.0:
            self._add_relays()
        for j, operator in enumerate(self.problem.operators):
            for port, producers in enumerate(graph.ports[j]):
                for node in producers:
                    self._to_operator(node, j, port)
            for name in operator.load or ():
                self._loaded(self.problem.stream_index[name], j)
        for q, query in enumerate(self.problem.queries):
            for node in self.problem.nodes_by_name[query.reads]:
                self._to_query(node, q)
        steps.out = [[] for _ in steps.sites]
        steps.send_s = [0.0] * len(steps.sites)
        for number, arc in enumerate(steps.arcs):
            steps.out[arc.producer].append(number)
            if arc.link is not None:
                steps.send_s[arc.producer] += arc.share * self.comm_s
        return steps

    def _add_relays(self) -> None:
        """One at the site of every stream that has one, and of every query."""
        for stream in range(self.streams):
            if (site := self.steps.sites[stream]) is not None:
                self.relay_of_stream[stream] = self._relay(site)
        self.steps.order = [
            *range(self.streams),
            *self.relay_of_stream.values(),
            *self.steps.order[self.streams :],
        ]
        for q, query in enumerate(self.problem.queries):
            self.relay_of_query[q] = self._relay(self.problem.site_index[query.site])
            self.steps.order.append(self.relay_of_query[q])
            self.steps.arcs.append(StepArc(self.relay_of_query[q], None, q, self._rate_of(query.reads)))
        for stream, relay in self.relay_of_stream.items():
            self.steps.arcs.append(StepArc(stream, relay, None, float(self.rates[stream])))

    def _relay(self, site: int) -> int:
        self.steps.sites.append(site)
        return len(self.steps.sites) - 1

    def _rate_of(self, name: str) -> float:
        return float(sum(self.rates[node] for node in self.problem.nodes_by_name[name]))

    def _sender(self, node: int) -> int:
        """The node, or the relay that sends a stream's tuples on."""
        return self.relay_of_stream.get(node, node)

    def _to_operator(self, node: int, j: int, port: int) -> None:
        operator = self.problem.operators[j]
        reader = self.streams + j
        sender = self._sender(node)
        between = node >= self.streams and self.fragment_of[node - self.streams] != self.fragment_of[j]
        link, latency_s = self._crossing(sender, reader)
        latency_s += self.network.channel_ms / 1e3 if between else 0.0
        work, outputs, shared = self._per_tuple(operator, j, port)
        receive_s = self.comm_s if link is not None else 0.0
        self.steps.arcs.append(
            StepArc(
                sender,
                reader,
                None,
                float(self.rates[node]) * operator.share,
                share=operator.share,
                # The instances of a split operator share one producer's output.
                group=(self.problem.nodes_by_name[operator.logical_name][0] - self.streams, port),
                stays=sender >= self.streams
                and latency_s == 0.0
                and self.steps.sites[sender] == self.steps.sites[reader],
                latency_s=latency_s,
                link=link,
                transfer_s=self._transfer_s(link, node),
                work=Moments(work.mean + receive_s, work.variance),
                outputs=outputs,
                covariance=shared,
            )
        )

    def _loaded(self, stream: int, j: int) -> None:
        """An operator whose load is given directly is charged that and nothing else."""
        operator = self.problem.operators[j]
        cores = (operator.load or {})[self.problem.streams[stream].name]
        work = Moments(cores, operator.variability * cores**2)
        reader = self.streams + j
        sender = self._sender(stream)
        stays = sender >= self.streams and self.steps.sites[sender] == self.steps.sites[reader]
        rate = float(self.rates[stream])
        self.steps.arcs.append(
            StepArc(sender, reader, None, rate, group=(~j, 0), stays=stays, work=work, outputs=Moments(0.0))
        )

    def _to_query(self, node: int, q: int) -> None:
        target = self.problem.site_index[self.problem.queries[q].site]
        relay = self.relay_of_query.get(q)
        link, latency_s = self._crossing_to(node, target)
        receive_s = self.comm_s if link is not None else 0.0
        self.steps.arcs.append(
            StepArc(
                node,
                relay,
                None if relay is not None else q,
                float(self.rates[node]),
                group=(len(self.problem.operators) + q, 0),
                stays=relay is not None and link is None,
                latency_s=latency_s,
                link=link,
                transfer_s=self._transfer_s(link, node),
                work=Moments(receive_s),
            )
        )

    def _per_tuple(self, operator: Operator, j: int, port: int) -> tuple[Moments, Moments, float]:
        """What a tuple costs and brings: of a join for all the pairs that it is the later side of."""
        name = operator.inputs[port]
        cost_s, selectivity = operator.cost_us_of(name) / 1e6, operator.selectivity_of(name)
        spread = cost_s**2 * operator.variability
        whole = Moments.whole(selectivity)
        ports = self.problem.graph.ports[j]
        if operator.kind == "join":
            other = float(sum(self.rates[node] for node in ports[1 - port]))
            pairs = (operator.window_s or 0.0) / 2.0 * other
            outputs = Moments(pairs * selectivity, pairs * (whole.variance + selectivity**2))
            shared = cost_s * selectivity * pairs
            return Moments(pairs * cost_s, pairs * (spread + cost_s**2)), outputs, shared
        if operator.kind == "aggregate" and operator.window_s is not None:
            rate = operator.share * float(sum(self.rates[node] for node in ports[port]))
            tuples = max(rate * operator.window_s, 1.0)
            per_window = Moments.whole(selectivity * tuples)
            square = (per_window.variance + per_window.mean**2) / tuples
            return Moments(cost_s, spread), Moments(selectivity, square - selectivity**2), 0.0
        return Moments(cost_s, spread), whole, 0.0

    def _crossing(self, sender: int, reader: int) -> tuple[Link | None, float]:
        site = self.steps.sites[reader]
        assert site is not None  # only streams are everywhere
        return self._crossing_to(sender, site)

    def _crossing_to(self, sender: int, target: int) -> tuple[Link | None, float]:
        source = self.steps.sites[sender]
        if source is None or source == target:
            return None, 0.0
        latency_ms = self.network.latency_ms
        return (source, target), 0.0 if latency_ms is None else float(latency_ms[source, target]) / 1e3

    def _transfer_s(self, link: Link | None, node: int) -> float:
        bandwidth = self.network.bandwidth
        if link is None or bandwidth is None:
            return 0.0
        return float(self.bytes[node] / bandwidth[link])


def node_bytes(problem: Problem) -> list[float]:
    """Bytes per tuple; an operator that states none has its widest input's. What is not known counts 0."""
    found = [stream.bytes or 0.0 for stream in problem.streams] + [0.0] * len(problem.operators)
    for j in problem.graph.order:
        stated = problem.operators[j].bytes
        inputs = [found[node] for port in problem.graph.ports[j] for node in port]
        found[problem.graph.stream_count + j] = max(inputs, default=0.0) if stated is None else stated
    return found
