"""A placement by the preferences of its problem: weighted costs without units, less is best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec import UNSET

from mooring.arrays import Floats
from mooring.model.evaluation.metrics import Metrics
from mooring.model.load.feasible.true_feasible_set import loading_axes
from mooring.model.load.model import LoadModel
from mooring.model.load.rates import output_rates
from mooring.model.placement.links import node_flows
from mooring.model.placement.network_metrics import deliveries
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem

WORST = 1e3
"""The cost of what has no figure because a site is full."""
LEAST_SCALE_MS = 1.0


@dataclass(frozen=True, eq=False)
class Preferences:
    """The weights of a problem's preferences, and what its costs are measured in."""

    problem: Problem
    model: LoadModel

    @cached_property
    def weights(self) -> dict[str, float]:
        """As stated; else what the problem has figures for, each alike."""
        stated = self.problem.goals.prefer
        if stated is None:
            return {name: 1.0 for name in ("feasible_ratio", "bytes_in_flight", "latency") if self.has(name)}
        return {name: weight for name, weight in stated.items() if self.has(name)}

    def has(self, name: str) -> bool:
        """Whether the problem has the figures for it."""
        problem = self.problem
        if name == "bytes_in_flight":
            return problem.network.latency_ms is not None and self.in_flight > 0.0
        if name == "latency":
            return problem.network.latency_ms is not None and bool(problem.queries)
        return name != "feasible_ratio" or bool(len(self.model.active))

    @cached_property
    def link_ms(self) -> float:
        """The mean latency between two sites."""
        latency_ms, count = self.problem.network.latency_ms, len(self.problem.sites)
        if latency_ms is None or count < 2:
            return 0.0
        # Of many sites, some pairs do: the scale need not be exact, and is the same for all placements.
        step = max(count * count // 1_000_000, 1)
        pairs = np.arange(0, count * count, step)
        apart = pairs[pairs // count != pairs % count]
        return float(np.mean(latency_ms[apart // count, apart % count]))

    @cached_property
    def in_flight(self) -> float:
        """If every output that is read crossed one link of mean latency."""
        problem = self.problem
        flows, ports = node_flows(problem)[0], problem.graph.ports
        read = {node for own in ports for port in own for node in port}
        read |= {node for query in problem.queries for node in problem.nodes_by_name[query.reads]}
        return sum(flows[node] for node in read) * self.link_ms / 1e3

    @cached_property
    def latency_ms(self) -> float:
        return max(self.link_ms + self.problem.network.channel_ms, LEAST_SCALE_MS)

    @cached_property
    def prices(self) -> Floats:
        """Of each site, as a share of all."""
        prices = np.array([site.price for site in self.problem.sites])
        return prices / (float(prices.sum()) or 1.0)

    def costs(
        self, placement: Placement, metrics: Metrics, current: Placement | None = None
    ) -> dict[str, float]:
        """Of every preference that has a weight."""
        return {name: self._cost(name, placement, metrics, current) for name in self.weights}

    def value(self, costs: dict[str, float]) -> float:
        return sum(self.weights[name] * cost for name, cost in costs.items())

    def _cost(self, name: str, placement: Placement, metrics: Metrics, current: Placement | None) -> float:
        if name == "headroom":
            factor = metrics.headroom.factor
            return 0.0 if factor is None else min(1.0 / max(factor, 1e-9), WORST)
        if name == "feasible_ratio":
            return 1.0 - self._range(metrics)
        if name == "bytes_in_flight":
            return _in_flight(placement) / self.in_flight
        if name == "latency":
            return self._latency(metrics)
        if name == "moves":
            if current is None or len(current.site_of_fragment) != len(placement.site_of_fragment):
                return 0.0
            return float(np.mean(current.site_of_fragment != placement.site_of_fragment))
        used = np.unique(placement.site_of_fragment)
        return float(self.prices[used].sum()) if name == "price" else len(used) / len(self.problem.sites)

    def _range(self, metrics: Metrics) -> float:
        """What a feasible ratio leaves of the ideal range of each variable."""
        ratio, variables = metrics.true_feasible_ratio, len(loading_axes(self.model))
        if not isinstance(ratio, float):
            logarithm, variables = metrics.feasible_ratio_log10, len(self.model.active)
            if logarithm is not UNSET:
                return 10.0 ** (logarithm / variables) if isinstance(logarithm, float) else 0.0
            ratio = metrics.feasible_ratio or 0.0
        return float(ratio ** (1.0 / max(variables, 1)))

    def _latency(self, metrics: Metrics) -> float:
        found = metrics.latency_queued_ms
        if found is UNSET or not isinstance(found, dict) or not found:
            return WORST
        each = [math.inf if ms is None else ms for ms in found.values()]
        return min(float(np.mean(each)) / self.latency_ms, WORST)


def _in_flight(placement: Placement) -> float:
    """Bytes, or tuples where sizes are not known."""
    problem = placement.problem
    latency_ms, (flows, _) = problem.network.latency_ms, node_flows(problem)
    assert latency_ms is not None
    crossing = deliveries(placement)
    if not crossing:
        return 0.0
    ends = np.array([(each.source_site, each.target_site) for each in crossing])
    out = output_rates(problem)
    parts = np.array([each.rate / out[each.node] * flows[each.node] for each in crossing])
    return float(parts @ latency_ms[ends[:, 0], ends[:, 1]]) / 1e3
