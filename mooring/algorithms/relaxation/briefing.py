"""The briefing of SBON's optimisers: the fragments, the flows at each, and the resources of a site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mooring.algorithms.relaxation.machines.fragment_specs import fragment_specs
from mooring.algorithms.relaxation.machines.messages import (
    AskFragments,
    KnownFragments,
    MeasuredCapacity,
    MeasuredFlows,
)
from mooring.contracts.decider import Decider, Observation, Prediction
from mooring.contracts.picture import Picture
from mooring.contracts.site_machine import Data
from mooring.coordination.briefing import Briefing, Told, saves_nothing, stated_latencies
from mooring.coordination.move_messages import NOWHERE, Proposed, StartedAt, StatedLatencies
from mooring.model.problem.problem import Problem

TOLD_AT_ONCE = 1000
"""Fragments in one message: agents refuse messages that are too large."""
SENT_AGAIN = 0.01
"""Share by which a flow has to differ from what a site was last told, to be told again."""


class OptimiserBriefing:
    trigger_s = 0.0
    draws = False

    def __init__(self, problem: Problem, states_latency: bool = False) -> None:
        """`states_latency`: the sites go by the problem's latencies, not by what they measure."""
        self._problem, self._states_latency = problem, states_latency
        self._specs = {spec.fragment: spec for spec in fragment_specs(problem)}
        self._where: Mapping[int, StartedAt] = {}
        """At the last look."""
        self.belonging = {
            fragment: tuple(sorted({link.fragment for link in spec.links if link.fragment >= 0}))
            for fragment, spec in self._specs.items()
        }
        self._told: dict[int, tuple[StartedAt, tuple[float, ...]]] = {}
        """Per fragment: which of its starts was told of what flows."""
        self._stated: dict[tuple[int, type], Data] = {}
        """Per site and kind: what it was last told of itself."""

    def answers(self, site: int, question: Data) -> Sequence[Data] | None:
        """A machine that has just begun knows nothing of its site or of what was measured either."""
        return self.basics(site) if isinstance(question, AskFragments) else None

    def basics(self, site: int) -> Sequence[Data]:
        self._told = {f: told for f, told in self._told.items() if told[0].site != site}
        capacity = self._problem.sites[site].capacity
        specs = [
            self._specs[place.fragment]
            for place in self._where.values()
            if place.site == site and place.fragment in self._specs
        ]
        of_itself = [
            self._stated.setdefault((site, type(stated)), stated)
            for stated in (MeasuredCapacity(capacity), *self._latencies(self._problem, site))
        ]
        firsts = range(0, max(len(specs), 1), TOLD_AT_ONCE)  # one that hosts none is told that
        return [
            *of_itself,
            *(KnownFragments(tuple(specs[first : first + TOLD_AT_ONCE])) for first in firsts),
        ]

    def requests(
        self, observation: Observation, picture: Picture, where: Mapping[int, StartedAt]
    ) -> Iterable[Told]:
        """What a fragment is, what flows and what is used, to the site where it is; capacities, to each site.
        One that is lost, or kept empty, has no room; its machine may well be there.
        """
        self._where = where
        capacity = np.where(picture.lost, 0.0, picture.model.capacity_cores)
        for site in range(len(self._problem.sites)):
            for stated in (MeasuredCapacity(float(capacity[site])), *self._latencies(picture.problem, site)):
                if self._stated.get((site, type(stated))) != stated:
                    self._stated[site, type(stated)] = stated
                    yield site, stated
        for spec in fragment_specs(picture.problem, picture.model):
            place = where.get(spec.fragment)
            if place is None or place.site == NOWHERE:
                continue
            rates = tuple(link.rate for link in spec.links)
            known, told = self._told.get(spec.fragment, (None, ()))
            if known != place:
                yield place.site, KnownFragments((self._specs[spec.fragment],))
            if not spec.movable:
                self._told[spec.fragment] = place, rates
                continue
            if known != place or any(abs(a - b) > SENT_AGAIN * b for a, b in zip(told, rates, strict=True)):
                self._told[spec.fragment] = place, rates
                yield place.site, MeasuredFlows(spec.fragment, rates, spec.cores)

    def _latencies(self, problem: Problem, site: int) -> Sequence[StatedLatencies]:
        return stated_latencies(problem, site, len(self._problem.sites)) if self._states_latency else ()

    def remark(self) -> str:
        return ""

    def objection(self, proposed: Proposed, before: Prediction, after: Prediction) -> str | None:
        return saves_nothing(proposed, before, after)


def optimiser_briefing(problem: Problem, stand_in: Decider | None, states_latency: bool) -> Briefing:
    return OptimiserBriefing(problem, states_latency)
