"""What must hold of whole agents beyond their leases: plans are made, and what is wrong is seen to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.faults.checkers import Checker, Step, WorldView
from lab.faults.leases.invariants import HeldWhileItMoves, lease_checkers
from lab.faults.moving_invariants import AnsweredOnce, RunsOnce
from lab.faults.runner_model import SiteNode
from lab.overlay_faults.world import AGENTS, AgentNode
from mooring.algorithms.overlay.leases.adaptation import OVERLOAD
from mooring.algorithms.overlay.leases.adaptation_messages import Unsatisfied
from mooring.algorithms.overlay.leases.lease_client import LeaseEnded
from mooring.algorithms.overlay.leases.lease_site import LeaseSite
from mooring.algorithms.overlay.protocol.messages import Round
from mooring.algorithms.overlay.search.partial_plans import LATENCY_SLACK_MS
from mooring.contracts.site_machine import Output

MADE_MS = 9_000.0
"""By then plans are made anew of what has not moved since: a round that had just begun may time out in two of
its stages, which takes 4.8 s, and the next one begins at most 1.5 s later."""
STUCK_MS = 8.0 * AGENTS.overlay.patience.stage_ms
"""No round takes so long: it has fewer stages, and each is limited."""
SEEN_TO_MS = 2.0 * AGENTS.lease.review_ms
"""What is wrong is looked at again at every review, as long as the query's end reports it."""


def agents_of(world: WorldView) -> Iterator[AgentNode]:
    """Of the sites that are up, as far as they know the operators."""
    for site in range(world.sites - 1):
        machine = world.machine(site)
        node = machine.machine if isinstance(machine, SiteNode) else machine
        if isinstance(node, AgentNode) and node.lease is not None:
            yield node


class PlansAreMade:
    """Once all is healthy, every site knows the operators and what runs, no coordinator waits for ever, and
    operators of queries whose sites are all up have plans at their hosts, made for where things are."""

    name = "plans are made"

    def __init__(self) -> None:
        self._round: dict[int, tuple[Round, float]] = {}
        """Site -> the round that it coordinates, and since when."""
        self._where: dict[int, tuple[int, int]] = {}
        self._changed_ms: dict[int, float] = {}
        """Site -> since when it knows things to be where they are."""

    def after_step(self, step: Step, world: WorldView) -> str | None:
        for node in agents_of(world):
            if node.site != step.site:
                continue
            assert node.lease is not None
            registration = node.agent.overlay.coordinator._registration
            if registration is None:
                self._round.pop(node.site, None)
            elif self._round.get(node.site, (None, 0.0))[0] != registration.round:
                self._round[node.site] = registration.round, step.time_ms
            known = node.incarnation, node.lease.around.version
            if self._where.get(node.site) != known:
                self._where[node.site], self._changed_ms[node.site] = known, step.time_ms
        return None

    def at_end(self, world: WorldView) -> str | None:
        nodes = {node.site: node for node in agents_of(world)}
        up = [site for site in range(world.sites - 1) if world.machine(site) is not None]
        if ignorant := [site for site in up if site not in nodes]:
            return f"sites {ignorant} know no operators"
        for site, node in nodes.items():
            assert node.lease is not None
            around = node.lease.around
            if not around.informed:
                return f"site {site} does not know what runs"
            if unknown := [number for number in around.where if not around.is_known(number)]:
                return f"site {site} does not know what operators {unknown} are"
            round_, since_ms = self._round.get(site, (None, world.now_ms))
            if world.now_ms - since_ms > STUCK_MS:
                return f"site {site} has coordinated {round_} since {since_ms:.0f} ms"
        if any(world.now_ms - self._changed_ms[site] < MADE_MS for site in up):
            return None
        for site, node in nodes.items():
            assert node.lease is not None
            around = node.lease.around
            ends = {end.query for own in around.operators for end in own.ends if end.site == site}
            for query in sorted(ends):
                hosts = {number: around.site_of(number) for number in around.served.upstream(query)}
                if not _concerned(node.lease, query) <= nodes.keys():
                    continue  # somebody is gone, and nobody can make plans with it
                for number, host in hosts.items():
                    if not nodes[host].agent.overlay.agents.store.knows(number):
                        return f"site {host} has no plans of operator {number}, for query {query}"
        return None


