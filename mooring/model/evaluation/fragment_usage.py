"""The bytes in flight of one fragment at each possible site, with all others fixed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats
from mooring.model.placement.links import node_flows
from mooring.model.placement.network_metrics import ANYWHERE, node_sites, reader_parts
from mooring.model.placement.placement import Placement
from mooring.model.problem.latencies import Latencies


@dataclass(frozen=True, eq=False)
class Flight:
    """One output on its way from its site to another."""

    node: int
    source_site: int
    target_site: int
    per_second: float
    """Bytes, or tuples where sizes are not known."""
    usage: float
    """In flight."""


def flights(placement: Placement, latency_ms: Latencies) -> list[Flight]:
    """Everything that is in flight between sites, in the problem's order."""
    sites, (flows, _) = node_sites(placement), node_flows(placement.problem)
    found = []
    for (node, target), readers in reader_parts(placement).items():
        source, per_second = int(sites[node]), flows[node] * min(1.0, max(readers.values()))
        if source not in (ANYWHERE, target) and per_second > 0.0:
            found.append((node, source, target, per_second))
    ends = np.array([each[1:3] for each in found], dtype=np.int64).reshape(-1, 2)
    hops = np.asarray(latency_ms[ends[:, 0], ends[:, 1]]).tolist()
    return [Flight(*each, each[3] * hop_ms / 1e3) for each, hop_ms in zip(found, hops, strict=True)]


def usage_by_fragment(placement: Placement, found: list[Flight]) -> Floats:
    """What is in flight to and from each fragment; what two of them share counts for both."""
    problem = placement.problem
    graph = problem.graph
    usage = {(flight.node, flight.target_site): flight.usage for flight in found}
    result = np.zeros(len(problem.fragments))
    owner: dict[int, int] = {}
    for f, members in enumerate(problem.fragments):
        owner |= {graph.stream_count + j: f for j in members}
        site = int(placement.site_of_fragment[f])
        read = {node for j in members for port in graph.ports[j] for node in port}
        result[f] = sum(usage.get((node, site), 0.0) for node in read)
    for flight in found:
        if flight.node in owner:
            result[owner[flight.node]] += flight.usage
    return result


def usage_at_sites(placement: Placement, fragment: int, latency_ms: Latencies) -> Floats:
    """Per site, what is in flight because of the fragment if it is there: its outputs, and of its inputs what
    would not be sent there anyway."""
    problem = placement.problem
    graph, members = problem.graph, problem.fragments[fragment]
    sites, (flows, _) = node_sites(placement), node_flows(problem)
    own_nodes = {graph.stream_count + j for j in members}
    others = reader_parts(placement, without=members)
    result = np.zeros(len(problem.sites))
    for (node, target), readers in others.items():
        if node in own_nodes:
            result += flows[node] * min(1.0, max(readers.values())) * latency_ms[:, target]
    for node, parts in _inputs(placement, fragment, own_nodes).items():
        if sites[node] == ANYWHERE:
            continue
        share = np.full(len(result), min(1.0, max(parts.values())))
        for target in range(len(result)):
            there = others.get((node, target))
            if there is not None:
                joined = max(there.get(reader, 0.0) + part for reader, part in parts.items())
                before = min(1.0, max(there.values()))
                share[target] = max(min(1.0, joined), before) - before
        result += flows[node] * share * latency_ms[sites[node]]
    return result / 1e3


def _inputs(placement: Placement, fragment: int, own_nodes: set[int]) -> dict[int, dict[str, float]]:
    """Per node that the fragment reads, the part that each reading operator takes, over its instances in
    it."""
    problem = placement.problem
    result: dict[int, dict[str, float]] = {}
    for j in problem.fragments[fragment]:
        operator = problem.operators[j]
        for node in (node for port in problem.graph.ports[j] for node in port):
            if node not in own_nodes:
                parts = result.setdefault(node, {})
                parts[operator.logical_name] = parts.get(operator.logical_name, 0.0) + operator.share
    return result
