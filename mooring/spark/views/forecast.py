"""Forecast of refreshes: how long they fit their interval while tables grow.

A refresh takes CPU for every row that it reads, so a view over a table that is kept needs more every day. It
no longer fits once its site, with everything else that it runs at the present rates, cannot spend that
much CPU within `refresh_s`: the view is then refreshed less often than was asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mooring.model.load.build import build_load_model
from mooring.model.load.rates import output_rates
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import FlowNode
from mooring.spark.pipeline.pipeline_problem import operator_name
from mooring.spark.pipeline.statistics_used import refresh_cost, rows_read


@dataclass(frozen=True)
class ViewForecast:
    site: str
    refresh_s: float
    """Its interval."""
    rows: int
    """That its last refresh has read; 0 before the first."""
    rows_per_s: float
    """By which they grow at the present rates."""
    refresh_cpu_s: float
    """Of one refresh of now."""
    cores_left: float
    """At its site, beside everything else that runs there at the present rates."""
    most_rows: float
    """With which a refresh just fits its interval; infinite where rows cost nothing."""
    fits_for_s: float
    """From now on; 0: it does not fit; infinite: it always will."""

    def as_json(self) -> dict[str, object]:
        """What is infinite is null."""
        return {
            name: None if isinstance(value, float) and math.isinf(value) else value
            for name, value in vars(self).items()
        }


def view_forecasts(layout: Layout, problem: Problem, placement: Placement) -> dict[str, ViewForecast]:
    """Of every materialized view under the placement, at the problem's present rates."""
    model = build_load_model(problem)
    loads = model.site_loads(placement.site_of_fragment, problem.rates)
    sites = placement.by_fragment()
    at = {site.name: number for number, site in enumerate(problem.sites)}
    found = {}
    for name in layout.fragments:
        if layout.pipeline.is_view(name):
            flow, number = layout.pipeline.flows[name], at[sites[name]]
            cost, refresh_s = refresh_cost(layout, flow), layout.refresh_s(flow.dataset)
            rows = rows_read(layout, flow)
            own_cores = cost.cpu_s(rows) / refresh_s
            left = problem.sites[number].capacity - (float(loads[number]) - own_cores)
            most = _most_rows(left * refresh_s - cost.fixed_cpu_s, cost.cost_us)
            growth, upto = _growth(layout, flow, problem)
            found[flow.dataset] = ViewForecast(
                site=sites[name],
                refresh_s=refresh_s,
                rows=rows,
                rows_per_s=growth,
                refresh_cpu_s=cost.cpu_s(rows),
                cores_left=left,
                most_rows=most,
                fits_for_s=_fits_for_s(rows, most, growth, upto),
            )
    return found


def _most_rows(cpu_s: float, cost_us: float) -> float:
    if cpu_s < 0.0:
        return 0.0
    return cpu_s * 1e6 / cost_us if cost_us > 0.0 else math.inf


def _fits_for_s(rows: float, most: float, rows_per_s: float, upto: float) -> float:
    """`upto`: rows beyond which the tables do not grow.

    >>> _fits_for_s(100, 400, 3.0, math.inf), _fits_for_s(100, 400, 3.0, 300), _fits_for_s(500, 400, 3.0, 900)
    (100.0, inf, 0.0)
    """
    if rows > most or most == 0.0:
        return 0.0
    if rows_per_s <= 0.0 or max(rows, upto) <= most:
        return math.inf
    return (most - rows) / rows_per_s


def _growth(layout: Layout, flow: FlowNode, problem: Problem) -> tuple[float, float]:
    """Rows per second that come to what it reads, and how many there are at most where rows go by age. What
    becomes of the rows of a view that it reads cannot be told.
    """
    out = output_rates(problem)
    growth = upto = 0.0
    for dataset in flow.static:
        if dataset not in layout.views:
            nodes = [
                node
                for writer in layout.pipeline.writers(dataset)
                for node in problem.nodes_by_name[operator_name(writer)]
            ]
            rows_per_s = float(sum(out[node] for node in nodes))
            age_s = layout.keep_of(dataset).age_s
            growth += rows_per_s
            upto += math.inf if age_s is None else rows_per_s * age_s
    return growth, upto
