"""The view of a site: the operators, their sites, its own room, and the distance of other sites.

What operators are (what they read, need, and which queries wait for them) is stated in the problem, and every
site has that. Where they run changes. A site takes that from the mover's whereabouts and from leases, so it
may be behind. Latencies are its own measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from mooring.algorithms.overlay.leases.lease_messages import LeasePlan
from mooring.algorithms.overlay.search.replicas import as_served, original_of
from mooring.algorithms.overlay.search.shared_operator import (
    NOWHERE,
    QueryEnd,
    SharedOperator,
    queries_along,
    subscribers_of,
    upstream_first,
)
from mooring.contracts.site_machine import Effect, Send
from mooring.coordination.move_messages import NO_STATE, FragmentMove, LookUp, StartedAt, Whereabouts
from mooring.model.placement.site_limits import SLACK


def sink_number(query: int) -> int:
    """A query's own end, as the last of its operators: it never moves."""
    return -1 - query


class Served:
    """Operators as queries read them, replicas that run included.

    All but `own` follows from who reads what, which measurements leave as it is.
    """

    def __init__(self, operators: Sequence[SharedOperator]) -> None:
        self.own = {each.operator: each for each in operators}
        self.readers = subscribers_of(operators)
        ordered = upstream_first(operators)
        self.ordered = [each.operator for each in ordered]
        """Publishers before subscribers."""
        self.queries = queries_along(ordered, self.readers)
        self.limits_ms: dict[int, float] = {}
        """Of each query."""
        self._upstream: dict[int, list[int]] = {}
        for operator, shared in self.queries.items():
            for query, limit_ms in shared.items():
                self._upstream.setdefault(query, []).append(operator)
                self.limits_ms[query] = min(limit_ms, self.limits_ms.get(query, limit_ms))
        self._ending: dict[int, list[int]] = {}
        for own in operators:
            for site in {end.site for end in own.ends}:
                self._ending.setdefault(site, []).append(own.operator)

    def upstream(self, query: int) -> Sequence[int]:
        return self._upstream.get(query, ())

    def ending_at(self, site: int) -> Iterator[tuple[QueryEnd, SharedOperator]]:
        """The ends of queries there, each with the operator that it reads."""
        for operator in self._ending.get(site, ()):
            own = self.own[operator]
            yield from ((end, own) for end in own.ends if end.site == site)

    def connected(self, operators: Iterable[int]) -> set[int]:
        """These, whatever is upstream of them, and whatever is downstream."""
        found = set(operators)
        todo, after = list(found), set(found)
        while todo:
            new = set(self.readers.get(todo.pop(), ())) - after
            after |= new
            todo += new
        return after | self.before(found)

    def before(self, operators: Iterable[int]) -> set[int]:
        """Whatever is upstream of some operators."""
        found: set[int] = set()
        todo = list(operators)
        while todo:
            own = self.own.get(todo.pop())
            new = set(own.publishers if own is not None else ()) - found
            found |= new
            todo += new
        return found

    def affected_by(self, moves: Iterable[FragmentMove]) -> tuple[int, ...]:
        """Queries that share an operator which moves."""
        return tuple(sorted({q for move in moves for q in self.queries.get(move.fragment, ())}))


