"""A lower bound of all placements on bytes in flight, which shows how much could be saved.

If every output had one reader, the bytes in flight would be a sum over links, and where links form trees its
least is found exactly (`trees`). Everything that is in the way of that is left out or weighed down, which can
only lower the sum:

- Sites are taken to have room for everything.
- An output with several readers is sent to a site once, at the largest rate that any of them takes there. A
  maximum is at least a weighted mean, so a reader's link counts with a weight that depends on the site, and
  at every site the weights of all readers add up to 1. Who is nailed to a site has all of it there.
- Where links form a cycle, the lightest of them are left out.

Any weights will do; the bound is highest where each reader has weight at the sites that are good for it. So
it is computed in rounds: a site that costs a reader more than others loses weight to those who want it. (That
is a dual ascent. Over streams shared by three readers or twelve, on 100 sites, 24 rounds came within 1 to 4%
of the best placements that a local search found; equal weights were 15 to 40% short.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.model.placement.links import node_ends, node_flows
from mooring.model.placement.trees import TreeCosts
from mooring.model.problem.latencies import as_matrix
from mooring.model.problem.problem import Problem

MOST_CELLS = 100_000_000
"""Links between fragments x sites^2, over all rounds: about half a second. The heaviest links are kept."""
MOST_WEIGHTS = 3_000_000
"""Fragments x sites: each has a weight and a cost."""
MOST_CHARGES = 20_000
"""Readers, over all rounds: about a quarter of a second."""
ROUNDS = 24
STEP = 1.5
"""How fast weight goes where a site costs a reader as much as the mean one, in the first round: by e^-1.5."""


@dataclass(frozen=True, eq=False)
class _Output:
    """What one node puts out, and who reads it elsewhere."""

    source: int
    """A fragment, or ~site."""
    flow: float
    nailed: dict[int, float]
    """Site -> the largest part of the flow that anybody nailed there takes."""
    free: list[dict[int, float]]
    """Per reader that is free (an operator with all its instances): fragment -> the part it takes."""


def is_affordable(problem: Problem) -> bool:
    """Whether the bound takes no more than placing does: a fraction of a second."""
    return len(problem.fragments) * len(problem.sites) <= MOST_WEIGHTS


def least_network_usage(problem: Problem, pinned_site: Ints) -> float:
    """Bytes (or tuples, where sizes are not known) that are in flight whatever the placement."""
    latency_ms = problem.network.latency_ms
    if latency_ms is None:
        return 0.0
    outputs = _outputs(problem, pinned_site)
    latency_ms = as_matrix(latency_ms)
    links = _forest(outputs, len(pinned_site), MOST_CELLS // len(latency_ms) ** 2)
    wanted = np.zeros((len(pinned_site), len(latency_ms)))
    best = 0.0
    for round_ in range(_rounds(outputs, len(links), len(latency_ms))):
        costs = TreeCosts(latency_ms, pinned_site)
        weights = np.exp(wanted)
        nailed = [_charge(costs, output, weights, links, latency_ms) for output in outputs]
        trees = costs.place()
        assert trees is not None
        best = max(best, sum(nailed) + float(trees.cost.sum()))
        over = costs.own - costs.own.min(axis=1, keepdims=True)
        wanted -= STEP / (1 + round_) * over / np.maximum(over.mean(axis=1, keepdims=True), 1e-300)
        wanted -= wanted.max(axis=1, keepdims=True)
    return best / 1e3


def _rounds(outputs: list[_Output], links: int, sites: int) -> int:
    """One where nothing is shared, else as many as there is time for."""
    if all(len(output.free) < 2 for output in outputs):
        return 1
    readers = sum(len(output.free) for output in outputs)
    affordable = min(MOST_CHARGES // readers, MOST_CELLS // max(links * sites**2, 1))
    return min(max(affordable, 1), ROUNDS)


def _charge(
    costs: TreeCosts, output: _Output, wanted: Floats, links: set[tuple[int, int]], latency_ms: Floats
) -> float:
    """Charge the readers of one output; returns what is between nailed ends."""
    source = output.source
    nailed = 0.0
    for site, part in output.nailed.items():
        if source < 0:
            nailed += output.flow * part * float(latency_ms[~source, site])
        else:
            costs.own[source] += output.flow * part * latency_ms[:, site]
    claims = np.array([wanted[list(parts)].max(axis=0) for parts in output.free])
    weights = claims / np.maximum(claims.sum(axis=0), 1e-300)
    for parts, weight in zip(output.free, weights, strict=True):
        weight[list(output.nailed)] = 0.0
        for fragment, part in parts.items():
            if source < 0:
                costs.own[fragment] += output.flow * part * weight * latency_ms[~source]
            elif (source, fragment) in links:
                costs.between(source, fragment, output.flow * part, weight)
    return nailed


def _outputs(problem: Problem, pinned_site: Ints) -> list[_Output]:
    """Of the nodes whose output can cross between sites."""
    graph, (flows, _) = problem.graph, node_flows(problem)
    ends = node_ends(problem, pinned_site)
    parts: dict[int, dict[str, dict[int, float]]] = {}

    def add(node: int, reader: str, target: int | None, part: float) -> None:
        source = ends[node]
        if source is not None and target is not None and source != target and flows[node] > 0.0:
            own = parts.setdefault(node, {}).setdefault(reader, {})
            own[target] = min(own.get(target, 0.0) + part, 1.0)

    for j, ports in enumerate(graph.ports):
        operator, target = problem.operators[j], ends[graph.stream_count + j]
        for node in dict.fromkeys(node for port in ports for node in port):
            add(node, f"operator {operator.logical_name}", target, operator.share)
    for query in problem.queries:
        for node in problem.nodes_by_name[query.reads]:
            add(node, f"query {query.name}", ~problem.site_index[query.site], 1.0)
    return [_output(ends[node], flows[node], list(own.values())) for node, own in parts.items()]


def _output(source: int | None, flow: float, readers: list[dict[int, float]]) -> _Output:
    assert source is not None
    nailed: dict[int, float] = {}
    for parts in readers:
        for target, part in parts.items():
            if target < 0:
                nailed[~target] = max(nailed.get(~target, 0.0), part)
    free = [{target: part for target, part in parts.items() if target >= 0} for parts in readers]
    return _Output(source, flow, nailed, [parts for parts in free if parts])


def _forest(outputs: list[_Output], fragments: int, most: int) -> set[tuple[int, int]]:
    """Pairs of free fragments whose links form no cycle, both ways round: the heaviest, at most so many."""
    flows: dict[tuple[int, int], float] = {}
    for output in outputs:
        for parts in output.free:
            for fragment, part in parts.items() if output.source >= 0 else ():
                pair = min(output.source, fragment), max(output.source, fragment)
                flows[pair] = flows.get(pair, 0.0) + output.flow * part
    group = list(range(fragments))

    def root(fragment: int) -> int:
        while group[fragment] != fragment:
            group[fragment] = group[group[fragment]]
            fragment = group[fragment]
        return fragment

    kept: set[tuple[int, int]] = set()
    for a, b in sorted(flows, key=lambda pair: -flows[pair])[: max(most, 1)]:
        if root(a) != root(b):
            group[root(a)] = root(b)
            kept |= {(a, b), (b, a)}
    return kept
