"""Statistics refreshed while a pipeline runs: the CPU of every site shared among the fragments it runs.

Fed with one snapshot per look. Between two looks a site used so much CPU, and its fragments did so many
batches with so many rows; `share_out` says how that is shared out. Where the executors of a site are seen,
each fragment has its own CPU, and of the driver's as large a part as of the batches. Where neither is seen, a
fragment's costs stay as they were known before, and its figures are marked estimated: how long batches take
is no CPU. The first looks are left out: a site that has just started mostly compiles.

What earlier runs learnt of a fragment, or this one at the site where it was before, goes on counting until
`MEMORY_LOOKS` looks have been taken where it runs now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
from scipy.optimize import nnls

from mooring.arrays import Floats
from mooring.model.problem.problem import Problem
from mooring.spark.engine.snapshot import Snapshot
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.statistics_used import ASSUMED_BATCH_CPU_S, ASSUMED_COST_US, refresh_cost

WARM_AFTER_S = 30.0
MEMORY_LOOKS = 120
"""Ten minutes at a look every 5 s: what was learnt before counts as so many looks at most, less those taken
since.
"""
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
    """That the costs are made of, those of earlier runs and other sites included as far as they count."""
    estimated: bool
    """The site's processes could not be seen, and the costs are none that a run has measured."""
    cost_us_error: float = 0.0
    """Standard error."""
    batch_cpu_s_error: float = 0.0
    rows_in_per_s_error: float = 0.0


@dataclass(frozen=True)
class _Interval:
    """One fragment between two looks."""

    batches: float
    rows_in: float


@dataclass
class _SiteLooks:
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    done: list[dict[str, _Interval]] = field(default_factory=list)
    own_cpu_s: list[dict[str, float]] = field(default_factory=list)
    """Of fragments that are told apart."""
    estimated: bool = False

    def add(self, seconds: float, cpu_s: float, done: dict[str, _Interval], own: dict[str, float]) -> None:
        self.seconds = [*self.seconds, seconds][-_MOST_LOOKS:]
        self.cpu_s = [*self.cpu_s, cpu_s][-_MOST_LOOKS:]
        self.done = [*self.done, done][-_MOST_LOOKS:]
        self.own_cpu_s = [*self.own_cpu_s, own][-_MOST_LOOKS:]


@dataclass(frozen=True)
class Prior:
    """What is known of a fragment beforehand."""

    cost_us: float = ASSUMED_COST_US
    batch_cpu_s: float = ASSUMED_BATCH_CPU_S
    looks: int = 0
    """From which it was learnt; 0: it is stated, profiled or assumed, and says how the parts divide."""
    cost_us_error: float = 0.0
    batch_cpu_s_error: float = 0.0


