"""A problem's changes carried out on a simulated run, each at its instant.

A query that leaves takes along what no other query needs: those fragments rest, and nothing is kept for them
until it joins again. One that comes is admitted or rejected, and its fragments go where there is room for
them, without moving others (`controller/joining.py`). It reads what already runs, where that computes the
same (`query_sharing.py`). Rates are not changed here: the arrivals of the streams follow their course.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from mooring.controller.joining import Joined
from mooring.controller.session import RunSession
from mooring.model.deployment.channels import Channel, channels_of
from mooring.model.problem.changes.change import (
    CapacityChange,
    Change,
    Changes,
    LatencyChange,
    QueryChange,
    SiteLoss,
)
from mooring.model.problem.changes.schedule import Turn, absent_at_first, turns
from mooring.simulator.data_plane.binding import spare_channel
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.query_sharing import (
    QueryArrival,
    Reused,
    StandIns,
    fragments_with,
    needed_operators,
    still_read,
)
from mooring.simulator.runs.simulated_run import VirtualClock


class Unfolding:
    """Between `begin` and the end, whoever lets time pass asks when the `next_s` is and carries it out."""

    def __init__(
        self,
        engine: SimulatedEngine,
        changes: Changes,
        equal: Mapping[str, tuple[str, ...]] | None = None,
        rewired: Callable[[StandIns], None] = lambda stand_ins: None,
    ) -> None:
        """`equal`: per operator of a query that comes, those that may be read instead; the engine has spare
        channels for them. `rewired` is told what is read instead, whenever that becomes different.
        """
        self.engine = engine
        self._equal, self._rewired = equal or {}, rewired
        self.stand_ins: StandIns = {}
        """Operators that do not run, and what is read instead."""
        self.reused: list[Reused] = []
        """What queries that came have found running."""
        self.absent = absent_at_first(changes)
        """Queries that are not there now."""
        self.resting: frozenset[str] = frozenset()
        """Fragments that nobody needs now."""
        self._due = deque(turns(changes))
        self._before: dict[Change, float] = {}
        """What a change that will end has replaced."""
        self._channels = channels_of(engine.problem)
        self._session: RunSession | None = None

    def begin(self, session: RunSession) -> None:
        """The session runs everything: have what no query needs rest."""
        self._session = session
        self._settle_queries()

    @property
    def next_s(self) -> float:
        return self._due[0].at_s if self._due else float("inf")

    def carry_out_next(self) -> None:
        turn = self._due.popleft()
        match turn.change:
            case LatencyChange():
                self._change_latencies(turn)
            case CapacityChange(site=site, capacity=capacity):
                now = self.engine.capacity_cores(site)
                self.engine.set_capacity(site, self._value(turn, now, capacity))
            case SiteLoss(site=site):
                self.engine.lose_site(site) if turn.begins else self.engine.give_back(site)
            case QueryChange(query=query, joins=joins):
                self.absent = self.absent - {query} if joins else self.absent | {query}
                self._settle_queries(query if joins else None)

    def _change_latencies(self, first: Turn) -> None:
        """Those of one instant together: each time, what crosses between sites is looked through."""
        together, wanted = [first], dict[tuple[str, str], float]()
        while (
            self._due and self._due[0].at_s == first.at_s and isinstance(self._due[0].change, LatencyChange)
        ):
            together.append(self._due.popleft())
        for turn in together:
            assert isinstance(turn.change, LatencyChange)
            link = turn.change.link
            wanted[link] = self._value(turn, self.engine.latency_ms(*link), turn.change.latency_ms)
        self.engine.set_latencies(wanted)

    def _value(self, turn: Turn, now: float, wanted: float) -> float:
        if turn.begins:
            self._before[turn.change] = now
            return wanted
        return self._before.pop(turn.change)

    def _settle_queries(self, coming: str | None = None) -> None:
        assert self._session is not None, "the scenario has not begun"
        problem = self.engine.problem
        present = {query.name for query in problem.queries} - self.absent
        before, now = self.stand_ins, still_read(problem, present, self.stand_ins)
        if coming is not None and self._equal:
            now = self._joined(coming, present, now)
        runs = fragments_with(problem, needed_operators(problem, present, now))
        resting = frozenset(problem.fragment_names) - runs
        waking, falling = self.resting - resting, resting - self.resting
        to = Joined()
        if coming is not None:
            query = next(each for each in problem.queries if each.name == coming)
            to = self._session.join(query, waking)
            if to.rejected:
                self.absent |= {coming}
                self._session.note(f"{coming} is rejected: {to.rejected}")
                return
            self._note_reuse(coming, now)
        self._session.rest(falling, "no running query needs it")
        self._connect_stand_ins(before, now)
        for channel in self._channels:
            reader = channel.reader
            if reader in falling or reader in self.absent:
                self.engine.disconnect(channel)
            elif reader in waking or reader in present:
                self.engine.connect(channel)
        self._session.wake(waking, to.sites)
        self.resting, self.stand_ins = resting, now
        if now != before:
            self._rewired(now)

    def _joined(self, query: str, present: set[str], stand_ins: StandIns) -> dict[str, str]:
        """The stand-ins once the query is there, by what was last seen of rates and latencies."""
        assert self._session is not None
        seen, problem = self._session.state.picture, self.engine.problem
        if seen is not None:
            problem = problem.in_circumstances(
                rates=seen.rates,
                capacity_cores=problem.capacity_cores,
                latency_ms=seen.problem.network.latency_ms,
            )
        homes = self.engine.homes()
        return QueryArrival(problem, query, present, homes, self._session.placement()).chosen(
            self._equal, stand_ins
        )

    def _note_reuse(self, query: str, now: StandIns) -> None:
        assert self._session is not None
        problem, homes = self.engine.problem, self.engine.homes()
        for operator, by in now.items():
            if operator not in self.stand_ins:
                site = homes[min(fragments_with(problem, [by]))]
                self.reused.append(Reused(self.engine.simulation.now_s, query, operator, by, site))
                self._session.note(f"{query} joins, and reads {by} at {site} instead of {operator}")

    def _connect_stand_ins(self, before: StandIns, now: StandIns) -> None:
        """Each reader of an operator that another stands in for reads that one, and only that one."""
        problem = self.engine.problem
        for name, other in {*before.items()} ^ {*now.items()}:
            own = fragments_with(problem, [name])
            for channel in self._channels:
                if channel.producer in own and self._reads(channel.reader, name):
                    spare = Channel(spare_channel(other, name), channel.reader)
                    (self.engine.connect if now.get(name) == other else self.engine.disconnect)(spare)

    def _reads(self, reader: str, name: str) -> bool:
        """Whether a query, or an operator of a fragment, reads an operator."""
        problem = self.engine.problem
        if any(query.name == reader and query.reads == name for query in problem.queries):
            return True
        members = dict(zip(problem.fragment_names, problem.fragments, strict=True)).get(reader, ())
        return any(name in problem.operators[j].inputs for j in members)


class UnfoldingClock(VirtualClock):
    """Virtual time in which changes happen."""

    def __init__(self, engine: SimulatedEngine, unfolding: Unfolding) -> None:
        super().__init__(engine)
        self._unfolding = unfolding

    def sleep(self, seconds: float) -> None:
        until_s = self.monotonic_s() + seconds
        while self._unfolding.next_s <= until_s:
            super().sleep(max(0.0, self._unfolding.next_s - self.monotonic_s()))
            self._unfolding.carry_out_next()
        super().sleep(until_s - self.monotonic_s())
