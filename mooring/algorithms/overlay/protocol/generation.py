"""The plans of one operator in one round, made by its agent (sections 3.3.1 and 3.3.2).

In this order: find candidate sites, send them to the publishers' agents; take k steps ahead, each with the
replies of the subscribers' agents to the step before; receive the publishers' plans, expand them, eliminate,
keep the best, and pass them on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mooring.algorithms.overlay.protocol.messages import (
    AheadIs,
    CandidateSite,
    Obstacle,
    PlansOf,
    Prepare,
    Refer,
)
from mooring.algorithms.overlay.protocol.monitor import NetworkMonitor
from mooring.algorithms.overlay.search.ahead import Ahead, delivery_ahead, slowest, step_ahead
from mooring.algorithms.overlay.search.partial_plans import Candidates, PlanTable, expanded, feasible
from mooring.algorithms.overlay.search.shared_operator import SharedOperator
from mooring.algorithms.overlay.search.similar_plans import KeptPlans
from mooring.arrays import Floats, Ints
from mooring.contracts.site_machine import Effect, Send
from mooring.errors import InputError


@dataclass(frozen=True)
class SearchParams:
    k: int = 3
    """Steps ahead; 2 or 3 eliminate most of what can be eliminated."""
    candidates: int = 7
    """Candidate sites per operator."""
    kept: KeptPlans = field(default_factory=KeptPlans)
    channel_ms: float = 0.0
    """Delay of every channel between operators."""

    def __post_init__(self) -> None:
        if self.k < 0:
            raise InputError(f"found {self.k}, expected steps from 0 up", field="k")
        if self.candidates < 1:
            raise InputError(f"found {self.candidates}, expected at least 1", field="candidates")


class Generation:
    def __init__(self, prepare: Prepare, monitor: NetworkMonitor, params: SearchParams) -> None:
        self.prepare, self._monitor, self._params = prepare, monitor, params
        self.table: PlanTable | None = None
        self.explored = 0
        self.obstacle: Obstacle | None = None
        self._most_left = 0.0, 0.0
        self.stored = False
        """Whether something has been done with the plans."""
        self._candidates: tuple[CandidateSite, ...] | None = None
        self._referred: dict[int, Ints] = {}
        self._said: dict[tuple[int, int], tuple[dict[int, Floats], bool]] = {}
        """(subscriber, step) -> its ahead latencies, and whether they are settled."""
        self._step, self._ahead, self._settled = 0, dict[int, Floats](), False
        self._received: dict[int, PlansOf] = {}

    @property
    def operator(self) -> int:
        return self.prepare.operator.operator

    @property
    def chosen(self) -> bool:
        """Whether it has candidate sites."""
        return self._candidates is not None

    def choose(self, found: Sequence[CandidateSite]) -> Sequence[Effect]:
        """The candidate sites, of those that the directory knows; then on with the search."""
        found = (*self.prepare.found, *found)
        for each in (*found, *self.prepare.homes, *self.prepare.sources, *self.prepare.ends):
            self._monitor.learn_place(each.site, each.coordinate)
        self._candidates = chosen_candidates(self.prepare, found, self._params.candidates)
        self._most_left = (
            max((each.cores_left for each in found), default=0.0),
            max((each.memory_left_mb for each in found), default=0.0),
        )
        queries = tuple(query for query, _ in self.prepare.limits_ms)
        self._ahead = {query: np.zeros(len(self._candidates)) for query in queries}
        refer = Refer(self.prepare.round, self.operator, self._candidates, queries)
        return (*self._to_publishers(refer), *self._advance())

    def referred(self, refer: Refer) -> Sequence[Effect]:
        for each in refer.candidates:
            self._monitor.learn_place(each.site, each.coordinate)
        self._referred[refer.operator] = np.array([each.site for each in refer.candidates], dtype=np.int64)
        zeros = np.zeros(len(refer.candidates))
        self._said[refer.operator, 0] = dict.fromkeys(refer.queries, zeros), False
        return self._advance()

    def told_ahead(self, told: AheadIs) -> Sequence[Effect]:
        ahead = {query: np.array(ms) for query, ms in told.ahead_ms}
        for step in range(told.step, self._params.k + 1 if told.settled else told.step + 1):
            self._said[told.operator, step] = ahead, told.settled
        return self._advance()

    def receive_plans(self, plans: PlansOf) -> Sequence[Effect]:
        for site, coordinate in plans.places:
            self._monitor.learn_place(site, coordinate)
        self._received[plans.operator] = plans
        return self._advance()

    def _advance(self) -> Sequence[Effect]:
        if self._candidates is None or self.table is not None:
            return ()
        effects: list[Effect] = []
        readers = [reader for reader, _ in self.prepare.subscribers]
        while self._step < self._params.k and not self._settled:
            if not all((r, self._step) in self._said and r in self._referred for r in readers):
                return effects
            self._take_step(readers)
            if self._step < self._params.k or self._settled:
                effects += self._to_publishers(self._said_ahead())
        publishers = [publisher for publisher, _ in self.prepare.publishers]
        if all(publisher in self._received for publisher in publishers):
            effects += self._make_plans([self._received[publisher] for publisher in publishers])
        return effects

    def _take_step(self, readers: Sequence[int]) -> None:
        sites = self._sites()
        ways: list[Ahead] = [delivery_ahead(self.prepare.operator, sites, self._monitor)]
        settled = True
        for reader in readers:
            said, reader_settled = self._said[reader, self._step]
            unknown = np.full(len(self._referred[reader]), np.inf)
            said = {query: ms if len(ms) == len(unknown) else unknown for query, ms in said.items()}
            channel_ms = self._params.channel_ms if reader >= 0 else 0.0
            ways.append(
                step_ahead(self._monitor.between_ms(sites, self._referred[reader]) + channel_ms, said)
                if len(self._referred[reader]) and len(sites)
                else {query: np.full(len(sites), np.inf) for query in said}
            )
            settled &= reader_settled
        self._ahead, self._settled = slowest(ways), settled
        self._step += 1

    def _said_ahead(self) -> AheadIs:
        ahead = tuple((query, tuple(ms.tolist())) for query, ms in self._ahead.items())
        return AheadIs(self.prepare.round, self.operator, self._step, ahead, self._settled)

    def _make_plans(self, received: Sequence[PlansOf]) -> Sequence[Effect]:
        assert self._candidates is not None
        own, limits = self.prepare.operator, dict(self.prepare.limits_ms)
        self.explored = sum(plans.explored for plans in received)
        obstacle = next((plans.obstacle for plans in received if plans.obstacle is not None), None)
        if obstacle is None and not self._candidates:
            obstacle = self._no_room(*self._most_left)
        if obstacle is not None:
            return self._pass_on(None, obstacle)
        left = Candidates(
            self._sites(),
            np.array([each.cores_left for each in self._candidates]),
            np.array([each.memory_left_mb for each in self._candidates]),
        )
        tables = [as_table(plans) for plans in received]
        table = expanded(own, self.prepare.home, left, tables, self._monitor, self._params.channel_ms)
        self.explored += len(table)
        if not len(table):
            cores, memory_mb = float(left.cores_left.max()), float(left.memory_left_mb.max())
            most = max(cores, self._most_left[0]), max(memory_mb, self._most_left[1])
            return self._pass_on(None, self._no_room(*most))
        keep = feasible(table, left.sites, self._ahead, limits)
        if not keep.any():
            return self._pass_on(None, self._too_late(table, left.sites))
        self.table = self._params.kept.of(table.kept(keep))
        return self._pass_on(self.table, None)

    def _pass_on(self, table: PlanTable | None, obstacle: Obstacle | None) -> Sequence[Effect]:
        if table is None:
            table = expanded(
                self.prepare.operator,
                self.prepare.home,
                Candidates(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)),
                (),
                self._monitor,
            )
            self.table = table
        self.obstacle = obstacle
        plans = as_message(self.prepare, table, self._monitor, self.explored, obstacle)
        return [Send(agent, plans) for _, agent in self.prepare.subscribers]

    def _no_room(self, most_cores: float, most_mb: float) -> Obstacle:
        own = self.prepare.operator
        if own.cores > most_cores or own.memory_mb <= most_mb:
            return Obstacle("cores", own.operator, -1, own.cores, most_cores)
        return Obstacle("memory_mb", own.operator, -1, own.memory_mb, most_mb)

    def _too_late(self, table: PlanTable, sites: Ints) -> Obstacle:
        """The limit that is missed by most, by the plan that misses it least."""
        at = {int(site): k for k, site in enumerate(sites.tolist())}
        rows = np.array([at[site] for site in table.sites[:, -1].tolist()])
        worst = Obstacle("limit", self.operator, -1, 0.0, 0.0)
        for query, limit_ms in self.prepare.limits_ms:
            if query in self._ahead:
                least = float((table.latency_ms + self._ahead[query][rows]).min())
                if worst.query < 0 or least - limit_ms > worst.best - worst.needed:
                    worst = Obstacle("limit", self.operator, query, limit_ms, least)
        return worst

    def _sites(self) -> Ints:
        return np.array([each.site for each in self._candidates or ()], dtype=np.int64)

    def _to_publishers(self, message: Refer | AheadIs) -> list[Effect]:
        return [Send(agent, message) for _, agent in self.prepare.publishers]


def has_room(site: CandidateSite, own: SharedOperator) -> bool:
    return site.cores_left >= own.cores and site.memory_left_mb >= own.memory_mb


def chosen_candidates(
    prepare: Prepare, found: Sequence[CandidateSite], wanted: int
) -> tuple[CandidateSite, ...]:
    """The sites that an operator is tried at, the most promising first.

    Where the query runs already; the sites with room for all of it, which cost no bandwidth between its
    operators; two next to its streams; and then those on the shortest way from its streams to its ends.
    """
    own = prepare.operator
    pool = {each.site: each for each in (*found, *prepare.homes)}
    roomy = [
        each
        for each in pool.values()
        if each.site == prepare.home
        or has_room(each, own)
        or any(home.site == each.site for home in prepare.homes)
    ]
    if own.pinned_site >= 0:
        return tuple(each for each in pool.values() if each.site == own.pinned_site)

    to_sources, to_ends = far_ms(roomy, prepare.sources), far_ms(roomy, prepare.ends)
    sites = np.array([each.site for each in roomy])
    by_detour = [roomy[k] for k in np.lexsort((sites, to_sources + to_ends)).tolist()]
    near = [roomy[k] for k in np.lexsort((sites, to_sources)).tolist()]
    homes = [each for each in by_detour if any(home.site == each.site for home in prepare.homes)]
    whole = [each for each in by_detour if each.cores_left >= prepare.total_cores]
    ranked = [*homes[: wanted // 2 + 1], *whole[: wanted // 2], *near[:2], *by_detour]
    return tuple({each.site: each for each in ranked}.values())[:wanted]


def far_ms(sites: Sequence[CandidateSite], others: Sequence[CandidateSite]) -> Floats:
    """How far each site is from the others in the mean, by their coordinates."""
    if not sites or not others:
        return np.zeros(len(sites))
    starts, ends = (np.array([each.coordinate.position_ms for each in own]) for own in (sites, others))
    heights, others_heights = (
        np.array([each.coordinate.height_ms for each in own]) for own in (sites, others)
    )
    apart = starts[:, None] - ends
    ways = np.sqrt((apart * apart).sum(axis=2)) + heights[:, None] + others_heights
    same = np.array([each.site for each in sites])[:, None] == np.array([each.site for each in others])
    return np.asarray(np.where(same, 0.0, ways).mean(axis=1))


def as_message(
    prepare: Prepare, table: PlanTable, monitor: NetworkMonitor, explored: int, obstacle: Obstacle | None
) -> PlansOf:
    named = sorted(set(table.sites.ravel().tolist()))
    places = [(site, monitor.place_of(site)) for site in named]
    return PlansOf(
        prepare.round,
        prepare.operator.operator,
        table.operators,
        table.homes,
        tuple(map(tuple, table.sites.tolist())),
        tuple(table.latency_ms.tolist()),
        tuple(table.cost.tolist()),
        tuple((query, tuple(ms.tolist())) for query, ms in table.settled_ms.items()),
        tuple((site, place) for site, place in places if place is not None),
        explored,
        obstacle,
    )


def as_table(plans: PlansOf) -> PlanTable:
    return PlanTable(
        plans.operators,
        plans.homes,
        np.array(plans.sites, dtype=np.int64).reshape(len(plans.sites), len(plans.operators)),
        np.array(plans.latency_ms),
        np.array(plans.cost),
        {query: np.array(ms) for query, ms in plans.settled_ms},
    )