def _concerned(lease: LeaseSite, query: int) -> set[int]:
    """Hosts, sources and ends of all queries that share an operator with it: their agents say what a plan
    would change for them, and without them there is no lease on it either."""
    around, served = lease.around, lease.around.served
    found: set[int] = set()
    for other in {other for number in served.upstream(query) for other in served.queries[number]}:
        found.add(around.end_site(other))
        for number in served.upstream(other):
            found |= {around.site_of(number), *(source.site for source in served.own[number].sources)}
    return found


class TroublesAreSeenTo:
    """A query that stays beyond its limit, and a site that stays too full, is planned for or given up, again
    and again: a lease is sought for it, or it is said that there is no plan."""

    name = "what is wrong is seen to"

    def __init__(self) -> None:
        self._up: dict[int, tuple[int, float]] = {}
        """Site -> its incarnation, and since when that knows the operators."""
        self._wrong_since_ms: dict[tuple[int, int], float] = {}
        """Query and the site of its last operator, or -1 and the site that is too full."""
        self._seen_to_ms: dict[int | tuple[int, int], float] = {}
        """The query, or -1 and the site."""

    def after_step(self, step: Step, world: WorldView) -> str | None:
        for node in agents_of(world):
            if node.site == step.site:
                if self._up.get(node.site, (-1, 0.0))[0] != node.incarnation:
                    self._up[node.site] = node.incarnation, step.time_ms
                self._look(node.site, node.lease, step)
        return None

    def _look(self, site: int, lease: LeaseSite | None, step: Step) -> None:
        assert lease is not None
        for effect in step.effects:
            match effect:
                case Output(value=LeaseEnded(plan=plan)):
                    self._seen_to_ms[self._what(plan.query, site)] = step.time_ms
                case Output(value=Unsatisfied(query=query)):
                    self._seen_to_ms[self._what(query, site)] = step.time_ms
        if (sought := lease.seeker.plan) is not None:
            self._seen_to_ms[self._what(sought.query, site)] = step.time_ms
        wrong = set(_late(lease))
        around = lease.around
        if all(map(around.is_known, around.running_here())) and around.room_left()[0] < -1e-9:
            wrong.add(OVERLOAD)
        for key in [key for key in self._wrong_since_ms if key[1] == site and key[0] not in wrong]:
            del self._wrong_since_ms[key]
        for query in wrong:
            self._wrong_since_ms.setdefault((query, site), step.time_ms)

    @staticmethod
    def _what(query: int, site: int) -> int | tuple[int, int]:
        return (OVERLOAD, site) if query == OVERLOAD else query

    def at_end(self, world: WorldView) -> str | None:
        nodes = {node.site: node.lease for node in agents_of(world)}
        for (query, site), since_ms in self._wrong_since_ms.items():
            if (lease := nodes.get(site)) is None:
                continue
            # Who is gone tells nobody what its query takes, and who has just begun has heard nothing yet.
            concerned = {site} if query == OVERLOAD else _concerned(lease, query)
            if not concerned <= nodes.keys():
                continue
            begun_ms = max([since_ms, *(self._up[each][1] for each in concerned)])
            seen_to_ms = max(begun_ms, self._seen_to_ms.get(self._what(query, site), 0.0))
            if world.now_ms - seen_to_ms > SEEN_TO_MS:
                what = f"query {query} is late" if query != OVERLOAD else "it is too full"
                return f"site {site}: {what} since {since_ms:.0f} ms; seen to at {seen_to_ms:.0f} ms"
        return None


def _late(lease: LeaseSite) -> Iterator[int]:
    """Queries whose last operator is here, as far as is known here."""
    around, slack = lease.around, lease.slack
    for number in around.running_here():
        own = around.served.own.get(number)
        for end in own.ends if own is not None else ():
            ms = slack.latency_ms.get(end.query)
            if ms is not None and ms - slack.limit_ms(end.query) > LATENCY_SLACK_MS:
                yield end.query


def agent_checkers() -> Sequence[Checker]:
    return (*lease_checkers(), PlansAreMade(), TroublesAreSeenTo())


def agent_run_checkers() -> Sequence[Checker]:
    return (RunsOnce(), AnsweredOnce(), HeldWhileItMoves(), PlansAreMade(), TroublesAreSeenTo())
