"""Plans for statistics that are known with an error only.

A measured cost or selectivity is the truth times a factor uniform in [1 - e, 1 + e] (section 7.3.6). Every
scenario gets a draw of the truth of its own: a direction in the ideal set of that truth, and the loads it would
cause there. A plan that does well on all of them does not rely on any particular statistics.

An operator's load scales with the draw of its cost and those of the selectivities on the way to it. Where ways
meet, they count by their present rates; the pairs of a join scale with both sides. Load at the lower bounds and of
crossings is taken as measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from mooring.load.model import Floats, Ints, LoadModel
from mooring.load.rates import output_rates
from mooring.placement.scenarios import Scenarios, scenario_value, simplex_directions, volume_scenarios
from mooring.problem.problem import Problem

JUDGES = 4096
MOST_CELLS = 32_000_000


@dataclass(frozen=True, eq=False)
class Robust:
    """The mean feasible ratio over the truths that the stated errors allow."""

    problem: Problem
    model: LoadModel
    errors: Floats
    """Per operator, relative."""

    def scenarios(self, count: int, rng: np.random.Generator) -> Scenarios:
        nominal = volume_scenarios(self.model, count, rng)
        model, active = self.model, self.model.active
        directions = simplex_directions(len(active), count, rng)
        factors = load_factors(self.problem, self.errors, count, rng)
        coefficients = model.operator_coefficients[:, active]
        totals = factors.T @ coefficients
        per_unit = coefficients @ (directions / totals).T
        room = 1.0 - float((model.lower[active] * model.totals[active]).sum() / model.capacity_left_cores)
        loads = room * factors * per_unit
        rows = nominal.rows.copy()
        rows[: model.fragment_count, 0, :] = self._gather @ loads
        return replace(nominal, rows=rows)

    def judge(self, site_of_fragment: Ints) -> float:
        return scenario_value(self.model, self._judges, site_of_fragment)

    @cached_property
    def _judges(self) -> Scenarios:
        count = max(256, min(JUDGES, MOST_CELLS // max(self.model.fragment_count, 1)))
        return self.scenarios(count, np.random.default_rng(0))

    @cached_property
    def _gather(self) -> csr_array:
        operators = len(self.problem.operators)
        fragment_of = np.empty(operators, dtype=np.int64)
        for f, members in enumerate(self.problem.fragments):
            fragment_of[list(members)] = f
        shape = (len(self.problem.fragments), operators)
        return csr_array((np.ones(operators), (fragment_of, np.arange(operators))), shape=shape)


def load_factors(problem: Problem, errors: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Operators x draws: the true load of each operator over the load that its statistics say."""
    graph = problem.graph
    rates = output_rates(problem)
    flow = np.ones((graph.stream_count + len(problem.operators), draws))
    result = np.ones((len(problem.operators), draws))
    spread = np.maximum(1.0 + errors[:, None, None] * rng.uniform(-1.0, 1.0, (len(errors), 2, draws)), 1e-3)
    for j in graph.order:
        operator = problem.operators[j]
        ports = [_mixed(flow, rates, port) for port in graph.ports[j]]
        if operator.kind == "join":
            inflow = ports[0] * ports[1]
        elif ports:
            weight = np.array([sum(rates[node] for node in port) for port in graph.ports[j]])
            inflow = np.average(ports, axis=0, weights=weight if weight.sum() > 0.0 else None)
        else:
            inflow = np.ones(draws)
        result[j] = inflow / spread[j, 0]
        flow[graph.stream_count + j] = inflow / spread[j, 1]
    return result


def _mixed(flow: Floats, rates: Floats, nodes: tuple[int, ...]) -> Floats:
    if len(nodes) == 1:
        return flow[nodes[0]]
    weight = rates[list(nodes)]
    return np.asarray(np.average(flow[list(nodes)], axis=0, weights=weight if weight.sum() > 0.0 else None))