class OverlaySurroundings:
    def __init__(
        self,
        site: int,
        operators: Sequence[SharedOperator],
        places: Iterable[StartedAt],
        usable_cores: float,
        memory_mb: float,
        latency_ms: Mapping[int, float],
    ) -> None:
        self.site, self.usable_cores, self.memory_mb = site, usable_cores, memory_mb
        self.latency_ms = {**latency_ms, site: 0.0}
        """To other sites, as measured last."""
        self.where = {place.fragment: place for place in places}
        self._operators = {own.operator: own for own in operators}
        self._served: Served | None = None
        self._end_sites: dict[int, int] | None = None
        self._here: list[int] | None = None
        self._places: tuple[StartedAt, ...] | None = None
        self._links: tuple[tuple[int, float], ...] | None = None
        self.informed = False
        """Whether it has been told of everything that runs, since it started: no room is promised before."""
        self.state = 0
        """Of the mover, that it was told everything of."""
        self.version = 0
        """Counts how often it has learnt that something is elsewhere."""

    @property
    def operators(self) -> list[SharedOperator]:
        return list(self._operators.values())

    @property
    def served(self) -> Served:
        if self._served is None:
            running = [p.fragment for p in self.where.values() if p.site != NOWHERE]
            self._served = Served(as_served(self.operators, running))
        return self._served

    @property
    def places(self) -> tuple[StartedAt, ...]:
        """All that it knows of where operators are."""
        if self._places is None:
            self._places = tuple(self.where.values())
        return self._places

    @property
    def links(self) -> tuple[tuple[int, float], ...]:
        """Sites and the latency to each."""
        if self._links is None:
            self._links = tuple(sorted(self.latency_ms.items()))
        return self._links

    def reached(self, latency_ms: Mapping[int, float]) -> None:
        """Sites, and how long it takes to each of them."""
        self.latency_ms |= latency_ms
        self._links = None

    def learn(self, places: Iterable[StartedAt]) -> bool:
        """Whether anything was new."""
        new = False
        for place in places:
            if place.newer_than(self.where.get(place.fragment)):
                self.where[place.fragment] = place
                new, self._here, self._places = True, None, None
                if original_of(place.fragment)[1] is not None:
                    self._served = None
        self.version += new
        return new

    def ask_if_new(self, places: Iterable[StartedAt], mover: int) -> Sequence[Effect]:
        """What others say of where things are is no more than a reason to ask the mover."""
        is_new = any(place.newer_than(self.where.get(place.fragment)) for place in places)
        return (Send(mover, self.look_up()),) if is_new else ()

    def heard(self, told: Whereabouts) -> None:
        self.informed |= told.tells_all(self.state)
        self.state = told.brings_to(self.state)
        self.learn(told.places)

    def look_up(self) -> LookUp:
        return LookUp(self.state or (NO_STATE if self.where else 0))

    def is_known(self, number: int) -> bool:
        """An operator, or a replica of one."""
        return original_of(number)[0] in self._operators

    def knows(self, plan: LeasePlan) -> bool:
        named = [*(move.fragment for move in plan.moves), *plan.relies_on]
        return all(self.is_known(number) for number in named if number >= 0)

    def take(self, own: SharedOperator) -> None:
        """An operator that is known, as it is now."""
        known = self._operators.get(own.operator)
        if known is None:
            return
        self._operators[own.operator] = own
        if not _reads_alike(known, own):
            self._served = self._end_sites = None
        elif self._served is not None and self._served.own[own.operator] is known:
            self._served.own[own.operator] = own
        else:  # with replicas of it, or ends that these have taken over
            self._served = None

    def measured(self, operator: int, cores: float) -> None:
        """What an operator needs at the present rates."""
        own = self._operators.get(operator)
        if own is not None and cores >= 0.0:
            self.take(msgspec.structs.replace(own, cores=cores))

    def needs(self, number: int) -> SharedOperator:
        """A replica needs what its original needs."""
        return self._operators[original_of(number)[0]]

    def cores_of(self, number: int) -> float:
        return self.needs(number).cores

    def site_of(self, operator: int) -> int:
        """Of a query's end too; `NOWHERE` if it does not run."""
        if operator < 0:
            return self.end_site(-1 - operator)
        return self.where[operator].site if operator in self.where else NOWHERE

    def end_site(self, query: int) -> int:
        if self._end_sites is None:
            self._end_sites = {}
            for own in self._operators.values():
                for end in own.ends:
                    self._end_sites.setdefault(end.query, end.site)
        return self._end_sites.get(query, NOWHERE)

    def running_here(self) -> Sequence[int]:
        if self._here is None:
            self._here = [p.fragment for p in self.where.values() if p.site == self.site]
        return self._here

    def room_left(self, reserved: Mapping[int, float] | None = None) -> tuple[float, float]:
        """Cores and memory; what is reserved for an operator that has come meanwhile counts once."""
        needed = dict(reserved or {})
        needed |= {number: self.needs(number).cores for number in self.running_here()}
        memory_mb = sum(self.needs(number).memory_mb for number in needed)
        return self.usable_cores - sum(needed.values()), self.memory_mb - memory_mb

    def has_room(self, number: int, cores: float, reserved: Mapping[int, float]) -> bool:
        cores_left, memory_left_mb = self.room_left(reserved)
        enough = cores <= cores_left + SLACK * max(self.usable_cores, 1.0)
        return enough and self.needs(number).memory_mb <= memory_left_mb + SLACK

    def after(self, plan: LeasePlan) -> tuple[Served, dict[int, int]]:
        """How queries read operators once a plan is carried out, and where these are then."""
        sites = {number: place.site for number, place in self.where.items()}
        sites |= {move.fragment: move.to_site for move in plan.moves}
        if plan.kind == "migrate":
            return self.served, sites
        running = [number for number, site in sites.items() if site != NOWHERE]
        return Served(as_served(self.operators, running)), sites


def _reads_alike(one: SharedOperator, other: SharedOperator) -> bool:
    """Whether both read the same operators and deliver to the same ends, at whatever rates."""
    if one.publishers != other.publishers or len(one.ends) != len(other.ends):
        return False
    return all(
        (a.query, a.site, a.limit_ms) == (b.query, b.site, b.limit_ms)
        for a, b in zip(one.ends, other.ends, strict=True)
    )
