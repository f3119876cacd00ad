"""Plans for statistics that are known with an error only.

A measured cost or selectivity is the truth times a factor uniform in [1 - e, 1 + e] (section 7.3.6). Every
scenario gets a draw of the truth of its own: a direction in the ideal set of that truth, and the loads it
would cause there. A plan that does well on all of them does not rely on any particular statistics.

An operator's load scales with the draw of its cost and those of the selectivities on the way to it. Where
ways meet, they count by their present rates; the pairs of a join scale with both sides. Load at the lower
bounds and of crossings is taken as measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from mooring.arrays import Floats, Ints
from mooring.model.load.model import LoadModel
from mooring.model.load.rates import output_rates
from mooring.model.problem.problem import Problem
from mooring.model.rate_scenarios.scenarios import (
    Scenarios,
    judge_count,
    scenario_value,
    simplex_directions,
    volume_scenarios,
)


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
        count = judge_count(self.model.fragment_count)
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
    cost, selectivity = _draw_truths(problem, errors, draws, rng)
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
        result[j] = inflow * cost[j]
        if not operator.variable:  # else its output is a variable of its own
            flow[graph.stream_count + j] = inflow * selectivity[j]
    return result


def _draw_truths(
    problem: Problem, errors: Floats, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """True over measured cost and selectivity, operators x draws. Joins are costed per pair: a group
    apart."""
    joins = np.array([operator.kind == "join" for operator in problem.operators])
    results = []
    for values in (
        np.array([operator.cost_us for operator in problem.operators]),
        np.array([operator.selectivity for operator in problem.operators]),
    ):
        result = np.ones((len(values), draws))
        for group in (np.flatnonzero(joins), np.flatnonzero(~joins)):
            result[group] = true_over_measured(values[group], errors[group], draws, rng)
        results.append(result)
    return results[0], results[1]


def true_over_measured(values: Floats, errors: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Draws of the truth behind measured values of one kind, over those values.

    Where values scatter hardly more than their errors explain, an extreme one is likely an error: the truth
    is drawn around a mean between the value and that of its kind (empirical Bayes, on logarithms). Where they
    scatter widely, each is taken at its word. No draw leaves what the error allows.
    """
    result = np.ones((len(values), draws))
    known = np.flatnonzero((values > 0.0) & (errors > 0.0))
    if not len(known):
        return result
    bias, variance = _log_error(errors[known])
    logs = np.log(values[known]) - bias
    scatter = max(float(np.var(logs)) - float(variance.mean()), 0.0)
    trust = scatter / (scatter + variance)
    mean = trust * logs + (1.0 - trust) * logs.mean()
    drawn = mean[:, None] + np.sqrt(trust * variance)[:, None] * rng.standard_normal((len(known), draws))
    factors = np.exp(drawn) / values[known][:, None]
    least, most = 1.0 / (1.0 + errors[known]), 1.0 / np.maximum(1.0 - errors[known], 0.05)
    result[known] = np.clip(factors, least[:, None], most[:, None])
    return result


def _log_error(errors: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of log f for f uniform in [1 - e, 1 + e]."""
    low, high = np.maximum(1.0 - errors, 1e-9), 1.0 + errors

    def mean_of(integral: Callable[[Floats], Floats]) -> Floats:
        return (integral(high) - integral(low)) / (high - low)

    first = mean_of(lambda x: x * np.log(x) - x)
    second = mean_of(lambda x: x * np.log(x) ** 2 - 2.0 * x * np.log(x) + 2.0 * x)
    return first, np.maximum(second - first**2, 1e-12)


def _mixed(flow: Floats, rates: Floats, nodes: tuple[int, ...]) -> Floats:
    if len(nodes) == 1:
        return np.asarray(flow[nodes[0]])
    weight = rates[list(nodes)]
    return np.asarray(np.average(flow[list(nodes)], axis=0, weights=weight if weight.sum() > 0.0 else None))
