"""The queries that a site coordinates, one after the other: requests in, registrations driven through their
stages, outcomes out."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mooring.algorithms.overlay.protocol import messages as m
from mooring.algorithms.overlay.protocol.candidate_search import CandidateSearches, middle_of
from mooring.algorithms.overlay.protocol.generation import Generation, SearchParams
from mooring.algorithms.overlay.protocol.monitor import NetworkMonitor
from mooring.algorithms.overlay.protocol.registration import Registration
from mooring.algorithms.overlay.protocol.site_room import SiteRoom
from mooring.algorithms.overlay.search.partial_plans import PlanTable
from mooring.algorithms.overlay.search.shared_operator import NOWHERE
from mooring.contracts.site_machine import Effect, Output, Send

ForCoordinator = m.FoundAt | m.Description | m.Taken | m.Settled
_WAITED_FOR_AS = {m.FoundAt: "where", m.Description: "description", m.Taken: "taken"}


@dataclass(frozen=True)
class PatienceParams:
    stage_ms: float = 20_000.0
    """How long a stage of a registration may take before another round begins."""
    most_rounds: int = 3
    """After which a query is rejected because sites do not answer."""


class Coordinator:
    def __init__(
        self,
        site: int,
        sites: int,
        search: SearchParams,
        patience: PatienceParams,
        monitor: NetworkMonitor,
        hosting: SiteRoom,
        searches: CandidateSearches,
    ) -> None:
        self.site, self._sites, self._search, self._patience = site, sites, search, patience
        self.monitor, self.hosting, self.searches = monitor, hosting, searches
        self.deadline_ms: float | None = None
        self._requests: deque[m.RegisterQuery] = deque()
        self._registration: Registration | None = None
        self._attempt, self._number = 0, 0
        self.runs_at: Mapping[int, int] = {}
        """Operator -> its site, of those that somebody has told of: no registry need be asked for them, which
        may be lost.
        """

    @property
    def busy(self) -> bool:
        return self._registration is not None

    def ask(self, request: m.RegisterQuery, now_ms: float) -> Sequence[Effect]:
        self._requests.append(request)
        return self._next_request(now_ms)

    def timer(self, now_ms: float) -> Sequence[Effect]:
        due = self.deadline_ms is not None and now_ms >= self.deadline_ms
        return self._begin_again(now_ms) if due else ()

    def measured(self, peer: int, now_ms: float) -> Sequence[Effect]:
        return self._found_out(("place", peer), now_ms)

    def plans_made(self, generation: Generation, table: PlanTable, now_ms: float) -> Sequence[Effect]:
        registration = self._registration
        if registration is None or registration.round != generation.prepare.round:
            return ()
        registration.planned(table, generation.explored, generation.obstacle)
        return self._planned(registration, now_ms)

    def _next_request(self, now_ms: float) -> Sequence[Effect]:
        if self._registration is not None or not self._requests:
            return ()
        self._attempt = 0
        return self._begin(now_ms)

    def _begin(self, now_ms: float) -> Sequence[Effect]:
        self._number += 1
        registration = Registration(self.site, self._requests[0], self._number, self._search)
        self._registration = registration
        self._wait(now_ms)
        registration.places[self.site] = self.hosting.as_candidate(self.monitor.coordinate)
        effects: list[Effect] = []
        for own in registration.operators:
            if own.operator in self.runs_at:
                registration.host[own.operator] = self.runs_at[own.operator]
                continue
            registration.waiting.add(("where", own.operator))
            asked = m.WhereIs(registration.round, own.operator)
            effects.append(Send(own.operator % self._sites, asked))
        effects += self._ask_places(registration, registration.next_sites_known(), now_ms)
        return effects if registration.waiting else self._ask_hosts(registration, now_ms)

    def _ask_places(
        self, registration: Registration, sites: Sequence[int], now_ms: float
    ) -> Sequence[Effect]:
        registration.waiting |= {("place", site) for site in sites}
        return [Send(site, m.Echo(now_ms)) for site in sites]

    def _begin_again(self, now_ms: float) -> Sequence[Effect]:
        registration, self.deadline_ms = self._registration, None
        if registration is None:
            return ()
        effects: list[Effect] = []
        if registration.chosen is not None and registration.stage == "taking":
            effects += registration.releases(registration.chosen)
        self._attempt += 1
        if self._attempt < self._patience.most_rounds:
            return (*effects, *self._begin(now_ms))
        silent = m.Obstacle("answers", -1, -1, 0.0, float(len(registration.waiting)))
        return (*effects, *self._ended(m.Rejected(registration.request.query, silent), now_ms))

    def _ended(self, outcome: m.Admitted | m.Rejected, now_ms: float) -> Sequence[Effect]:
        if isinstance(outcome, m.Rejected):
            self.searches.widen()  # it may be tried again
        self._registration, self.deadline_ms = None, None
        self._requests.popleft()
        return (Output(outcome), *self._next_request(now_ms))

    def _wait(self, now_ms: float) -> None:
        self.deadline_ms = now_ms + self._patience.stage_ms

    def receive(self, sender: int, message: ForCoordinator, now_ms: float) -> Sequence[Effect]:
        registration = self._registration
        if registration is None or registration.round != message.round:
            return ()
        match message:
            case m.FoundAt() | m.Description() | m.Taken() if (
                _WAITED_FOR_AS[type(message)],
                message.operator,
            ) not in registration.waiting:
                return ()  # nobody has asked, or not now
            case m.FoundAt(operator=operator, site=site):
                registration.host[operator] = site
                return self._found_out(("where", operator), now_ms)
            case m.Description(operator=operator, hosted=hosted, here=here):
                registration.places[here.site] = here
                self.monitor.learn_place(here.site, here.coordinate)
                if hosted is None:
                    registration.host[operator] = NOWHERE
                else:
                    registration.described[operator] = hosted
                return self._found_out(("description", operator), now_ms)
            case m.Taken(operator=operator, latency_ms=latency_ms):
                for site, ms in latency_ms:
                    self.monitor.learn_pair(sender, site, ms)
                registration.taken(sender, message)
                return self._found_out(("taken", operator), now_ms)
            case m.Settled(part=part):
                registration.waiting.discard(part)
                if registration.stage == "settling" and not registration.waiting:
                    return self._admitted(registration, now_ms)
        return ()

    def _found_out(self, what: tuple[str, int], now_ms: float) -> Sequence[Effect]:
        """One thing less to wait for; with the last of a stage the next begins."""
        registration = self._registration
        if registration is None or what not in registration.waiting:
            return ()
        registration.waiting.discard(what)
        if what[0] == "place" and (place := self.monitor.place_of(what[1])) is not None:
            registration.places.setdefault(what[1], m.CandidateSite(what[1], place, 0.0, 0.0))
        if registration.waiting:
            return ()
        self._wait(now_ms)
        match registration.stage:
            case "finding":
                return self._ask_hosts(registration, now_ms)
            case "asking":
                return self._find_agents(registration, now_ms)
            case "taking":
                return self._took(registration, now_ms)
        return ()

    def _ask_hosts(self, registration: Registration, now_ms: float) -> Sequence[Effect]:
        registration.stage = "asking"
        running = [operator for operator, site in registration.host.items() if site != NOWHERE]
        registration.waiting = {("description", operator) for operator in running}
        if not running:
            return self._find_agents(registration, now_ms)
        return [
            Send(registration.host[operator], m.Describe(registration.round, operator))
            for operator in running
        ]

    def _find_agents(self, registration: Registration, now_ms: float) -> Sequence[Effect]:
        """Hosts are the agents of what runs; for the rest the nearest site to a publisher that has room."""
        registration.stage = "searching"
        unknown = registration.ends_unknown()
        if unknown:
            registration.stage = "asking"
            return self._ask_places(registration, unknown, now_ms)
        least = min((own.cores for own in registration.operators), default=0.0)
        return self._search_room(registration, least, now_ms)

    def _search_room(self, registration: Registration, cores: float, now_ms: float) -> Sequence[Effect]:
        return self.searches.near(
            [middle_of(each) for each in registration.anchors() if each],
            cores,
            0.0,
            self._search.candidates + 1,
            lambda found: self._agents_found(registration, found, cores, now_ms),
        )

    def _agents_found(
        self, registration: Registration, found: tuple[m.CandidateSite, ...], cores: float, now_ms: float
    ) -> Sequence[Effect]:
        if registration is not self._registration:
            return ()
        if not found and cores > 0.0:
            # Nobody has the room. To say how much is missing, it takes those that have less.
            return self._search_room(registration, float("-inf"), now_ms)
        registration.found = found
        for own in registration.operators:
            if registration.home(own.operator) != NOWHERE:
                registration.agent[own.operator] = registration.home(own.operator)
            elif own.pinned_site != NOWHERE:
                registration.agent[own.operator] = own.pinned_site
            else:
                point = registration.publisher_place(own).coordinate
                roomy = [each for each in found if each.cores_left >= own.cores] or found
                nearest = min(
                    roomy, key=lambda each: (each.coordinate.latency_ms(point), each.site), default=None
                )
                registration.agent[own.operator] = self.site if nearest is None else nearest.site
        return self._hand_out(registration, now_ms)

    def _hand_out(self, registration: Registration, now_ms: float) -> Sequence[Effect]:
        registration.stage = "planning"
        self._wait(now_ms)
        return [Send(agent, prepare) for agent, prepare in registration.prepares()]

    def _planned(self, registration: Registration, now_ms: float) -> Sequence[Effect]:
        if registration.request.only_prepare:
            admitted = m.Admitted(registration.request.query, (), 0.0, registration.explored, 0)
            return self._ended(admitted, now_ms)
        return self._try_next(registration, now_ms)

    def _try_next(self, registration: Registration, now_ms: float) -> Sequence[Effect]:
        plan = registration.next_plan(self.monitor)
        if plan is None:
            obstacle = registration.obstacle or m.Obstacle("moves", -1, -1, 0.0, 0.0)
            return self._ended(m.Rejected(registration.request.query, obstacle), now_ms)
        registration.stage = "taking"
        self._wait(now_ms)
        takes = registration.takes(plan)
        registration.waiting = {("taken", take.operator.operator) for _, take in takes}
        return [Send(site, take) for site, take in takes]

    def _took(self, registration: Registration, now_ms: float) -> Sequence[Effect]:
        assert registration.chosen is not None
        plan = registration.holds(self.monitor)
        if plan is None:
            released = registration.releases(registration.chosen)
            return (*released, *self._try_next(registration, now_ms))
        registration.stage, registration.waiting = "settling", set()
        return registration.commits(plan, self._sites, self.runs_at, now_ms)

    def _admitted(self, registration: Registration, now_ms: float) -> Sequence[Effect]:
        plan, query = registration.chosen, registration.request.query
        assert plan is not None
        sites = tuple((own.operator, site) for own, site in plan.sites.items() if own.operator >= 0)
        latency_ms = plan.query_ms.get(query, 0.0)
        moves = registration.moves(plan)
        return self._ended(m.Admitted(query, sites, latency_ms, registration.explored, moves), now_ms)
