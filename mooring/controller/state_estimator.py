"""From observations to a picture: what is known of a run by now, or why too little is.

A single look at a rate says little: it is the mean over a few seconds. The rate of a stream is taken as the
median of the last looks, and how far it may be below that follows from how much a look usually differs from
the one before. So a passing burst changes nothing, and a lasting one counts once it fills half of the window;
a step that stands out from all that the rate varied so far counts as soon as a few looks in a row show it.
What has been so for longer is known better: where no step was seen, the least that a rate is likely to be
goes by all looks that are remembered, if that tells more.

A site counts with the capacity that was observed, and with its own measured load where that was seen: no mean
over sites is ever taken. One that was saturated for some looks has no more capacity than what it got done,
also if more is stated; where its load cannot be seen, that is what its fragments should have used at the
tuples they took in, and the capacity is an estimate. One that lastingly uses more than its fragments should
counts with less by the difference, so that the model agrees with what was measured. One that falls behind
counts with what it keeps up with, one whose CPU is seen and whose batches fit their trigger with what it does
at least, over the share of the time in which it does that, and one whose neighbours on its machine leave it
less with that. An endpoint serves others too: it counts without what its server uses beyond the load of our
fragments, or, where that cannot be seen, with less as soon as the batches of all our fragments there take
longer than they did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt
from statistics import median

import numpy as np

from mooring.arrays import Bools, Floats, Ints
from mooring.contracts.decider import Observation
from mooring.contracts.engine import SiteReport
from mooring.contracts.picture import NOTHING_CORES, Picture, without_fragments
from mooring.controller.calibration import Calibration
from mooring.model.load.feasible.memory import StateMemory
from mooring.model.load.micro_batches import BatchTimes, modelled_batch_s
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


@dataclass(frozen=True)
class SurveyOptions:
    looks: int = 6
    """The rate of a stream is the median of so many looks: half a minute of a run that looks every 5 s."""
    memory: int = 30
    """Looks from which it is known how much a rate varies from one to the next."""
    fewest: int = 3
    """Looks before anything is said."""
    step: int = 3
    """Looks in a row that make a step, where each is..."""
    step_errors: float = 6.0
    """... so many deviations away from the median before, all to the same side, ..."""
    step_share: float = 0.15
    """... and by this share of it at least."""
    saturated: int = 3
    """Looks in a row after which a saturated site counts with what it got done, ..."""
    notable: float = 0.9
    """... where that is less than this share of what it is said to have."""
    neighbours: int = 3
    """Looks of which the median is what neighbours leave a site."""
    slowed: float = 1.5
    """Times as long as at best that all batches of a site take before it counts with less."""
    remembered: int = 120
    """Looks for which that is not forgotten, unless it got more done."""
    late: int = 3
    """Looks of which the median is how far a query is beyond its limit."""
    surplus: float = 0.15
    """Share of the modelled load by which the measured one exceeds it before a site counts with less."""
    warm: int = 9
    """Looks after a start or a move at which sites use more than later: much of it is compiling."""
    sure: float = 2.0
    """Standard errors that a rate is taken to be off at most."""
    calibrates: bool = True
    """Whether costs are re-estimated while running, or taken as the problem states them."""
    assumed: bool = False
    """Whether costs or rates are assumed, so that there is no headroom before sites are warm and measured."""


class Surveyor:
    """One per run: give it every observation."""

    def __init__(self, problem: Problem, options: SurveyOptions | None = None) -> None:
        self._problem, self._options = problem, options or SurveyOptions()
        self.calibration = Calibration(problem, stated=not self._options.assumed)
        self._seen: dict[str, deque[float]] = {
            stream.name: deque(maxlen=self._options.memory) for stream in problem.streams
        }
        self._capacity = problem.capacity_cores
        self._latency_ms = problem.network.latency_ms
        self._done: dict[str, list[float]] = {}
        """Site that is saturated -> cores it got done, look by look."""
        self._shown: dict[str, tuple[float, int]] = {}
        """Site that was -> the most that it got done then, and the looks for which that counts."""
        self.estimated: dict[str, float] = {}
        """Capacities that were not observed but inferred, in cores."""
        self._left: dict[str, deque[float]] = {}
        """Site -> what its neighbours left it, look by look; infinite where nobody was in its way."""
        self.left_cores: dict[str, float] = {}
        """Of sites that count with what their neighbours leave them."""
        self._slowed: dict[str, float] = {}
        """The same where batches tell it."""
        self._why_left: dict[str, str] = {}
        self._best: dict[tuple[str, str], float] = {}
        """Fragment and site -> the least of its batch time over the modelled one."""
        self._over: dict[str, deque[float]] = {}
        """Site -> measured over modelled load, look by look."""
        self._batch_s: dict[str, deque[float]] = {}
        """Fragment -> how long its batches took, look by look."""
        self._late_ms: dict[str, deque[float]] = {}
        """Query with a limit -> its latency beyond that, look by look."""
        self._trigger_s, self._looks_here = 0.0, 0
        self._looks = 0
        self._homes: Mapping[str, str] = {}
        self._model = self.calibration.model

    def adopt(self, problem: Problem) -> None:
        """The same problem with further sites behind those that were known, or over another network."""
        known = len(self._problem.sites)
        self._capacity = np.concatenate([self._capacity, problem.capacity_cores[known:]])
        self._problem, self._latency_ms = problem, problem.network.latency_ms
        self.calibration.adopt(problem)

    @property
    def assumes(self) -> str:
        """What a headroom would be made of that is assumed, and for how long; empty once it is measured."""
        left = self._options.warm + self._options.looks - self._looks
        if not self._options.assumed or left <= 0:
            return ""
        return f"costs or rates are assumed, and will have been measured in {left} more looks"

    @property
    def starting(self) -> bool:
        """Whether the looks so far are those in which first batches are still under way."""
        return self._looks <= self._options.warm

    def survey(self, observation: Observation) -> Picture | str:
        """The picture, or in words what it lacks."""
        self._looks += 1
        self._take_in(observation)
        if self._options.calibrates:
            self.calibration.take(observation)
        self._take_batches(observation)
        self._take_loads(observation)
        self._take_latencies(observation)
        running = self._running(observation)
        if isinstance(running, str):
            return running
        rates = self._rates()
        if isinstance(rates, str):
            return rates
        likely, low, errors = rates
        known, behind = self.calibration, observation.behind
        lost = np.array([site.name in observation.lost_sites for site in self._problem.sites])
        sites = Placement.from_fragments(known.problem, observation.belongs).site_of_fragment
        self._take_slowdowns(observation, sites, likely)
        loads, here = known.model.site_loads(sites, likely), _computed_at(observation)
        capacity, *bounds = (
            np.where(lost, NOTHING_CORES, cores) for cores in self._with_surplus(self._capacities(), loads)
        )
        for i, site in enumerate(self._problem.sites):
            if (room := known.room(site.name, likely, float(capacity[i]))) is not None and not lost[i]:
                least, most = known.model.site_loads(sites, np.outer(room, likely))[:, i]
                bounds[0][i], bounds[1][i] = min(bounds[0][i], least), max(bounds[1][i], most)
        for i, site in enumerate(self._problem.sites):
            if (share := behind[site.name].share if site.name in behind else None) is not None:
                kept_up = max(NOTHING_CORES, float(known.model.site_loads(sites, share * likely)[i]))
                for cores in (capacity, *bounds):
                    cores[i] = min(cores[i], kept_up)
            elif (busy := self._busy(site.name, here.get(site.name, ()), observation)) is not None:
                done = float(loads[i])
                done = max(done, min(self._capacity[i], done / max(busy, 1e-9)))
                capacity[i], bounds[1][i] = max(capacity[i], done), max(bounds[1][i], done)
        # What runs there fits at no rows at all, or no list of moves, not even away from there, is allowed.
        fixed = known.model.capacity_cores - known.model.site_capacity_left(sites)
        capacity = np.where(lost, capacity, np.maximum(capacity, np.minimum(self._capacity, fixed)))
        problem = known.problem.in_circumstances(
            rates=likely, capacity_cores=capacity, latency_ms=self._latency_ms
        )
        model = replace(known.model, capacity_cores=capacity, present=known.model.variable_values(likely))
        model = without_fragments(model, running)
        return Picture(
            problem,
            model,
            sites,
            low,
            running,
            lost,
            rate_errors=errors,
            statistics=self._in_words(),
            capacity_bounds=(bounds[0], bounds[1]),
            batches=self._batch_times(model, sites, likely),
            memory=self._memory(observation),
            refreshed=frozenset(observation.measured.views),
            behind=behind,
            quota_cores=self._capacity.copy(),
            late_ms={name: late for name, seen in self._late_ms.items() if (late := median(seen)) > 0.0},
        )

    def _take_latencies(self, observation: Observation) -> None:
        for query in self._problem.queries:
            report = observation.measured.queries.get(query.name)
            if query.max_latency_ms is None or report is None or report.mean_latency_ms is None:
                self._late_ms.pop(query.name, None)
                continue
            seen = self._late_ms.setdefault(query.name, deque(maxlen=self._options.late))
            seen.append(report.mean_latency_ms - query.max_latency_ms)

    def _take_in(self, observation: Observation) -> None:
        if observation.measured.seconds > 0.0:  # at the first look nothing has been measured yet
            for name, rate in observation.stream_rates.items():
                if name in self._seen:
                    self._seen[name].append(rate)
        reports = observation.measured.sites
        estimated = any(report.estimated for report in reports.values())
        inferred = self.calibration.at_tuples_taken(observation) if estimated else {}
        for i, site in enumerate(self._problem.sites):
            report = reports.get(site.name)
            if report is not None and report.capacity_cores is not None:
                if abs(report.capacity_cores - self._capacity[i]) > 0.01 * self._capacity[i]:
                    self._shown.pop(site.name, None)  # what it got done was under another limit
                    self._done.pop(site.name, None)
                self._capacity[i] = report.capacity_cores
            if report is not None:
                self._take_neighbours(site.name, report, inferred.get(site.name))
                self._take_saturation(site.name, report, inferred.get(site.name))
        if observation.measured.latency_ms is not None:
            self._latency_ms = observation.measured.latency_ms

    def _take_neighbours(self, site: str, report: SiteReport, own: float | None) -> None:
        """`own`: what our fragments should have used there."""
        left = np.inf if report.left_cores is None else report.left_cores
        self._why_left[site] = "what its neighbours leave it"
        if report.server_cores is not None:
            beyond = 0.0 if own is None else report.server_cores - own
            rest = max(NOTHING_CORES, self._capacity[self._problem.site_index[site]] - max(0.0, beyond))
            if beyond > 0.0 and rest < left:
                left = rest
                self._why_left[site] = f"its server uses {beyond:.2f} beyond the load of its fragments"
        self._left.setdefault(site, deque(maxlen=self._options.neighbours)).append(left)

    def _take_slowdowns(self, observation: Observation, sites: Ints, rates: Floats) -> None:
        """Where nothing can be seen of a site, batches tell what others leave it. Rows that wait make them
        longer too, so a site that falls behind or catches up tells nothing.
        """
        self._slowed = {}
        model = replace(self.calibration.model, capacity_cores=self._capacity)
        if (times := self._batch_times(model, sites, rates)) is None:
            return
        for i, site in enumerate(self._problem.sites):
            report = observation.measured.sites.get(site.name)
            if report is None or not report.estimated or report.server_cores is not None:
                continue
            slower = []
            for f in np.flatnonzero((sites == i) & (times.over_model > 0.0)).tolist():
                key, over = (self._problem.fragment_names[f], site.name), float(times.over_model[f])
                best = self._best[key] = min(over, self._best.get(key, over))
                slower.append(over / best)
            late = site.name in observation.behind or _catches_up(site.name, observation)
            if slower and min(slower) >= self._options.slowed and not late:
                self._slowed[site.name] = float(self._capacity[i]) / min(slower)
                self._why_left[site.name] = f"batches take {min(slower):.1f} times as long as at best"

    def _take_loads(self, observation: Observation) -> None:
        """What sites use, held against what their fragments should have used at the tuples they took in."""
        if observation.sites != self._homes or self.calibration.model is not self._model:
            self._looks_here = 0 if observation.sites != self._homes else self._looks_here
            self._homes, self._model = dict(observation.sites), self.calibration.model
            self._over = {}
        self._looks_here += 1
        at_tuples_taken = self.calibration.at_tuples_taken(observation)
        for site in self._problem.sites:
            report = observation.measured.sites.get(site.name)
            if report is None or report.utilisation is None or report.estimated:
                continue
            expected = at_tuples_taken.get(site.name, 0.0)
            if expected > 0.0:
                used = report.utilisation * self._capacity[self._problem.site_index[site.name]]
                self._over.setdefault(site.name, deque(maxlen=self._options.looks)).append(used / expected)

    def _with_surplus(self, capacity: Floats, loads: Floats) -> tuple[Floats, Floats, Floats]:
        """What sites count with, and at least and at most. CPU used beyond the modelled load is taken as
        fixed; at worst it grows with the rates, as the modelled load does. CPU not used may be there.
        """
        counted, least, most = capacity.copy(), capacity.copy(), capacity.copy()
        for i, site in enumerate(self._problem.sites):
            ratios = self._over.get(site.name, ())
            if len(ratios) < self._options.fewest or not any(ratios):
                continue
            over = float(median(ratios))
            least[i], most[i] = capacity[i] / max(over, 1.0), capacity[i] / min(over, 1.0)
            lasting = len(ratios) == self._options.looks and self._looks_here > self._options.warm
            if self._options.calibrates and lasting and over > 1.0 + self._options.surplus:
                counted[i] = max(NOTHING_CORES, capacity[i] - (over - 1.0) * loads[i])
        return counted, np.minimum(least, counted), np.maximum(most, counted)

    def _busy(self, site: str, here: Sequence[str], observation: Observation) -> float | None:
        """The share of the time that batches take, one after the other, at a site where those of all
        fragments fit their trigger, so that it does what the model says; None elsewhere. Where its CPU cannot
        be seen, that batches fit says nothing of what costs are stated for.
        """
        report = observation.measured.sites.get(site)
        if report is None or report.utilisation is None or report.estimated:
            return None
        seen = [self._batch_s.get(name, deque[float]()) for name in here]
        if not here or any(len(took) < self._options.looks for took in seen):
            return None
        longest = [max(float(np.median(took)), took[-1]) for took in seen]
        return None if max(longest) > self._trigger_s else sum(longest) / self._trigger_s

    def _take_batches(self, observation: Observation) -> None:
        self._trigger_s = observation.measured.trigger_s
        for name, at in self._homes.items():
            if observation.sites.get(name) != at:
                self._batch_s.pop(name, None)
        for name, report in observation.measured.fragments.items():
            if report.running and report.batch_s is not None and self._trigger_s > 0.0:
                seen = self._batch_s.setdefault(name, deque(maxlen=self._options.looks))
                seen.append(max(report.batch_s, report.lasting_s(self._trigger_s)))

    def _batch_times(self, model: LoadModel, sites: Ints, rates: Floats) -> BatchTimes | None:
        """Of fragments whose batches were seen often enough: measured over modelled. Two of the last three
        that take longer than the trigger are what counts.
        """
        known = {name: seen for name, seen in self._batch_s.items() if len(seen) == self._options.looks}
        if not known or self._trigger_s <= 0.0:
            return None
        over = np.zeros(len(self._problem.fragment_names))
        for f, name in enumerate(self._problem.fragment_names):
            if name not in known:
                continue
            usual, now = float(np.median(known[name])), float(np.median(list(known[name])[-3:]))
            took_s = now if now > self._trigger_s else usual
            if now <= self._trigger_s < usual:  # until three in a row are short
                took_s = max(list(known[name])[-3:])
            # A batch longer than the trigger takes what came while the one before it lasted, and gets at
            # least that share of the rates done in a trigger.
            longer = max(1.0, took_s / self._trigger_s)
            holding, at_least = (
                modelled_batch_s(model, sites, at * rates, self._trigger_s)[f]
                for at in (longer, 1.0 / longer)
            )
            if holding > 0.0:
                over[f] = (
                    min(took_s / holding, self._trigger_s / at_least) if longer > 1.0 else took_s / holding
                )
        return BatchTimes(self._trigger_s, over)

    def _memory(self, observation: Observation) -> StateMemory | None:
        sites, fragments = observation.measured.sites, observation.measured.fragments
        state_mb = np.zeros(len(self._problem.fragment_names))
        for f, name in enumerate(self._problem.fragment_names):
            if name in fragments and fragments[name].state_bytes is not None:
                state_mb[f] = (fragments[name].state_bytes or 0.0) / 1e6
        if not state_mb.any():
            return None
        other_mb = np.full(len(self._problem.sites), np.inf)
        index, homes = self._problem.site_index, observation.sites
        at = np.array([index.get(homes.get(f, ""), -1) for f in self._problem.fragment_names])
        here_mb = np.bincount(at[at >= 0], state_mb[at >= 0], len(other_mb))
        for i, site in enumerate(self._problem.sites):
            if site.name in sites and (resident_mb := sites[site.name].resident_mb) is not None:
                other_mb[i] = max(0.0, resident_mb - float(here_mb[i]))
        return StateMemory(other_mb, state_mb)

    def _capacities(self) -> Floats:
        """What each site can do, by what is observed of it and by what it has got done when it was full."""
        capacity = self._capacity.copy()
        self.estimated, self.left_cores = {}, {}
        for i, site in enumerate(self._problem.sites):
            if (shown := self._shown.get(site.name)) is not None:
                if shown[0] < self._options.notable * capacity[i]:
                    capacity[i] = self.estimated[site.name] = shown[0]
                left = shown[1] - 1
                self._shown = {**self._shown, site.name: (shown[0], left)}
                if left <= 0:
                    del self._shown[site.name]
            beside = float(median(self._left.get(site.name, [np.inf])))
            beside = min(beside, self._slowed.get(site.name, np.inf))
            if beside < self._options.notable * capacity[i]:
                capacity[i] = self.left_cores[site.name] = beside
        return capacity

    def _take_saturation(self, site: str, report: SiteReport, inferred: float | None) -> None:
        """`inferred`: what it got done where its load is not seen."""
        done = inferred if report.estimated else self._used(site, report)
        if done is None:
            return
        if not report.saturated:
            self._done.pop(site, None)
            if site in self._shown and done > self._shown[site][0]:
                del self._shown[site]
            return
        seen = self._done[site] = [*self._done.get(site, ()), done][-self._options.saturated :]
        if len(seen) == self._options.saturated:
            self._shown[site] = max(seen), self._options.remembered

    def _used(self, site: str, report: SiteReport) -> float | None:
        """In cores."""
        stated = self._capacity[self._problem.site_index[site]]
        return None if report.utilisation is None else report.utilisation * stated

    def _in_words(self) -> str:
        said = self.calibration.in_words()
        for site, cores in self.estimated.items():
            said += f"; {site} counts with {cores:.2f} cores (estimated)"
        for site, cores in self.left_cores.items():
            said += f"; {site} counts with {cores:.2f} cores ({self._why_left[site]})"
        return said

    def _running(self, observation: Observation) -> Bools | str:
        """What runs; in words what should and does not, unless nothing can be done for it."""
        known, belongs = observation.sites, observation.belongs
        for name in self._problem.fragment_names:
            waits = name in observation.resting or belongs.get(name) in observation.lost_sites
            if name not in known and not waits:
                return f"{name} does not run: {observation.troubles.get(name, 'it is being started')}"
        for what, why in observation.troubles.items():
            if what.startswith("channel "):
                return f"{what}: {why}"
        return np.array([name in known for name in self._problem.fragment_names])

    def _rates(self) -> tuple[Floats, Floats, Floats] | str:
        """As they likely are, at least are, and how far the first may be off."""
        if missing := [name for name, seen in self._seen.items() if not seen]:
            return f"the rate of the stream {missing[0]} is not measured yet"
        likely, low, errors = [], [], []
        for seen in self._seen.values():
            if len(seen) < self._options.fewest:
                return f"measurements so far: {len(seen)}, needed: {self._options.fewest}"
            # A step is one difference among many, so the median of differences is that of the noise alone.
            every = list(seen)
            deviation = 1.48 * median([abs(b - a) for a, b in pairwise(every)]) / sqrt(2.0)
            values = self._recent(every, deviation)
            middle, least = self._bounded(values, deviation)
            likely.append(middle)
            errors.append(middle - least)
            if len(values) == self._options.looks:  # no step: the others tell the same rate
                least = min(middle, max(least, self._bounded(every, deviation)[1]))
            low.append(max(0.0, least))
        return np.array(likely), np.array(low), np.array(errors)

    def _bounded(self, values: Sequence[float], deviation: float) -> tuple[float, float]:
        """The median, and what the mean is at least, by the error of a median of so many."""
        middle = median(values)
        return middle, middle - self._options.sure * 1.25 * deviation / sqrt(len(values))

    def _recent(self, seen: Sequence[float], deviation: float) -> Sequence[float]:
        """The looks that tell the rate now: those since a step, if there was one."""
        options = self._options
        before, last = seen[: -options.step], seen[-options.step :]
        if len(before) >= options.looks:
            usual = median(before[-options.looks :])
            away = [rate - usual for rate in last]
            beyond = max(options.step_errors * deviation, options.step_share * usual)
            if beyond > 0.0 and (min(away) > beyond or max(away) < -beyond):
                return last
        return seen[-options.looks :]


def _catches_up(site: str, observation: Observation) -> bool:
    """Whether more rows wait for a fragment there than come within two triggers."""
    trigger_s, reports = observation.measured.trigger_s, observation.measured.fragments.values()
    return any(
        report.site == site
        and report.waiting is not None
        and report.waiting > 2.0 * trigger_s * report.input_rate
        for report in reports
    )


def _computed_at(observation: Observation) -> dict[str, list[str]]:
    """Site -> the fragments there that are computed row by row, not refreshed."""
    found: dict[str, list[str]] = {}
    for fragment, site in observation.sites.items():
        if fragment not in observation.measured.views:
            found.setdefault(site, []).append(fragment)
    return found