class OperationStatistics:
    """Give it every snapshot; ask it for figures whenever you like."""

    def __init__(self, priors: Mapping[str, Prior], warm_after_s: float = WARM_AFTER_S) -> None:
        self._priors = dict(priors)
        self._warm_after_s = warm_after_s
        self._sites: dict[str, _SiteLooks] = {}
        self._first: Snapshot | None = None
        self._last: Snapshot | None = None

    def take(self, snapshot: Snapshot) -> None:
        if self._last is not None:
            self._remember_leavers(self._last, snapshot)
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
            done = {f: _interval(before, snapshot, f) for f in site.fragments}
            looks.add(seconds, site.load_cores * seconds, done, _own_cpu_s(snapshot, name, done, seconds))

    def _remember_leavers(self, before: Snapshot, now: Snapshot) -> None:
        """What was found of a fragment where it no longer runs is known beforehand where it runs next."""
        for name, site in before.sites.items():
            still = now.sites[name].fragments if name in now.sites else ()
            left = [f for f in site.fragments if f not in still]
            looks = self._sites.get(name)
            if left and looks is not None and len(looks.cpu_s) >= _LEAST_LOOKS:
                found = self._of_site(name, looks)
                self._priors |= {f: _prior_of(found[f]) for f in left if f in found}

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
        if looks.estimated:
            return {f: self._figure(f, site, _as_known(self._priors.get(f, Prior())), looks) for f in here}
        apart = {f for f in here if sum(f in own for own in looks.own_cpu_s) >= _LEAST_LOOKS}
        found = {f: self._figure(f, site, self._shares_of(f, looks), looks) for f in apart}
        amounts = np.array([_amounts(done, everyone) for done in looks.done])
        priors = [self._priors.get(f, Prior()) for f in everyone]
        shares = share_out(np.array(looks.cpu_s), amounts, _positive(priors))
        return found | {
            f: self._figure(f, site, shares.of(slice(2 * k, 2 * k + 2)), looks)
            for k, f in enumerate(everyone)
            if f in here and f not in apart
        }

    def _shares_of(self, fragment: str, looks: _SiteLooks) -> Shares:
        """Of one that is told apart."""
        own = [
            (cpu_s[fragment], _amounts(done, [fragment]))
            for cpu_s, done in zip(looks.own_cpu_s, looks.done, strict=True)
            if fragment in cpu_s
        ]
        cpu_s, amounts = (np.array(column) for column in zip(*own, strict=True))
        return share_out(cpu_s, amounts, _positive([self._priors.get(fragment, Prior())]))

    def _figure(self, fragment: str, site: str, found: Shares, looks: _SiteLooks) -> FragmentFigures:
        assert self._first is not None
        assert self._last is not None
        seconds = max(1e-3, self._last.at_s - self._first.at_s)
        done = _interval(self._first, self._last, fragment)
        now, then = self._last.fragments[fragment], self._first.fragments.get(fragment)
        rows_out = now.rows_out - (then.rows_out if then else 0)
        channel, old = self._last.channels.get(fragment), self._first.channels.get(fragment)
        written = 0 if channel is None else channel.bytes_written - (old.bytes_written if old else 0)
        own = [
            (at[fragment].rows_in, s)
            for at, s in zip(looks.done, looks.seconds, strict=True)
            if fragment in at
        ]
        known = self._priors.get(fragment, Prior())
        shares, counted = (found, known.looks) if looks.estimated else _with_memory(found, len(own), known)
        per_batch_s, per_row_s = (float(cost) for cost in shares.costs)
        rows_per_s, batches_per_s = done.rows_in / seconds, done.batches / seconds
        rates = np.array([rows / s for rows, s in own])
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
            error=found.error,
            looks=counted,
            estimated=looks.estimated and known.looks == 0,
            batch_cpu_s_error=float(shares.errors[0]),
            cost_us_error=1e6 * float(shares.errors[1]),
            rows_in_per_s_error=(
                float(rates.std(ddof=1)) / float(np.sqrt(rates.size)) if rates.size > 1 else rows_per_s
            ),
        )

    def as_json(self) -> dict[str, object]:
        return {name: asdict(figures) for name, figures in self.figures().items()}


def _interval(before: Snapshot, after: Snapshot, fragment: str) -> _Interval:
    now, then = after.fragments.get(fragment), before.fragments.get(fragment)
    if now is None:
        return _Interval(0.0, 0.0)
    batches, rows = (0, 0) if then is None else (then.batches, then.rows_in)
    return _Interval(float(max(0, now.batches - batches)), float(max(0, now.rows_in - rows)))


def _own_cpu_s(
    snapshot: Snapshot, site: str, done: Mapping[str, _Interval], seconds: float
) -> dict[str, float]:
    """Of the fragments there whose tasks are told apart, each with its part of the driver's CPU."""
    driver_cores, batches = (
        snapshot.sites[site].driver_cores or 0.0,
        sum(each.batches for each in done.values()),
    )
    found = {}
    for name, interval in done.items():
        seen = snapshot.fragments.get(name)
        if seen is not None and seen.cores is not None:
            part = interval.batches / batches if batches > 0.0 else 0.0
            found[name] = seconds * (seen.cores + part * driver_cores)
    return found


def _amounts(done: Mapping[str, _Interval], fragments: Sequence[str]) -> list[float]:
    nothing = _Interval(0.0, 0.0)
    return [v for f in fragments for v in (done.get(f, nothing).batches, done.get(f, nothing).rows_in)]


def _positive(priors: Sequence[Prior]) -> Floats:
    costs = [v for prior in priors for v in (prior.batch_cpu_s, prior.cost_us / 1e6)]
    return np.maximum(np.array(costs), 1e-9)


