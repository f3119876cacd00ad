"""What fragments really cost, re-estimated while they run.

Statistics are measured before a run, or guessed, and data changes. Each look gives what a fragment used, and
what it should have used for its input by the statistics: y against x. A line through the looks, robust
against those that are off (medians of slopes, Theil and Sen), splits it into a fixed part and a factor for
the part per tuple. While its rate hardly varies the two cannot be told apart, and the fixed part stays.

Where an engine cannot see what a single fragment uses, its site can: the line of the whole site
(`site_line.py`) gives the factor of all fragments there, and a fixed part that is shared among them in
proportion. Both stay with them when they move.

What an engine carries out as a join makes pairs, whose number goes with the product of its inputs' rates. A
run counts them: they are its output. The line tells what one costs.

A second factor corrects how many tuples reach a fragment, which selectivities before it decide. It is taken
only while nothing is waiting anywhere: behind a site that cannot keep up too few arrive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import msgspec
import numpy as np

from mooring.arrays import Floats
from mooring.contracts.decider import Observation
from mooring.contracts.engine import FragmentReport, SiteReport
from mooring.contracts.picture import fragment_inputs
from mooring.controller.site_line import SiteLine
from mooring.model.load.build import build_load_model, join_sides
from mooring.model.problem.operator import InputStatistics, Operator, PairStatistics
from mooring.model.problem.problem import Problem


@dataclass(frozen=True)
class CalibrationOptions:
    looks: int = 24
    """That a line is drawn through: two minutes of a run that looks every 5 s."""
    fewest: int = 6
    every: int = 6
    """Looks from one fit to the next."""
    notable: float = 0.15
    """A factor that differs less than this share from the one in use is left as it is."""
    notable_site: float = 0.03
    """The same where it is known of a whole site: its headroom is as far off."""
    most: float = 10.0
    """No cost is corrected by more than this factor, up or down, ..."""
    most_assumed: float = 1e4
    """... or by this one where costs are assumed, and not stated."""
    spread: float = 1.5
    """The highest over the lowest rate from which a fixed part can be told from one per tuple."""
    warm: int = 9
    """Looks after fragments were started or moved at which what their sites use tells little: much of it is
    compiling."""
    full: float = 0.9
    """Utilisation from which a site may be held up: what it does not get done was not needed less."""


@dataclass
class _Looks:
    """Of one fragment: what it should have used beyond its fixed part, and what it used."""

    expected: deque[float]
    used: deque[float]
    arrived: deque[float]
    """Tuples that came over those that should have come."""


@dataclass
class _Join:
    """Of one operator, by what came to it and what it put out, look by look."""

    sides: tuple[Floats, Floats]
    """Rates of its inputs, per unit of each variable."""
    ratios: deque[float]
    """Pairs per second over the product of the two."""

    def per_product_s(self) -> float:
        """The median, so that one batch with many pairs says nothing of the next; the mean where pairs come
        in fewer than half of the looks.
        """
        return median(self.ratios or [0.0]) or sum(self.ratios) / max(1, len(self.ratios))

    def product(self, values: Floats) -> float:
        first, others = (float(side @ values) for side in self.sides)
        return first * others


class Calibration:
    def __init__(
        self, problem: Problem, options: CalibrationOptions | None = None, *, stated: bool = True
    ) -> None:
        """`stated`: costs were stated or profiled, and not assumed."""
        self._stated, self._options = problem, options or CalibrationOptions()
        self._model = build_load_model(problem)
        self._inputs = fragment_inputs(problem, self._model)
        most = self._options.looks
        self._looks = {
            name: _Looks(deque(maxlen=most), deque(maxlen=most), deque(maxlen=most))
            for name in problem.fragment_names
        }
        self._row = {name: f for f, name in enumerate(problem.fragment_names)}
        self._taken = 0
        self._stated_costs = stated
        self._lines: dict[str, SiteLine] = {}
        self._joins = {
            problem.fragment_names[problem.fragment_of_operator[j]]: _Join(sides, deque(maxlen=most))
            for j, sides in join_sides(problem).items()
        }
        self.pairs: dict[str, PairStatistics] = {}
        """In use, by fragment: what a run measured of its joins."""
        self._counted: dict[str, tuple[float, float]] = {}
        """Fragment -> the last look at which its rows were counted, and how many."""
        self._homes: Mapping[str, str] = {}
        self._looks_here = 0
        self.factors: Floats = np.ones(len(problem.fragments))
        """In use: what each fragment costs beyond its fixed part, over what the problem states."""
        self.fixed_cores = self._model.fixed_cores.copy()
        self._base, self._base_fixed = self.factors.copy(), self.fixed_cores.copy()
        """As they were when the present placement began, which sites' lines are relative to."""
        self.problem, self.model = problem, self._model
        """With the factors in use."""

    def adopt(self, problem: Problem) -> None:
        """The same fragments, over further sites or another network; what they cost is known already."""
        self._stated, self._model = problem, build_load_model(problem)
        self.problem = scaled_problem(problem, self.factors, self.fixed_cores, self.pairs)
        self.model = build_load_model(self.problem)

    def take(self, observation: Observation) -> None:
        """Learn from a look."""
        measured = observation.measured
        if measured.seconds <= 0.0 or not set(self._stated.stream_index) <= set(measured.stream_rates):
            return
        rates = np.array([measured.stream_rates[stream.name] for stream in self._stated.streams])
        values = self._model.variable_values(rates)
        should = np.asarray(self._model.coefficients @ values).ravel()
        crossings = self._crossings(observation, values)
        come = np.asarray(self._inputs @ values).ravel()
        calm = not any(_held_up(site.utilisation, self._options.full) for site in measured.sites.values())
        seen = {
            name: report
            for name, report in measured.fragments.items()
            if name in self._row and report.running and not report.cores_estimated
        }
        for name, report in seen.items():
            row = self._row[name]
            used = report.cores - float(crossings[row])
            self._take_fragment(name, report.input_rate, used, float(should[row]), float(come[row]), calm)
        self._take_joins(measured.fragments, values)
        self._taken += 1
        if seen and self._taken % self._options.every == 0:
            self._apply(*self._fitted(seen))
        elif not seen:
            self._take_sites(observation, values, should, come)

    def at_tuples_taken(self, observation: Observation) -> dict[str, float]:
        """By site, the cores that its fragments should have used at the tuples they took in; nothing where
        the rates of streams are not known.
        """
        measured = observation.measured
        if not set(self._stated.stream_index) <= set(measured.stream_rates):
            return {}
        rates = np.array([measured.stream_rates[stream.name] for stream in self._stated.streams])
        values = self._model.variable_values(rates)
        should = np.asarray(self._model.coefficients @ values).ravel() * self.factors
        come, sent = np.asarray(self._inputs @ values).ravel(), self._crossings(observation, values)
        return {
            site: float(
                should[rows] @ self._taken_in(measured.fragments, rows, come)
                + sum(self._pairs_in_use(self._stated.fragment_names[row], values) for row in rows)
                + self.fixed_cores[rows].sum()
                + sent[rows].sum()
            )
            for site, rows in self._rows_by_site(observation.sites).items()
        }

    def in_words(self) -> str:
        """Which statistics are used."""
        off = np.flatnonzero(np.abs(np.log(self.factors)) > 1e-12)
        if not len(off):
            return "as the problem states them"
        names = self._stated.fragment_names
        some = ", ".join(f"{names[f]} x {self.factors[f]:.2f}" for f in off[:5])
        more = f" and {len(off) - 5} more" if len(off) > 5 else ""
        return f"costs re-estimated while running: {some}{more}; the others as the problem states them"

    def as_json(self) -> dict[str, dict[str, Any]]:
        """What differs from the problem as stated, by fragment: for who reads a status and works with it."""
        fixed = self._model.fixed_cores
        return {
            "cost_factors": {
                n: float(self.factors[f]) for n, f in self._row.items() if self.factors[f] != 1.0
            },
            "fixed_cores": {
                n: float(self.fixed_cores[f]) for n, f in self._row.items() if self.fixed_cores[f] != fixed[f]
            },
            "pairs": {name: msgspec.structs.asdict(pairs) for name, pairs in self.pairs.items()},
        }

    # What single fragments use

    def _take_fragment(
        self, name: str, came: float, used: float, should: float, come: float, calm: bool
    ) -> None:
        if should <= 0.0 or come <= 0.0:
            return
        looks = self._looks[name]
        if calm:
            looks.arrived.append(came / come)
        if came > 0.0:
            looks.expected.append(should * came / come)
            looks.used.append(used)

    def _crossings(self, observation: Observation, values: Floats) -> Floats:
        """Per fragment, cores that go into sending and receiving between sites: no cost of its own."""
        arcs, rows = self._model.arcs, len(self._row)
        if arcs.comm_us == 0.0:
            return np.zeros(rows)
        index = self._stated.site_index
        sites = np.array([index[observation.belongs[name]] for name in self._stated.fragment_names])
        source, target = arcs.ends(sites)
        cores = np.where(source != target, np.asarray(arcs.rates @ values) * arcs.comm_us / 1e6, 0.0)
        result = np.zeros(rows)
        for ends in (arcs.source_fragment, arcs.target_fragment):
            inner = ends >= 0
            result += np.bincount(ends[inner], cores[inner], rows)
        return result

    def _fitted(self, seen: Mapping[str, FragmentReport]) -> tuple[Floats, Floats]:
        factors, fixed = self.factors.copy(), self.fixed_cores.copy()
        for name in seen:
            looks, row = self._looks[name], self._row[name]
            if len(looks.used) < self._options.fewest:
                continue
            expected, used = np.array(looks.expected), np.array(looks.used)
            if expected.max() >= self._options.spread * expected.min():
                slope, offset = _line(expected, used)
                fixed[row] = max(0.0, offset)
            slope = float(np.median((used - fixed[row]) / expected))
            factors[row] = max(slope, 1e-12) * self._arrived(looks)
        return factors, fixed

    def _arrived(self, looks: _Looks) -> float:
        """Where tuples come in bursts, as behind a window that closes now and then, a look tells nothing."""
        values = np.array(looks.arrived)
        if len(values) < self._options.fewest or np.mean(values > 0.0) < 0.8:
            return 1.0
        return float(np.median(values))

    # What whole sites use

    def _take_sites(self, observation: Observation, values: Floats, should: Floats, come: Floats) -> None:
        """From how much each site uses, where nobody can tell what its fragments use: held against what they
        should have used at the tuples they took in.
        """
        if observation.sites != self._homes:  # what was seen before was of another placement
            self._homes, self._lines = dict(observation.sites), {}
            self._base, self._base_fixed = self.factors.copy(), self.fixed_cores.copy()
            self._looks_here = 0
        self._looks_here += 1
        since = self._taken_since(observation, come)
        if self._looks_here <= self._options.warm:
            return
        factors, fixed, cost_us = self.factors.copy(), self.fixed_cores.copy(), dict[str, float]()
        rows_by_site = self._rows_by_site(observation.sites)
        for site in self._stated.sites:
            name, report = site.name, observation.measured.sites.get(site.name, SiteReport(None))
            rows = rows_by_site.get(name)
            if report.utilisation is None or report.estimated or not rows:
                continue
            used = report.utilisation * (report.capacity_cores or site.capacity)
            line = self._lines.setdefault(name, SiteLine(self._stated_costs))
            taken = np.array([since[self._stated.fragment_names[row]] for row in rows])
            here = {name: join for name, join in self._joins.items() if self._row[name] in rows}
            # Those of the rows taken in: what is put out comes in bursts that the CPU does not follow.
            pairs = sum(
                join.per_product_s() * join.product(values) * since[name] ** 2 for name, join in here.items()
            )
            if not line.take(float((should * self._base)[rows] @ taken), used, pairs):
                continue
            believed = float(self._base_fixed[rows].sum())
            if (split := line.split(believed)) is None:
                continue
            cost_us.update(dict.fromkeys(here, 1e6 * split.per_pair))
            factors[rows] = self._base[rows] * split.slope
            parts = self._base_fixed[rows] / believed if believed > 0.0 else np.full(len(rows), 1 / len(rows))
            fixed[rows] = split.fixed * parts
        self._apply(factors, fixed, self._pairs_at(cost_us), notable=self._options.notable_site)

    def _take_joins(self, reports: Mapping[str, FragmentReport], values: Floats) -> None:
        for name, join in self._joins.items():
            if (report := reports.get(name)) is None or not report.running:
                continue
            if (product := join.product(values)) > 0.0:
                join.ratios.append(report.output_rate / product)

    def _pairs_at(self, cost_us: Mapping[str, float]) -> dict[str, PairStatistics]:
        """Of all joins, some of them at another cost per pair than so far."""
        found = dict(self.pairs)
        for name, each in cost_us.items():
            if (often := self._joins[name].per_product_s()) > 0.0:
                found[name] = PairStatistics(per_product_s=often, cost_us=each)
        return found

    def _pairs_in_use(self, fragment: str, values: Floats) -> float:
        """Cores for the pairs of a fragment at these rates."""
        if (known := self.pairs.get(fragment)) is None:
            return 0.0
        return known.cost_us / 1e6 * known.per_product_s * self._joins[fragment].product(values)

    def room(self, site: str, rates: Floats, capacity: float) -> tuple[float, float] | None:
        """How far such rates can grow at least and at most, by what the whole site used; None where that
        tells nothing.
        """
        line = self._lines.get(site)
        if line is None or line.last is None:
            return None
        here = [f for f, at in self._homes.items() if at == site]
        if not here:
            return None
        values = self._model.variable_values(rates)
        should = np.asarray(self._model.coefficients @ values).ravel()
        growing = float((should * self._base)[[self._row[f] for f in here]].sum())
        pairs = sum(self._pairs_in_use(name, values) for name in here)
        return line.last.room(growing, capacity, pairs) if growing > 0.0 else None

    def _rows_by_site(self, sites: Mapping[str, str]) -> dict[str, list[int]]:
        """Of the fragments that run, by their sites."""
        found: dict[str, list[int]] = {}
        for fragment, site in sites.items():
            found.setdefault(site, []).append(self._row[fragment])
        return found

    def _taken_in(self, reports: Mapping[str, FragmentReport], rows: Sequence[int], come: Floats) -> Floats:
        """Per fragment: the tuples it took in over those that should come, 1 where not known."""
        names = self._stated.fragment_names
        return np.array(
            [
                reports[names[row]].input_rate / come[row]
                if names[row] in reports and come[row] > 0.0
                else 1.0
                for row in rows
            ]
        )

    def _taken_since(self, observation: Observation, come: Floats) -> dict[str, float]:
        """The same of all fragments, since the look before where rows are counted."""
        reports, names = observation.measured.fragments, self._stated.fragment_names
        found = dict(zip(names, self._taken_in(reports, range(len(names)), come).tolist(), strict=True))
        for name, report in reports.items():
            if name not in self._row or report.rows is None:
                continue
            at_s, rows = self._counted.get(name, (observation.at_s, report.rows))
            self._counted[name] = observation.at_s, report.rows
            if observation.at_s > at_s and come[self._row[name]] > 0.0:
                per_s = max(0.0, report.rows - rows) / (observation.at_s - at_s)
                found[name] = per_s / float(come[self._row[name]])
        return found

    # Putting it to use

    def _apply(
        self,
        factors: Floats,
        fixed: Floats,
        pairs: Mapping[str, PairStatistics] | None = None,
        *,
        notable: float | None = None,
    ) -> None:
        most = self._options.most if self._stated_costs else self._options.most_assumed
        notable = self._options.notable if notable is None else notable
        factors = np.clip(factors, 1.0 / most, most)
        differs = np.abs(np.log(factors / self.factors)) > np.log1p(notable)
        moved = np.abs(fixed - self.fixed_cores) > notable * np.maximum(fixed, 0.01)
        changed = differs | moved
        other_pairs = pairs is not None and _differ(self.pairs, pairs, self._options.notable)
        if not changed.any() and not other_pairs:
            return
        if pairs is not None and other_pairs:
            self.pairs = dict(pairs)
        self.factors = np.where(changed, factors, self.factors)
        self.fixed_cores = np.where(changed, fixed, self.fixed_cores)
        self.problem = scaled_problem(self._stated, self.factors, self.fixed_cores, self.pairs)
        self.model = build_load_model(self.problem)


