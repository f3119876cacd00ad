"""The network metrics of a placement: bytes in flight, bandwidth, latency and delay penalty.

An output read by several consumers at one site is delivered there once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET, UnsetType

from mooring.arrays import Ints
from mooring.model.load.rates import output_rates
from mooring.model.placement.links import node_bytes
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem

ANYWHERE = -1
"""The site of a stream that is reachable from everywhere."""
MOST_HOPS = 50_000_000
"""Pairs of sites, over all operators, among which `least_latencies_ms` searches: half a second."""


@dataclass(frozen=True)
class Delivery:
    """Tuples of one node's output that travel from one site to another."""

    node: int
    source_site: int
    target_site: int
    rate: float


def deliveries(placement: Placement, rates: npt.ArrayLike | None = None) -> list[Delivery]:
    """Everything that crosses between sites at given stream rates (default: the present ones)."""
    sites = node_sites(placement)
    out = output_rates(placement.problem, rates)
    return [
        Delivery(node, int(sites[node]), int(target), float(out[node] * min(1.0, max(readers.values()))))
        for (node, target), readers in reader_parts(placement).items()
        if sites[node] not in (ANYWHERE, target) and out[node] > 0.0
    ]


def reader_parts(
    placement: Placement, without: Collection[int] = ()
) -> dict[tuple[int, int], dict[str, float]]:
    """Per node and target site: the part that each reading operator takes, over all its instances there, and
    each query; some operators may be left out."""
    problem = placement.problem
    graph = problem.graph
    sites = placement.site_of_operator.tolist()
    parts: dict[tuple[int, int], dict[str, float]] = {}
    for j, ports in enumerate(graph.ports):
        if j in without:
            continue
        operator = problem.operators[j]
        for node in (node for port in ports for node in port):
            readers = parts.setdefault((node, sites[j]), {})
            readers[operator.logical_name] = readers.get(operator.logical_name, 0.0) + operator.share
    for query in problem.queries:
        for node in _instances(problem, query.reads):
            parts.setdefault((node, problem.site_index[query.site]), {})[f"query {query.name}"] = 1.0
    return parts


def node_sites(placement: Placement) -> Ints:
    """The site of every stream and operator."""
    problem = placement.problem
    streams = [ANYWHERE if s.site is None else problem.site_index[s.site] for s in problem.streams]
    return np.concatenate([np.array(streams, dtype=np.int64), placement.site_of_operator])


class NetworkMetrics(msgspec.Struct, frozen=True):
    """Each only where the problem states what it needs."""

    bandwidth: float | UnsetType = UNSET
    network_usage: float | UnsetType = UNSET
    latency_ms: dict[str, float] | UnsetType = UNSET
    delay_penalty: float | UnsetType = UNSET
    qos_met: float | UnsetType = UNSET


def network_metrics(placement: Placement) -> NetworkMetrics:
    problem = placement.problem
    metrics = NetworkMetrics()
    crossing = deliveries(placement)
    size = node_bytes(problem)
    latency_ms = problem.network.latency_ms
    if all(size[delivery.node] is not None for delivery in crossing):
        flows = [(d, d.rate * (size[d.node] or 0.0)) for d in crossing]
        metrics = msgspec.structs.replace(metrics, bandwidth=float(sum(flow for _, flow in flows)))
        if latency_ms is not None:
            source = np.array([d.source_site for d in crossing], dtype=np.int64)
            hops = _hops_ms(problem, source, np.array([d.target_site for d in crossing], dtype=np.int64))
            usage = float(sum(flow * hop_ms / 1e3 for (_, flow), hop_ms in zip(flows, hops, strict=True)))
            metrics = msgspec.structs.replace(metrics, network_usage=usage)
    if problem.queries and (latency_ms is not None or len(problem.sites) == 1):
        metrics = _with_latencies(metrics, placement)
    return metrics


def _with_latencies(metrics: NetworkMetrics, placement: Placement) -> NetworkMetrics:
    problem = placement.problem
    with_channels = ways_ms(placement)
    bare = query_latencies_ms(placement, channel_ms=0.0)
    direct = direct_latencies_ms(problem)
    penalties = [bare[q] / direct[q] - 1.0 for q in range(len(problem.queries)) if direct[q] > 0.0]
    limited = [
        with_channels[q] <= query.max_latency_ms
        for q, query in enumerate(problem.queries)
        if query.max_latency_ms is not None
    ]
    limited += [False] * len(placement.rejected)
    return msgspec.structs.replace(
        metrics,
        latency_ms={query.name: with_channels[q] for q, query in enumerate(problem.queries)},
        delay_penalty=float(np.mean(penalties)) if penalties else UNSET,
        qos_met=float(np.mean(limited)) if limited else UNSET,
    )


