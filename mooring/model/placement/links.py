"""Flows between the fragments of a problem, the sites of its streams and those of its queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from mooring.arrays import Ints
from mooring.model.load.rates import output_rates
from mooring.model.problem.problem import Problem


class Link(NamedTuple):
    """A flow of one node's output; an end is a fragment, or ~site where it is nailed down."""

    node: int
    """The stream or operator whose output flows: readers of one node at one site get it once."""
    source: int
    target: int
    rate: float
    """Bytes per second; tuples per second where some sizes of tuples are not known."""


def problem_links(problem: Problem, pinned_site: Ints) -> list[Link]:
    """Every flow between the fragments of a problem, its streams' sites and its queries' sites."""
    graph = problem.graph
    flow, _ = node_flows(problem)
    end_of = node_ends(problem, pinned_site)
    links: dict[tuple[int, int, int], float] = {}
    for j, ports in enumerate(graph.ports):
        target = end_of[graph.stream_count + j]
        for node in (node for port in ports for node in port):
            source = end_of[node]
            if source is not None and target is not None and source != target:
                key = node, source, target
                links[key] = min(links.get(key, 0.0) + flow[node] * problem.operators[j].share, flow[node])
    for query in problem.queries:
        for node in problem.nodes_by_name[query.reads]:
            source = end_of[node]
            if source is not None and source != ~problem.site_index[query.site]:
                links[node, source, ~problem.site_index[query.site]] = flow[node]
    return [Link(*key, rate) for key, rate in links.items()]


def node_ends(problem: Problem, pinned_site: Ints) -> Sequence[int | None]:
    """Per node: its fragment, or ~site where it is nailed down; None for a stream that is everywhere."""
    streams = [None if s.site is None else ~problem.site_index[s.site] for s in problem.streams]
    operators: list[int | None] = [None] * len(problem.operators)
    for f, members in enumerate(problem.fragments):
        for j in members:
            operators[j] = f if pinned_site[f] < 0 else ~int(pinned_site[f])
    return [*streams, *operators]


def node_flows(problem: Problem) -> tuple[list[float], Literal["B", "tuples"]]:
    """Per second out of every node at the present rates, and in what: tuples where some sizes are not
    known."""
    out, sizes = output_rates(problem, None).tolist(), node_bytes(problem)
    if any(size is None for size in sizes):
        return out, "tuples"
    return [rate * float(size or 0.0) for rate, size in zip(out, sizes, strict=True)], "B"


def node_bytes(problem: Problem) -> list[float | None]:
    """Bytes per tuple of every node's output: its own, or those of its widest input; None where not known."""
    graph = problem.graph
    result: list[float | None] = [stream.bytes for stream in problem.streams]
    result += [operator.bytes for operator in problem.operators]
    for j in graph.order:
        if result[graph.stream_count + j] is None:
            inputs = [result[node] for port in graph.ports[j] for node in port]
            if inputs and all(size is not None for size in inputs):
                result[graph.stream_count + j] = max(size for size in inputs if size is not None)
    return result
