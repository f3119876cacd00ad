"""Statistics refreshed while a pipeline runs: the CPU of every site shared among the fragments it runs.

Fed with one snapshot per look. Between two looks a site used so much CPU, and its fragments did so many
batches with so many rows; `share_out` says how that is shared out. Figures of
a fragment that ran at sites whose processes cannot be seen are marked estimated. The first looks are left
out: a site that has just started mostly compiles.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import nnls

from mooring.arrays import Floats
from mooring.model.load.measured.measured_problem import OperatorMeasurement, measured_problem
from mooring.model.problem.problem import Problem
from mooring.spark.engine.snapshot import Snapshot
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import FlowNode
from mooring.spark.pipeline.statistics_used import (
    ASSUMED_BATCH_CPU_S,
    ASSUMED_COST_US,
    RefreshCost,
    interval_s,
    refresh_cost,
    rows_read,
)

WARM_AFTER_S = 30.0
_MOST_LOOKS = 360
_LEAST_LOOKS = 3


@dataclass(frozen=True)
class FragmentFigures:
    """What a run measured of one fragment."""

    site: str
    rows_in_per_s: float
    batches_per_s: float
    cost_us: float
    batch_cpu_s: float
    cores: float
    selectivity: float | None
    bytes: float | None
    state_rows: int
    error: float
    """Relative, of the site's CPU that the figures explain."""
    looks: int
    estimated: bool
    """The site's processes could not be seen."""


@dataclass(frozen=True)
class _Interval:
    """One fragment between two looks."""

    batches: float
    rows_in: float


@dataclass
class _SiteLooks:
    cpu_s: list[float] = field(default_factory=list)
    done: list[dict[str, _Interval]] = field(default_factory=list)
    estimated: bool = False


@dataclass(frozen=True)
class Prior:
    """What is known of a fragment beforehand."""

    cost_us: float = ASSUMED_COST_US
    batch_cpu_s: float = ASSUMED_BATCH_CPU_S


class OperationStatistics:
    """Give it every snapshot; ask it for figures whenever you like."""

    def __init__(self, priors: Mapping[str, Prior], warm_after_s: float = WARM_AFTER_S) -> None:
        self._priors = priors
        self._warm_after_s = warm_after_s
        self._sites: dict[str, _SiteLooks] = {}
        self._first: Snapshot | None = None
        self._last: Snapshot | None = None

    def take(self, snapshot: Snapshot) -> None:
        before, self._last = self._last, snapshot
        if before is None or before.since_start_s < self._warm_after_s:
            return
        self._first = self._first or before
        seconds = snapshot.at_s - before.at_s
        for name, site in snapshot.sites.items():
            if site.load_cores is None or seconds <= 0.0:
                continue
            looks = self._sites.setdefault(name, _SiteLooks())
            looks.estimated = looks.estimated or site.estimated
            looks.cpu_s.append(site.load_cores * seconds)
            looks.done.append({f: _interval(before, snapshot, f) for f in site.fragments})
            del looks.cpu_s[:-_MOST_LOOKS], looks.done[:-_MOST_LOOKS]

    def figures(self) -> dict[str, FragmentFigures]:
        """Per fragment that runs now; empty as long as there is too little to go by."""
        result: dict[str, FragmentFigures] = {}
        for name, looks in self._sites.items():
            if len(looks.cpu_s) >= _LEAST_LOOKS:
                result.update(self._of_site(name, looks))
        return result

    def _of_site(self, site: str, looks: _SiteLooks) -> dict[str, FragmentFigures]:
        assert self._last is not None
        here = [f for f in self._last.sites[site].fragments if f in self._last.fragments]
        everyone = list(dict.fromkeys([*here, *(f for done in looks.done for f in done)]))
        if not everyone:
            return {}
        amounts = np.array(
            [
                [v for f in everyone for v in vars(done.get(f, _Interval(0.0, 0.0))).values()]
                for done in looks.done
            ]
        )
        priors = [self._priors.get(f, Prior()) for f in everyone]
        prior = np.array([v for p in priors for v in (p.batch_cpu_s, p.cost_us / 1e6)])
        shares = share_out(np.array(looks.cpu_s), amounts, np.maximum(prior, 1e-9))
        return {
            f: self._figure(f, site, shares.costs[2 * k : 2 * k + 2], shares.error, looks)
            for k, f in enumerate(everyone)
            if f in here
        }

    def _figure(
        self, fragment: str, site: str, costs: Floats, error: float, looks: _SiteLooks
    ) -> FragmentFigures:
        assert self._first is not None
        assert self._last is not None
        seconds = max(1e-3, self._last.at_s - self._first.at_s)
        done = _interval(self._first, self._last, fragment)
        now, then = self._last.fragments[fragment], self._first.fragments.get(fragment)
        rows_out = now.rows_out - (then.rows_out if then else 0)
        channel, old = self._last.channels.get(fragment), self._first.channels.get(fragment)
        written = 0 if channel is None else channel.bytes_written - (old.bytes_written if old else 0)
        per_batch_s, per_row_s = float(costs[0]), float(costs[1])
        rows_per_s, batches_per_s = done.rows_in / seconds, done.batches / seconds
        return FragmentFigures(
            site=site,
            rows_in_per_s=rows_per_s,
            batches_per_s=batches_per_s,
            cost_us=1e6 * per_row_s,
            batch_cpu_s=per_batch_s,
            cores=per_batch_s * batches_per_s + per_row_s * rows_per_s,
            selectivity=rows_out / done.rows_in if done.rows_in > 0 else None,
            bytes=written / rows_out if rows_out > 0 and written > 0 else None,
            state_rows=now.state_rows,
            error=error,
            looks=len(looks.cpu_s),
            estimated=looks.estimated,
        )

    def as_json(self) -> dict[str, object]:
        return {name: asdict(figures) for name, figures in self.figures().items()}


