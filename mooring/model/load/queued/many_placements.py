"""Latencies of many placements of one problem: what does not depend on the placement is worked out once, and
the rest is compiled.

Crossings that cost CPU (`comm_us`) are left out here; where a problem has them, use `queued_latencies`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.model.load.queued.arrival_variability import arrival_variability
from mooring.model.load.queued.latencies import QueuedLatencies
from mooring.model.load.queued.latency_kernels import Template, evaluate
from mooring.model.load.queued.steps import StepArc, Steps, node_bytes, steps_of
from mooring.model.load.queued.way_kernels import ways_of
from mooring.model.problem.problem import Problem


@dataclass(frozen=True)
class ManyPlacements:
    """Of one problem.

    >>> problem = Problem.from_dict({
    ...     "sites": {"a": {"capacity": 1}, "b": {"capacity": 2}},
    ...     "latency_ms": {"a": {"b": 1}},
    ...     "streams": {"packets": {"rate": 500, "site": "a"}},
    ...     "operators": {"count": {"inputs": ["packets"], "cost_us": 1000, "variability": 1}},
    ...     "queries": {"counts": {"reads": "count", "site": "a"}},
    ... })
    >>> many = ManyPlacements.of(problem)
    >>> [round(1e3 * float(many.latencies(np.array([site])).query_s[0]), 3) for site in (0, 1)]
    [2.0, 2.667]
    """

    template: Template
    arcs: tuple[StepArc, ...]
    """In the template's order."""

    @classmethod
    def of(cls, problem: Problem) -> ManyPlacements:
        steps = _anywhere(problem)
        arcs = tuple(steps.arcs[a] for out in steps.out for a in out)
        return cls(_template(problem, steps, arcs), arcs)

    def latencies(self, site_of_fragment: Ints) -> QueuedLatencies:
        query_s = np.zeros(len(self.template.query_site))
        wait_s, utilisation = np.zeros((2, len(self.template.capacity_cores)))
        evaluate(self.template, site_of_fragment, query_s, wait_s, utilisation)
        return QueuedLatencies(query_s, wait_s, utilisation)

    @cached_property
    def weights(self) -> Floats:
        """Per arc: by how much the mean latency of all queries grows with its delay. Results are followed
        backwards, by the shares in which they come."""
        weights, of_node = np.zeros(len(self.arcs)), np.zeros(len(self.template.fragment_of))
        template, by_reader = self.template, self._by_reader()
        queries, made = max(len(template.query_site), 1), template.rate * template.out_mean
        for q in range(len(template.query_site)):
            _divide(1.0 / queries, by_reader.get(~q, []), template.rate, weights)
        for node in reversed(template.order.tolist()):
            of_node[node] = weights[template.out_start[node] : template.out_start[node + 1]].sum()
            _divide(of_node[node], by_reader.get(node, []), made, weights)
        return weights

    def _by_reader(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for a, (reader, query) in enumerate(zip(self.template.reader, self.template.query, strict=True)):
            found.setdefault(int(reader) if reader >= 0 else ~int(query), []).append(a)
        return found


def _divide(whole: float, arcs: list[int], by: Floats, weights: Floats) -> None:
    total = sum(float(by[a]) for a in arcs)
    for a in arcs:
        weights[a] = whole * float(by[a]) / total if total > 0.0 else 0.0


def _anywhere(problem: Problem) -> Steps:
    """Rates and work per tuple are the same under all placements."""
    return steps_of(problem, [0] * len(problem.operators), crossing_costs=False)


def _template(problem: Problem, steps: Steps, arcs: tuple[StepArc, ...]) -> Template:
    count, streams = len(problem.sites), problem.graph.stream_count
    fragment_of = np.full(len(steps.sites), -1, np.int64)
    for f, members in enumerate(problem.fragments):
        fragment_of[[streams + j for j in members]] = f
    channel_s = problem.network.channel_ms / 1e3
    groups: dict[tuple[int, tuple[int, int]], int] = {}
    sizes = node_bytes(problem)
    latency_ms, bandwidth = problem.network.latency_ms, problem.network.bandwidth
    stream_site = [-1 if s.site is None else problem.site_index[s.site] for s in problem.streams]

    def ints(values: list[int]) -> Ints:
        return np.array(values, dtype=np.int64)

    def floats(values: list[float]) -> Floats:
        return np.array(values, dtype=np.float64)

    def crosses_channel(arc: StepArc) -> bool:
        if arc.reader is None or arc.producer < streams:
            return False
        return bool(fragment_of[arc.producer] != fragment_of[arc.reader])

    def at_source(arc: StepArc) -> float:
        if arc.producer >= streams:
            return float("nan")
        return 1.0 + arc.share * (arrival_variability(problem, arc.producer) - 1.0)

    return Template(
        streams,
        ints(stream_site),
        fragment_of,
        ints(steps.order),
        np.concatenate([[0], np.cumsum([len(out) for out in steps.out])]).astype(np.int64),
        ints([arc.producer for arc in arcs]),
        ints([-1 if arc.reader is None else arc.reader for arc in arcs]),
        ints([-1 if arc.query is None else arc.query for arc in arcs]),
        floats([arc.rate for arc in arcs]),
        floats([arc.share for arc in arcs]),
        ints([groups.setdefault((arc.producer, arc.group), len(groups)) for arc in arcs]),
        floats([arc.work.mean for arc in arcs]),
        floats([arc.work.variance for arc in arcs]),
        floats([arc.outputs.mean for arc in arcs]),
        floats([arc.outputs.variance for arc in arcs]),
        floats([arc.covariance for arc in arcs]),
        floats([channel_s if crosses_channel(arc) else 0.0 for arc in arcs]),
        floats([sizes[arc.producer] for arc in arcs]),
        floats([at_source(arc) for arc in arcs]),
        ints([problem.site_index[query.site] for query in problem.queries]),
        ways_of(latency_ms, count),
        np.zeros((0, 0)) if bandwidth is None else np.ascontiguousarray(bandwidth, dtype=np.float64),
        np.ascontiguousarray(problem.capacity_cores, dtype=np.float64),
        floats([sum(problem.operators[j].fixed_cores for j in own) for own in problem.fragments]),
    )
