"""The briefing of ants for running queries: chains, flows and capacities as observed, and to each site its
own latencies. The central decider cuts and weighs chains the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from mooring.algorithms.ants.central_decider import AntsDecider, running_part
from mooring.algorithms.ants.chains import Chain
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.machines.colony_params import ENDLESS, SiteFacts
from mooring.algorithms.ants.machines.running_messages import (
    AskColony,
    KnownColony,
    OtherFragment,
    RunningChain,
)
from mooring.algorithms.ants.neighbours import neighbours_of
from mooring.arrays import Ints
from mooring.contracts.decider import Decider, Observation, Prediction
from mooring.contracts.picture import Picture
from mooring.contracts.site_machine import Data
from mooring.coordination.briefing import Briefing, Told, saves_nothing
from mooring.coordination.move_messages import Proposed, StartedAt
from mooring.model.load.build import build_load_model
from mooring.model.problem.problem import Problem

SENT_AGAIN = 0.03
"""Share by which a figure has to differ from what a site was last told, for it to be told again."""
LOST_CORES = 1e-9


class AntsBriefing:
    belonging = None
    draws = True

    def __init__(self, problem: Problem, stand_in: AntsDecider) -> None:
        rng = np.random.default_rng(stand_in.seed)
        self._neighbours = neighbours_of(problem.network, len(problem.sites), rng)
        self.trigger_s, self._beta = stand_in.trigger_s, stand_in.policy.beta
        self._delay_limit_s = stand_in.policy.delay_limit_ms / 1e3
        self._known: dict[int, KnownColony] = {}
        """Per site, what it was told last."""

    def answers(self, site: int, question: Data) -> Sequence[Data] | None:
        if not isinstance(question, AskColony):
            return None
        return self.basics(site)

    def basics(self, site: int) -> Sequence[Data]:
        """Nothing before the first look."""
        return [self._known[site]] if site in self._known else []

    def requests(
        self, observation: Observation, picture: Picture, where: Mapping[int, StartedAt]
    ) -> Iterable[Told]:
        part = running_part(picture)
        if part is None or not part[0].queries or picture.problem.network.latency_ms is None:
            return
        for site, colony in enumerate(self._colonies(picture, *part)):
            if site not in self._known or _differ(self._known[site], colony):
                self._known[site] = colony
                yield site, colony

    def remark(self) -> str:
        return ""

    def objection(self, proposed: Proposed, before: Prediction, after: Prediction) -> str | None:
        return saves_nothing(proposed, before, after)

    def _colonies(self, picture: Picture, problem: Problem, rows: Ints) -> list[KnownColony]:
        model, sites = build_load_model(problem), picture.sites[rows]
        pinned = np.where(picture.movable[rows], model.pinned_site, sites)
        search = LatencySearch.of(
            problem, replace(model, pinned_site=pinned), self.trigger_s, self._delay_limit_s
        )
        chains = tuple(running_chain(number, chain, rows) for number, chain in enumerate(search.chains))
        chained = {f for chain in search.chains for f in chain.fragments}
        flows = search.fragments
        others = tuple(
            OtherFragment(
                int(rows[f]),
                (*flows.flow[f].tolist(), float(model.fixed_cores[f]), float(model.memory_mb[f])),
            )
            for f in range(len(rows))
            if f not in chained
        )
        # A site that joined later has no machine, and nobody's neighbour is it.
        facts = site_facts(search, self._neighbours)
        return [
            KnownColony(
                replace(own, capacity_cores=LOST_CORES) if picture.lost[site] else own,
                chains,
                others,
                self._beta,
            )
            for site, own in enumerate(facts)
        ]


def running_chain(number: int, chain: Chain, rows: Ints) -> RunningChain:
    """rows: per fragment of the part that runs, its number in the problem."""

    def numbered(fragment: int) -> int:
        return int(rows[fragment]) if fragment >= 0 else -1

    return RunningChain(
        number,
        tuple(numbered(fragment) for fragment in chain.fragments),
        tuple(tuple(row) for row in chain.tasks.tolist()),
        tuple(tuple(row) for row in chain.sides.tolist()),
        numbered(chain.start.fragment),
        chain.start.site,
        chain.start_variability,
        numbered(chain.end.fragment),
        chain.end.site,
        chain.end_weight,
        chain.sure_s,
    )


def _differ(one: KnownColony, other: KnownColony) -> bool:
    ours, theirs = list(_figures(msgspec.to_builtins(one))), list(_figures(msgspec.to_builtins(other)))
    if len(ours) != len(theirs):
        return True
    return any(a != b and abs(a - b) > SENT_AGAIN * abs(a) for a, b in zip(ours, theirs, strict=True))


def _figures(value: object) -> Iterator[float]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        for each in value:
            yield from _figures(each)
    elif isinstance(value, int | float):
        yield float(value)


def ants_briefing(problem: Problem, stand_in: Decider | None, states_latency: bool) -> Briefing:
    """Ants are told the latencies of the problem in any case."""
    return AntsBriefing(problem, stand_in if isinstance(stand_in, AntsDecider) else AntsDecider())


def site_facts(search: LatencySearch, neighbours: Sequence[Sequence[int]]) -> list[SiteFacts]:
    """Per site: its own row and column of the latencies, those rows that its neighbours tell, and nothing of
    the others' load."""
    template, latency_ms = search.many.template, search.problem.network.latency_ms
    assert latency_ms is not None
    return [
        SiteFacts(
            tuple(own),
            tuple((latency_ms[s] / 1e3).tolist()),
            tuple((latency_ms[:, s] / 1e3).tolist()),
            float(template.capacity_cores[s]),
            min(float(search.fragments.memory_limit_mb[s]), ENDLESS),
            tuple(tuple((latency_ms[n] / 1e3).tolist()) for n in own),
            search.trigger_s,
            search.delay_limit_s,
        )
        for s, own in enumerate(neighbours)
    ]