def _interval(before: Snapshot, after: Snapshot, fragment: str) -> _Interval:
    now, then = after.fragments.get(fragment), before.fragments.get(fragment)
    if now is None:
        return _Interval(0.0, 0.0)
    batches, rows = (0, 0) if then is None else (then.batches, then.rows_in)
    return _Interval(float(max(0, now.batches - batches)), float(max(0, now.rows_in - rows)))


def read_operation(layout: Layout, problem: Problem, figures: Mapping[str, Any]) -> Problem:
    """The problem at the rates and costs that a run's statistics file holds (fragment -> figures).

    Flows that share a fragment keep their costs: a run cannot tell them apart. Fragments that are gone, or
    figures that make no sense, are left out.
    """
    known: dict[str, FragmentFigures] = {}
    for name, fields in figures.items():
        with contextlib.suppress(TypeError):
            if name in layout.fragments:
                known[name] = FragmentFigures(**fields)
    operators = {operator.fragment: operator.name for operator in problem.operators}
    measured = {
        operators[name]: _measurement(layout, layout.pipeline.flows[name], found)
        for name, found in known.items()
        if len(layout.fragments[name].operators) == 1
    }
    rates = {name: found.rows_in_per_s for name, found in known.items()}
    return measured_problem(problem, layout.stream_rates(rates), measured)


def _measurement(layout: Layout, flow: FlowNode, found: FragmentFigures) -> OperatorMeasurement:
    if layout.pipeline.is_view(flow.name):  # see statistics_used.view_load
        cost = RefreshCost(found.cost_us, found.batch_cpu_s)
        cpu_s = cost.cpu_s(rows_read(layout, flow))
        return OperatorMeasurement(fixed_cores=cpu_s / interval_s(layout, flow), error=found.error)
    return OperatorMeasurement(
        cost_us=found.cost_us,
        selectivity=found.selectivity,
        fixed_cores=found.batch_cpu_s / interval_s(layout, flow),
        bytes=found.bytes,
        error=found.error,
    )


def operation_statistics(layout: Layout, problem: Problem) -> OperationStatistics:
    """Starts from what the problem says of each fragment."""
    trigger_s = layout.project.settings.trigger_s
    priors = {}
    views = {name for name in layout.fragments if layout.pipeline.is_view(name)}
    for name, members in zip(problem.fragment_names, problem.fragments, strict=True):
        if name in views:
            cost = refresh_cost(layout, layout.pipeline.flows[name])
            priors[name] = Prior(max(1e-3, cost.cost_us), max(1e-4, cost.fixed_cpu_s))
            continue
        inside = [problem.operators[j] for j in members]
        fixed_cores = max(operator.fixed_cores for operator in inside)
        priors[name] = Prior(
            max(1e-3, sum(operator.cost_us for operator in inside)), max(1e-4, fixed_cores * trigger_s)
        )
    return OperationStatistics(priors)


@dataclass(frozen=True)
class Shares:
    costs: Floats
    """CPU seconds per unit of each amount, as many as the prior."""
    error: float
    """Relative: median of what a look's CPU differs from what the costs say, to the median CPU of a look."""


LOOK_NOISE = 0.05
"""How far one look's CPU is typically off, to the CPU of a look (a batch or two falls into the next)."""
PRIOR_ERROR = 0.5
"""How far a single cost known before is typically off, once all are scaled to the total."""


def share_out(cpu_s: Floats, amounts: Floats, prior: Floats) -> Shares:
    """Costs of the amounts (looks x kinds) that explain the CPU of the looks, held to a positive `prior`.

    Every look at a running site gives one equation: its CPU is the sum, over fragments, of batches x CPU per
    batch plus rows x CPU per row. Fragments are triggered in step, so the equations are nearly the same ones
    again and again and do not settle the shares. Hence each unknown is held to what was known before (a
    profile, or an assumption) as a belief with an error of its own: the totals are met, and shares move only
    as far as the looks tell them apart. None is negative.

    >>> amounts = np.array([[1.0, 100.0], [1.0, 900.0], [2.0, 300.0]])
    >>> shares = share_out(amounts @ [0.2, 1e-3], amounts, prior=np.array([0.1, 5e-4]))
    >>> [round(float(cost), 4) for cost in shares.costs]
    [0.2, 0.001]
    """
    if np.any(prior <= 0.0):
        raise ValueError("expected a prior above zero for every kind of amount")
    total, expected = float(cpu_s.sum()), float((amounts @ prior).sum())
    if total <= 0.0 or expected <= 0.0:
        return Shares(prior.copy(), 1.0)
    # All costs too low or too high alike is by far the likeliest error (another machine): take it out first.
    scaled = prior * (total / expected)
    look = amounts * scaled
    typical = float(np.median(cpu_s[cpu_s > 0.0]))
    hold = typical * LOOK_NOISE / PRIOR_ERROR
    system = np.vstack([look, hold * np.eye(len(scaled))])
    target = np.concatenate([cpu_s, np.full(len(scaled), hold)])
    factors, _ = nnls(system, target)
    costs = np.asarray(factors, dtype=float) * scaled
    left = np.abs(cpu_s - amounts @ costs)
    return Shares(costs, min(1.0, float(np.median(left)) / typical))
