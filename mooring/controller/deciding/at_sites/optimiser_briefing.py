"""What SBON's optimisers are told: the fragments there are, what flows at each, and what a site can use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mooring.controller.deciding.at_sites.briefing import Told, saves_nothing
from mooring.controller.deciding.decider import Observation, Prediction
from mooring.controller.deciding.picture import Picture
from mooring.problem.problem import Problem
from mooring.protocols.moving import NOWHERE, Proposed, StartedAt
from mooring.protocols.optimiser_messages import (
    AskFragments,
    KnownFragments,
    MeasuredCapacity,
    MeasuredFlows,
)
from mooring.protocols.optimiser_specs import fragment_specs
from mooring.protocols.protocol import Data

TOLD_AT_ONCE = 1000
"""Fragments in one message: agents refuse messages that are too large."""
SENT_AGAIN = 0.01
"""Share by which a flow has to differ from what a site was last told, to be told again."""


class OptimiserBriefing:
    trigger_s = 0.0

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._told: dict[int, tuple[StartedAt, tuple[float, ...]]] = {}
        """Per fragment: which of its starts was told of what flows."""
        self._capacity: dict[int, float] = {}

    def answers(self, site: int, question: Data) -> Sequence[Data] | None:
        """A machine that has just begun knows nothing of what was measured either."""
        if not isinstance(question, AskFragments):
            return None
        self._capacity.pop(site, None)
        self._told = {f: told for f, told in self._told.items() if told[0].site != site}
        specs = fragment_specs(self._problem)
        return [
            KnownFragments(tuple(specs[first : first + TOLD_AT_ONCE]))
            for first in range(0, len(specs), TOLD_AT_ONCE)
        ]

    def requests(
        self, observation: Observation, picture: Picture, where: Mapping[int, StartedAt]
    ) -> Iterable[Told]:
        """What flows and what is used, to the site where a fragment is; capacities, to each site."""
        capacity = picture.model.capacity_cores
        for site in np.flatnonzero(~picture.lost[: len(self._problem.sites)]).tolist():
            if self._capacity.get(site) != float(capacity[site]):
                self._capacity[site] = float(capacity[site])
                yield site, MeasuredCapacity(float(capacity[site]))
        for spec in fragment_specs(picture.problem, picture.model):
            place = where.get(spec.fragment)
            if place is None or place.site == NOWHERE or not spec.movable:
                continue
            rates = tuple(link.rate for link in spec.links)
            known, told = self._told.get(spec.fragment, (None, ()))
            if known != place or any(abs(a - b) > SENT_AGAIN * b for a, b in zip(told, rates, strict=True)):
                self._told[spec.fragment] = place, rates
                yield place.site, MeasuredFlows(spec.fragment, rates, spec.cores)

    def objection(self, proposed: Proposed, before: Prediction, after: Prediction) -> str | None:
        return saves_nothing(before, after)
