"""A query's way into the system (initial placement, section 3.4), seen from its coordinator.

| stage     | waits for                            | then                                            |
| --------- | ------------------------------------ | ----------------------------------------------- |
| finding   | where the operators run, and echoes  | asks the hosts for descriptions                 |
| asking    | descriptions of running operators    | searches the directory for sites with room      |
| searching | such sites                           | hands out the round: every operator has an agent |
| planning  | plans of the operators that it reads | takes the cheapest, or rejects                  |
| taking    | reservations and measurements        | commits, or releases and takes the next plan    |
| settling  | that all is as planned               | the query is admitted                           |

Plans are made from estimates, and from adverts that may be old. So before a plan is applied its sites reserve
the room and measure its links, and a plan that does not hold is passed over. Nothing changes before that. A
stage that takes too long ends the round, and another begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
import numpy as np

from mooring.algorithms.overlay.protocol.generation import SearchParams
from mooring.algorithms.overlay.protocol.messages import (
    CandidateSite,
    Commit,
    HostedOperator,
    Leave,
    Obstacle,
    Prepare,
    PublisherMoved,
    RegisterQuery,
    ReleaseRoom,
    Round,
    RunsAt,
    Subscriber,
    Take,
    Taken,
)
from mooring.algorithms.overlay.protocol.monitor import NetworkMonitor
from mooring.algorithms.overlay.search.partial_plans import PlanTable
from mooring.algorithms.overlay.search.shared_operator import (
    NOWHERE,
    QueryEnd,
    SharedOperator,
    queries_of,
    subscribers_of,
    upstream_first,
)
from mooring.algorithms.overlay.search.walked_plan import WalkedPlan, walked
from mooring.contracts.site_machine import Effect, Send

Stage = Literal["finding", "asking", "searching", "planning", "taking", "settling"]
MOST_TRIES = 12
"""Plans that are tried in one round: after that many surprises the estimates need another round."""

NOT_WAITED_FOR = -1
"""Where a confirmation has no number among the parts that are to be settled."""


def sink_number(query: int) -> int:
    """The query as the last of its operators: it stays where its results go, and needs nothing."""
    return -1 - query


class Registration:
    """One query in one round: what is known so far, and the messages that follow from it."""

    def __init__(self, site: int, request: RegisterQuery, number: int, search: SearchParams) -> None:
        self.request, self.site, self._channel_ms = request, site, search.channel_ms
        self._cheapest_first = search.kept.drawn_by is None
        self.round = Round(site, number)
        self.stage: Stage = "finding"
        self.waiting: set[object] = set()
        self.host: dict[int, int] = {}
        """Operator -> where it runs; `NOWHERE` if it does not."""
        self.described: dict[int, HostedOperator] = {}
        self.places: dict[int, CandidateSite] = {}
        self.agent: dict[int, int] = {}
        self.found: tuple[CandidateSite, ...] = ()
        self.explored = 0
        self.obstacle: Obstacle | None = None
        self.chosen: WalkedPlan | None = None
        self._table: PlanTable | None = None
        self._tried: set[int] = set()
        self._refused: set[tuple[int, int]] = set()
        """Operator and a site that had no room for it after all."""
        self._row = -1

    @property
    def operators(self) -> tuple[SharedOperator, ...]:
        return self.request.operators

    def home(self, operator: int) -> int:
        return self.host.get(operator, NOWHERE)

    def next_sites_known(self) -> tuple[int, ...]:
        """Sites of streams and of the query's own end: where the coordinator has to measure to."""
        sources = {source.site for own in self.operators for source in own.sources}
        return tuple(sorted(sources - {self.site}))

    def ends_unknown(self) -> tuple[int, ...]:
        """Sites that results of the running operators go to, and of which no coordinate is known yet."""
        ends = {end.site for own in self.fixed().values() for end in own.ends if end.site != NOWHERE}
        return tuple(sorted(ends - set(self.places)))

    def publisher_place(self, own: SharedOperator) -> CandidateSite:
        """Where what an operator reads comes from, as far as that is known."""
        sites = [self.home(publisher) for publisher in own.publishers]
        sites += [source.site for each in self.operators for source in each.sources]
        known = [self.places[site] for site in sites if site in self.places]
        return known[0] if known else self.places[self.site]

    def fixed(self) -> dict[int, SharedOperator]:
        """The operators with everything that stays: ends of other queries, and subscribers that are not
        placed with them."""
        mine = {own.operator for own in self.operators}
        found: dict[int, SharedOperator] = {}
        for own in self.operators:
            hosted = self.described.get(own.operator)
            ends: list[QueryEnd] = []
            if hosted is not None:
                limits = dict(hosted.limits_ms)
                ends += [end for end in hosted.operator.ends if end.query != self.request.query]
                for reader in hosted.subscribers:
                    if reader.operator not in mine:
                        ends += self._staying(own, reader, limits)
            found[own.operator] = msgspec.structs.replace(own, ends=tuple(ends))
        return found

    def _staying(
        self, own: SharedOperator, reader: Subscriber, limits_ms: Mapping[int, float]
    ) -> list[QueryEnd]:
        ends = []
        for k, (query, rest_ms) in enumerate(reader.rest_ms):
            rate, beyond_ms = own.output_rate if k == 0 else 0.0, rest_ms + self._channel_ms
            limit_ms = limits_ms.get(query, float("inf"))
            ends.append(QueryEnd(query, reader.site, limit_ms, rate, beyond_ms))
        return ends or [QueryEnd(sink_number(reader.operator), reader.site, float("inf"), own.output_rate)]

    def sink(self) -> SharedOperator:
        end = QueryEnd(self.request.query, NOWHERE, self.request.limit_ms)
        number, reads = sink_number(self.request.query), self.request.reads
        return SharedOperator(number, publishers=reads, ends=(end,), pinned_site=self.site)

    def prepares(self) -> list[tuple[int, Prepare]]:
        """Agent and what it is asked, the query itself last."""
        fixed = self.fixed()
        everything = [*fixed.values(), self.sink()]
        limits = queries_of(everything)
        readers = subscribers_of(everything)
        agents = {**self.agent, sink_number(self.request.query): self.site}
        sources, ends = self.anchors()
        homes = {self.home(own.operator) for own in self.operators} - {NOWHERE}
        total = sum(own.cores for own in self.operators)
        return [
            (
                agents[own.operator],
                Prepare(
                    self.round,
                    own,
                    self.home(own.operator),
                    tuple((p, agents[p]) for p in own.publishers if p in agents),
                    tuple((r, agents[r]) for r in readers[own.operator]),
                    tuple(limits[own.operator].items()),
                    sources,
                    ends,
                    tuple(self.places[s] for s in sorted(homes) if s in self.places),
                    self.found,
                    total,
                    self.described.get(own.operator),
                ),
            )
            for own in upstream_first(everything)
        ]

    def anchors(self) -> tuple[tuple[CandidateSite, ...], tuple[CandidateSite, ...]]:
        """Where the query's streams enter, and where results of its operators go."""
        sources = {source.site for own in self.operators for source in own.sources} or {self.site}
        ends = {end.site for own in self.fixed().values() for end in own.ends if end.site != NOWHERE}
        known = [sorted(sources & set(self.places)), sorted({self.site, *ends} & set(self.places))]
        return tuple(self.places[s] for s in known[0]), tuple(self.places[s] for s in known[1])

    # Choosing among the plans that came in, and trying them out.

    def planned(self, table: PlanTable, explored: int, obstacle: Obstacle | None) -> None:
        self._table, self.explored, self.obstacle = table, explored, obstacle

    def next_plan(self, monitor: NetworkMonitor) -> WalkedPlan | None:
        """The cheapest plan that holds by all that is known now, in the fewest moves; None if there is
        none."""
        table = self._table
        if table is None or len(self._tried) >= MOST_TRIES:
            return None
        moved = sum(
            (table.sites[:, k] != home) & (home != NOWHERE) for k, home in enumerate(table.homes)
        ) + np.zeros(len(table), dtype=np.int64)
        cheapest_first = np.lexsort((table.latency_ms, moved, np.round(table.cost, 6)))
        for row in (cheapest_first if self._cheapest_first else np.arange(len(table))).tolist():
            if row in self._tried or moved[row] > self.request.most_moves or self._lacks(table, row):
                continue
            plan = walked(table.operators, table.homes, table.sites[row], monitor, self._channel_ms)
            late = plan.latest(self._limits(table))
            if late is None:
                self._tried.add(row)
                self._row, self.chosen = row, plan
                return plan
            query, by_ms = late
            if self.obstacle is None or self.obstacle.resource == "limit":
                self.obstacle = Obstacle(
                    "limit", -1, query, self._limits(table)[query], self._limits(table)[query] + by_ms
                )
            self._tried.add(row)
        return None

    def _limits(self, table: PlanTable) -> dict[int, float]:
        found: dict[int, float] = {}
        for own in table.operators:
            for end in own.ends:
                found[end.query] = min(end.limit_ms, found.get(end.query, float("inf")))
        return found

    def _lacks(self, table: PlanTable, row: int) -> bool:
        """Whether it puts an operator where that was refused in this round."""
        at = dict(zip((own.operator for own in table.operators), table.sites[row].tolist(), strict=True))
        return any(at.get(operator) == site for operator, site in self._refused)

    def takes(self, plan: WalkedPlan) -> list[tuple[int, Take]]:
        mine = {own.operator: site for own, site in plan.sites.items() if own.operator >= 0}
        readers = subscribers_of(plan.sites)
        found = []
        for own, site in plan.sites.items():
            if own.operator < 0:
                continue
            after = [plan.site_of(reader) for reader in readers[own.operator]]
            after += [end.site for end in own.ends if end.site != NOWHERE]
            after += [source.site for source in own.sources]
            leaving = tuple(o for o, to in mine.items() if self.home(o) == site and to != site)
            found.append((site, Take(self.round, own, tuple(sorted(set(after) - {site})), leaving)))
        return found

    def taken(self, sender: int, answer: Taken) -> None:
        if answer.cores_short > 0.0 or answer.memory_short_mb > 0.0:
            self._refused.add((answer.operator, sender))
            own = next(own for own in self.operators if own.operator == answer.operator)
            resource = "cores" if answer.cores_short > 0.0 else "memory_mb"
            needed = own.cores if answer.cores_short > 0.0 else own.memory_mb
            short = answer.cores_short if answer.cores_short > 0.0 else answer.memory_short_mb
            self.obstacle = Obstacle(resource, own.operator, -1, needed, needed - short)

    def holds(self, monitor: NetworkMonitor) -> WalkedPlan | None:
        """The plan as measured, if every site has room and every limit is met."""
        assert self._table is not None
        assert self.chosen is not None
        if self._lacks(self._table, self._row):
            return None
        table = self._table
        plan = walked(table.operators, table.homes, table.sites[self._row], monitor, self._channel_ms)
        late = plan.latest(self._limits(table))
        if late is None:
            self.chosen = plan
            return plan
        query, by_ms = late
        limit_ms = self._limits(table)[query]
        self.obstacle = Obstacle("limit", -1, query, limit_ms, limit_ms + by_ms)
        return None

    def releases(self, plan: WalkedPlan) -> list[Effect]:
        return [Send(site, ReleaseRoom(self.round)) for site in sorted(set(plan.sites.values()))]

    def commits(
        self, plan: WalkedPlan, sites: int, runs_at: Mapping[int, int], now_ms: float
    ) -> list[Effect]:
        """Everything that changes: the operators at their sites, those they leave, their registries, and what
        reads them and stays.

        Whoever registers next has to find all of it so. Only for what everybody is told of anyway
        (`runs_at`) no registry is waited for, which may be lost.
        """
        effects: list[Effect] = []

        def part() -> int:
            self.waiting.add(len(self.waiting))
            return len(self.waiting) - 1

        for own, site in plan.sites.items():
            if own.operator < 0:
                continue
            hosted = self._hosted_after(own, plan)
            home = self.home(own.operator)
            effects.append(Send(site, Commit(self.round, hosted, part())))
            if home not in (NOWHERE, site):
                effects.append(Send(home, Leave(self.round, own.operator, part())))
            if home != site:
                told = NOT_WAITED_FOR if own.operator in runs_at else part()
                registry = own.operator % sites
                effects.append(Send(registry, RunsAt(own.operator, site, now_ms, self.round, told)))
                effects += self._to_staying(own, site, hosted, plan)
        return effects

    def _to_staying(
        self, own: SharedOperator, site: int, hosted: HostedOperator, plan: WalkedPlan
    ) -> list[Effect]:
        ms, placed = plan.arrival_ms[own.operator], {each.operator for each in plan.sites}
        return [
            Send(reader.site, PublisherMoved(reader.operator, own.operator, site, ms))
            for reader in hosted.subscribers
            if reader.operator not in placed
        ]

    def _hosted_after(self, own: SharedOperator, plan: WalkedPlan) -> HostedOperator:
        before, request = self.described.get(own.operator), self.request
        mine = {each.operator for each in self.operators}
        ends = [end for end in (before.operator.ends if before else ()) if end.query != request.query]
        if own.operator in request.reads:
            ends.append(QueryEnd(request.query, self.site, request.limit_ms, request.delivered_rate))
        limits = {**dict(before.limits_ms if before else ()), request.query: request.limit_ms}
        staying = [r for r in (before.subscribers if before else ()) if r.operator not in mine]
        moving = [
            Subscriber(reader, plan.site_of(reader), plan.rest_ms(reader))
            for reader in subscribers_of(plan.sites)[own.operator]
            if reader >= 0
        ]
        return HostedOperator(
            msgspec.structs.replace(own, ends=tuple(ends)),
            tuple(sorted(limits.items())),
            tuple((publisher, plan.site_of(publisher)) for publisher in own.publishers if publisher in mine),
            (*staying, *moving),
            plan.arrival_ms[own.operator],
        )

    def moves(self, plan: WalkedPlan) -> int:
        homes = ((self.home(own.operator), site) for own, site in plan.sites.items() if own.operator >= 0)
        return sum(home not in (NOWHERE, site) for home, site in homes)