def _as_known(prior: Prior) -> Shares:
    """Where nothing of it can be measured."""
    errors = np.array([prior.batch_cpu_s_error, prior.cost_us_error / 1e6])
    costs = np.array([prior.batch_cpu_s, prior.cost_us / 1e6])
    return Shares(costs, np.where(errors > 0.0, errors, PRIOR_ERROR * costs), PRIOR_ERROR)


def _with_memory(found: Shares, looks: int, known: Prior) -> tuple[Shares, int]:
    """What was found in so many looks, with what was learnt before, as far as that still counts; and the
    looks that this makes.
    """
    old = max(0, min(known.looks, MEMORY_LOOKS) - looks)
    if old == 0:
        return found, looks
    share = old / (old + looks)
    before = np.array([known.batch_cpu_s, known.cost_us / 1e6])
    errors = np.array([known.batch_cpu_s_error, known.cost_us_error / 1e6])
    apart = share * (1.0 - share) * (found.costs - before) ** 2
    variance = (1.0 - share) * found.errors**2 + share * errors**2 + apart
    costs = (1.0 - share) * found.costs + share * before
    return Shares(costs, np.sqrt(variance), found.error), old + looks


def _prior_of(figures: FragmentFigures) -> Prior:
    return Prior(
        max(1e-3, figures.cost_us),
        max(1e-4, figures.batch_cpu_s),
        figures.looks,
        figures.cost_us_error,
        figures.batch_cpu_s_error,
    )


def operation_statistics(layout: Layout, problem: Problem) -> OperationStatistics:
    """Starts from what runs have learnt of each fragment, or else from what the problem says of it."""
    trigger_s = layout.project.settings.trigger_s
    priors = {}
    views = {name for name in layout.fragments if layout.pipeline.is_view(name)}
    for name, members in zip(problem.fragment_names, problem.fragments, strict=True):
        if (learnt := _learnt_prior(layout, name)) is not None:
            priors[name] = learnt
            continue
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


def _learnt_prior(layout: Layout, fragment: str) -> Prior | None:
    """Of a fragment all of whose flows a run has measured as they are now."""
    flows = [layout.pipeline.flows[name] for name in layout.fragments[fragment].operators]
    lines = [layout.learnt.of(flow.name, flow.fingerprint) for flow in flows]
    found = [line for line in lines if line is not None]
    if len(found) < len(flows) or found[-1].batch_cpu_s is None or any(line.estimated for line in found):
        return None
    return Prior(
        max(1e-3, sum(line.cost_us for line in found)),
        max(1e-4, found[-1].batch_cpu_s),
        min(line.looks for line in found),
        sum(line.cost_us_error for line in found),
        found[-1].batch_cpu_s_error or 0.0,
    )


@dataclass(frozen=True)
class Shares:
    costs: Floats
    """CPU seconds per unit of each amount, as many as the prior."""
    errors: Floats
    """Their standard errors."""
    error: float
    """Relative: median of what a look's CPU differs from what the costs say, to the median CPU of a look."""

    def of(self, amounts: slice) -> Shares:
        """Those of some of the amounts."""
        return Shares(self.costs[amounts], self.errors[amounts], self.error)


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
        return Shares(prior.copy(), PRIOR_ERROR * prior, 1.0)
    # All costs too low or too high alike is by far the likeliest error (another machine): take it out first.
    scaled = prior * (total / expected)
    look = amounts * scaled
    typical = float(np.median(cpu_s[cpu_s > 0.0]))
    hold = typical * LOOK_NOISE / PRIOR_ERROR
    system = np.vstack([look, hold * np.eye(len(scaled))])
    target = np.concatenate([cpu_s, np.full(len(scaled), hold)])
    factors, _ = nnls(system, target)
    costs = np.asarray(factors, dtype=float) * scaled
    error = min(1.0, float(np.median(np.abs(cpu_s - amounts @ costs))) / typical)
    # The system in units of a look's noise is that of a linear model with a normal prior: the inverse of its
    # normal matrix is the covariance of the factors.
    noise = typical * max(LOOK_NOISE, error)
    deviation = noise * np.sqrt(np.diag(np.linalg.inv(system.T @ system)))
    return Shares(costs, np.minimum(deviation, PRIOR_ERROR) * scaled, error)