def ways_ms(placement: Placement) -> list[float]:
    """Per query: network, channels and, where fragments run in micro-batches, the waits for their triggers.
    Queues and batches come on top.
    """
    network = placement.problem.network
    return [network.entry_ms + way_ms for way_ms in query_latencies_ms(placement, channel_ms=network.hop_ms)]


def query_latencies_ms(placement: Placement, *, channel_ms: float) -> list[float]:
    """Per query: the longest way from a stream to it, network plus one channel between any two fragments."""
    problem = placement.problem
    graph = problem.graph
    sites = node_sites(placement)
    fragment_of = problem.fragment_of_operator.tolist()
    streams = graph.stream_count
    arcs = [(node, streams + j) for j in graph.order for port in graph.ports[j] for node in port]
    hops = iter(_hops_ms(problem, sites[[node for node, _ in arcs]], sites[[here for _, here in arcs]]))
    reached = [0.0] * (streams + len(problem.operators))
    for node, here in arcs:
        between = node >= streams and fragment_of[node - streams] != fragment_of[here - streams]
        arrival = reached[node] + next(hops) + (channel_ms if between else 0.0)
        reached[here] = max(reached[here], arrival)
    ends = [(node, q) for q, query in enumerate(problem.queries) for node in _instances(problem, query.reads)]
    at = [problem.site_index[problem.queries[q].site] for _, q in ends]
    last = _hops_ms(problem, sites[[node for node, _ in ends]], np.array(at, dtype=np.int64))
    found = [0.0] * len(problem.queries)
    for (node, q), hop_ms in zip(ends, last, strict=True):
        found[q] = max(found[q], reached[node] + hop_ms)
    return found


def direct_latencies_ms(problem: Problem) -> list[float]:
    """Per query: the latency from the farthest of its streams straight to it."""
    graph = problem.graph
    sources: list[frozenset[int]] = [frozenset([k]) for k in range(graph.stream_count)]
    sources += [frozenset()] * len(problem.operators)
    for j in graph.order:
        sources[graph.stream_count + j] = frozenset().union(
            *(sources[n] for port in graph.ports[j] for n in port)
        )
    result = []
    for query in problem.queries:
        streams = frozenset().union(*(sources[node] for node in _instances(problem, query.reads)))
        entries = [problem.streams[k].site for k in streams]
        there = np.array([problem.site_index[site] for site in entries if site is not None], dtype=np.int64)
        here = np.full_like(there, problem.site_index[query.site])
        result.append(max(_hops_ms(problem, there, here), default=0.0))
    return result


def least_latencies_ms(problem: Problem) -> list[float]:
    """Per query: no placement that respects the pins is below this, queues aside. Zero where latencies are
    unknown, or the search over the sites of every operator would be long.
    """
    latency_ms, sites = problem.network.latency_ms, len(problem.sites)
    if latency_ms is None or len(problem.operators) * sites * sites > MOST_HOPS:
        return [0.0] * len(problem.queries)
    every = np.arange(sites)
    matrix = np.asarray(latency_ms[np.repeat(every, sites), np.tile(every, sites)]).reshape(sites, sites)
    graph, streams = problem.graph, problem.graph.stream_count
    fragment_of = problem.fragment_of_operator.tolist()
    pins = {
        fragment_of[j]: problem.site_index[own.site]
        for j, own in enumerate(problem.operators)
        if own.site is not None
    }
    reached = [np.full(sites, np.inf) for _ in range(streams)] + [np.zeros(sites) for _ in problem.operators]
    for k, stream in enumerate(problem.streams):
        where = slice(None) if stream.site is None else problem.site_index[stream.site]
        reached[k][where] = 0.0
    for j in graph.order:
        here, pin = streams + j, pins.get(fragment_of[j])
        for node in (node for port in graph.ports[j] for node in port):
            inside = node >= streams and fragment_of[node - streams] == fragment_of[j]
            arrival = reached[node] if inside else (reached[node][:, None] + matrix).min(axis=0)
            if node >= streams and not inside:
                arrival = arrival + problem.network.hop_ms
            reached[here] = np.maximum(reached[here], arrival)
        if pin is not None:
            reached[here] = np.where(every == pin, reached[here], np.inf)
    return [
        problem.network.entry_ms
        + max(
            float((reached[node] + matrix[:, problem.site_index[query.site]]).min())
            for node in _instances(problem, query.reads)
        )
        for query in problem.queries
    ]


def _hops_ms(problem: Problem, source: Ints, target: Ints) -> list[float]:
    """Of pairs of sites; zero from a stream that is everywhere."""
    latency_ms = problem.network.latency_ms
    if latency_ms is None or not len(source):
        return [0.0] * len(source)
    hops = np.where(source == ANYWHERE, 0.0, latency_ms[np.maximum(source, 0), target])
    return [float(hop_ms) for hop_ms in hops]


def _instances(problem: Problem, name: str) -> list[int]:
    """Nodes of an operator named in the problem file; several where it is split by key."""
    return problem.nodes_by_name[name]