def _differ(one: Mapping[str, PairStatistics], other: Mapping[str, PairStatistics], notable: float) -> bool:
    """By more than this share in any figure."""
    return one.keys() != other.keys() or any(
        abs(now - before) > notable * before
        for name in one
        for before, now in zip(
            msgspec.structs.astuple(one[name]), msgspec.structs.astuple(other[name]), strict=True
        )
    )


def _held_up(utilisation: float | None, full: float) -> bool:
    return utilisation is not None and utilisation >= full


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and offset of y against x by medians (Theil and Sen)."""
    first, second = np.triu_indices(len(x), k=1)
    apart = np.abs(x[second] - x[first]) > 1e-12
    slopes = (y[second] - y[first])[apart] / (x[second] - x[first])[apart]
    slope = float(np.median(slopes))
    return slope, float(np.median(y - slope * x))


def scaled_problem(
    problem: Problem, factors: Floats, fixed_cores: Floats, pairs: Mapping[str, PairStatistics]
) -> Problem:
    """The same with operators costing more or less, fragment by fragment, and joins having pairs."""
    operators = list(problem.operators)
    for f, (name, members) in enumerate(zip(problem.fragment_names, problem.fragments, strict=True)):
        for j in members:
            operators[j] = _scaled(operators[j], float(factors[f]), float(fixed_cores[f]))
            if operators[j].moved_as == "join" and operators[j].kind != "join":
                operators[j] = msgspec.structs.replace(operators[j], pairs=pairs.get(name))
    return replace(problem, operators=tuple(operators))


def _scaled(operator: Operator, factor: float, fixed_cores: float) -> Operator:
    per_input = operator.per_input and {
        name: InputStatistics(
            cost_us=None if own.cost_us is None else own.cost_us * factor, selectivity=own.selectivity
        )
        for name, own in operator.per_input.items()
    }
    load = operator.load and {name: cores * factor for name, cores in operator.load.items()}
    return msgspec.structs.replace(
        operator, cost_us=operator.cost_us * factor, fixed_cores=fixed_cores, per_input=per_input, load=load
    )
