"""The operators whose plans a site makes: as their agent, in the rounds of all coordinators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mooring.algorithms.overlay.protocol import messages as m
from mooring.algorithms.overlay.protocol.candidate_search import CandidateSearches, middle_of
from mooring.algorithms.overlay.protocol.generation import Generation, SearchParams, has_room
from mooring.algorithms.overlay.protocol.monitor import NetworkMonitor
from mooring.algorithms.overlay.protocol.site_room import SiteRoom
from mooring.algorithms.overlay.search.final_plans import PlanStore, finalised
from mooring.algorithms.overlay.search.partial_plans import PlanTable
from mooring.algorithms.overlay.search.shared_operator import NOWHERE
from mooring.algorithms.overlay.search.walked_plan import walked
from mooring.contracts.site_machine import Effect

Exchanged = m.Refer | m.AheadIs | m.PlansOf
MOST_ROUNDS = 64
"""Of one coordinator, whose plans are made here: it has one at a time, with some operators."""
MOST_EARLY = 1_000
"""Messages of one round that have overtaken what they are about, and rounds that have such."""
Made = Callable[[Generation, PlanTable, float], Sequence[Effect]]
"""What becomes of the plans that are made at a query's own end."""


class Agents:
    def __init__(
        self,
        site: int,
        params: SearchParams,
        monitor: NetworkMonitor,
        hosting: SiteRoom,
        searches: CandidateSearches,
        at_the_end: Made,
    ) -> None:
        self.site, self._params, self._at_the_end = site, params, at_the_end
        self.monitor, self.hosting, self.searches = monitor, hosting, searches
        self.store = PlanStore()
        self.stores = True
        """Whether plans of operators that run here are kept."""
        self._generations: dict[tuple[m.Round, int], Generation] = {}
        self._early: dict[m.Round, list[tuple[int, Exchanged]]] = {}
        """What has overtaken the request that it is about, and who sent it."""

    def prepare(self, prepare: m.Prepare, now_ms: float) -> Sequence[Effect]:
        self._forget_before(prepare.round)
        generation = Generation(prepare, self.monitor, self._params)
        key = prepare.round, prepare.operator.operator
        self._generations[key] = generation
        of_coordinator = [own for own in self._generations if own[0].coordinator == key[0].coordinator]
        for oldest in of_coordinator[: max(len(of_coordinator) - MOST_ROUNDS, 0)]:
            del self._generations[oldest]
        here = self.hosting.as_candidate(self.monitor.coordinate)
        if prepare.operator.operator < 0 or prepare.operator.pinned_site == self.site:
            return self._chosen(generation, (here,), now_ms)
        roomy = [each for each in prepare.found if has_room(each, prepare.operator)]
        if 2 * len(roomy) >= self._params.candidates:
            return self._chosen(generation, prepare.found, now_ms)
        points = [middle_of(each or (here,)) for each in (prepare.sources, prepare.ends)]
        return self.searches.near(
            points,
            prepare.operator.cores,
            prepare.operator.memory_mb,
            self._params.candidates + 1,
            lambda found: self._chosen(generation, found, now_ms),
        )

    def _forget_before(self, round_: m.Round) -> None:
        """A coordinator has one round at a time."""

        def is_over(other: m.Round) -> bool:
            return other.coordinator == round_.coordinator and other.number < round_.number

        self._generations = {key: own for key, own in self._generations.items() if not is_over(key[0])}
        self._early = {key: own for key, own in self._early.items() if not is_over(key)}

    def _chosen(
        self, generation: Generation, found: Sequence[m.CandidateSite], now_ms: float
    ) -> Sequence[Effect]:
        effects = [*generation.choose(found)]
        for sender, message in self._early.get(generation.prepare.round, ()):
            if self._concerns(generation, sender, message):
                effects += self._said(generation, message)
        return (*effects, *self._made(generation, now_ms))

    def exchange(self, sender: int, message: Exchanged, now_ms: float) -> Sequence[Effect]:
        effects: list[Effect] = []
        early = self._early.setdefault(message.round, [])
        if len(early) < MOST_EARLY:
            early.append((sender, message))
        if len(self._early) > MOST_EARLY:
            del self._early[next(iter(self._early))]
        for (round_, _), generation in list(self._generations.items()):
            if round_ == message.round and generation.chosen and self._concerns(generation, sender, message):
                effects += [*self._said(generation, message), *self._made(generation, now_ms)]
        return effects

    @staticmethod
    def _concerns(generation: Generation, sender: int, message: Exchanged) -> bool:
        """Of an operator its agent speaks, and nobody else."""
        ends = (
            generation.prepare.publishers
            if isinstance(message, m.PlansOf)
            else generation.prepare.subscribers
        )
        return (message.operator, sender) in ends

    @staticmethod
    def _said(generation: Generation, message: Exchanged) -> Sequence[Effect]:
        match message:
            case m.Refer():
                return generation.referred(message)
            case m.AheadIs():
                return generation.told_ahead(message)
            case m.PlansOf():
                return generation.receive_plans(message)

    def _made(self, generation: Generation, now_ms: float) -> Sequence[Effect]:
        """What to do with plans that have just been made: store them, or, at the query's own end, choose."""
        table = generation.table
        if table is None or generation.stored:
            return ()
        generation.stored = True
        if generation.operator >= 0:
            hosted = generation.prepare.hosted is not None and generation.operator in self.hosting.hosted
            if hosted and self.stores:
                self._store(generation, table)
            return ()
        return self._at_the_end(generation, table, now_ms)

    def _store(self, generation: Generation, table: PlanTable) -> None:
        hosted, channel_ms = generation.prepare.hosted, self._params.channel_ms
        assert hosted is not None
        rest = {end.query: (end.site, end.beyond_ms) for end in hosted.operator.ends if end.site != NOWHERE}
        rest |= {
            query: (reader.site, ms + channel_ms)
            for reader in hosted.subscribers
            for query, ms in reader.rest_ms
        }
        if NOWHERE in table.homes:
            return
        now = walked(table.operators, table.homes, table.homes, self.monitor, channel_ms)
        arrival_ms = now.arrival_ms[generation.operator]
        current = dict(now.query_ms)
        for query, (site, ms) in rest.items():
            current[query] = arrival_ms + self.monitor.estimate(self.site, site).latency_ms + ms
        self.store.replace(generation.operator, finalised(table, self.monitor, rest, current, now.cost()))
