"""`relaxation-central`: takes the place of SBON's optimisers, with all observations in one place (section
3.2).

Every operator hangs in the springs of its data flows. As rates and latencies change, its place in the cost
space moves; once that has shifted noticeably, sites near it are looked at, and a move is proposed where it
saves a share of the operator's network usage. Displacement is judged here by what moves it: flows and
latencies that differ from those at the last look for sites.
"""

from __future__ import annotations

from typing import ClassVar

from mooring.algorithms.relaxation.migration import MigrationParams
from mooring.algorithms.relaxation.policy import Relaxation
from mooring.algorithms.replan.decider import ReplanDecider, ReplanOptions
from mooring.contracts.decider import DeciderWish, Proposal
from mooring.contracts.picture import Picture


class RelaxationDecider:
    name: ClassVar[str] = "relaxation-central"

    def __init__(self, params: MigrationParams | None = None, seed: int = 0, probes: int = 10) -> None:
        thresholds = params or MigrationParams()
        policy = Relaxation(mapping="estimated", probes=probes, least_saving=thresholds.least_saving)
        self._migration = ReplanDecider(policy, ReplanOptions(seed, saves_bytes=True, plans_first=True))

    def decide(self, picture: Picture) -> Proposal:
        if picture.problem.network.latency_ms is None:
            now = picture.predict(picture.sites)
            return Proposal(now, (), "relaxation needs latencies between the sites, and the problem has none")
        return self._migration.decide(picture)


def decider(wish: DeciderWish) -> RelaxationDecider:
    if wish.options is None:
        return RelaxationDecider(seed=wish.seed)
    return RelaxationDecider(wish.options.migration, wish.seed, wish.options.candidates)
