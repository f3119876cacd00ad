"""A problem's changes carried out on a simulated run, each at its instant.

A query that leaves takes along what nobody else needs: those fragments rest, and nothing is kept for them
until it joins again. Rates are not changed here: the arrivals of the streams follow their course.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from mooring.controller.scenario.simulated_run import VirtualClock
from mooring.controller.session import RunSession
from mooring.deployment.channels import channels_of
from mooring.problem.changes.agenda import Turn, absent_at_first, turns
from mooring.problem.changes.change import (
    CapacityChange,
    Change,
    Changes,
    LatencyChange,
    QueryChange,
    SiteLoss,
)
from mooring.problem.problem import Problem
from mooring.simulator.data_plane.engine import SimulatedEngine


class Unfolding:
    """Between `begin` and the end, whoever lets time pass asks when the `next_s` is and carries it out."""

    def __init__(self, engine: SimulatedEngine, changes: Changes) -> None:
        self.engine = engine
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
                self._settle_queries()

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

    def _next_is_latency_at(self, at_s: float) -> bool:
        return self.next_s == at_s and isinstance(self._due[0].change, LatencyChange)

    def _value(self, turn: Turn, now: float, wanted: float) -> float:
        if turn.begins:
            self._before[turn.change] = now
            return wanted
        return self._before.pop(turn.change)

    def _settle_queries(self) -> None:
        assert self._session is not None, "the scenario has not begun"
        resting = frozenset(unneeded_fragments(self.engine.problem, self.absent))
        present = {query.name for query in self.engine.problem.queries} - self.absent
        waking, falling = self.resting - resting, resting - self.resting
        self._session.rest(falling, "no query needs it")
        for channel in self._channels:
            reader = channel.reader
            if reader in falling or reader in self.absent:
                self.engine.disconnect(channel)
            elif reader in waking or reader in present:
                self.engine.connect(channel)
        self._session.wake(waking)
        self.resting = resting


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


def unneeded_fragments(problem: Problem, absent: Collection[str]) -> list[str]:
    """Fragments whose output goes to no query but absent ones, straight or through others."""
    if not absent:
        return []
    graph, streams = problem.graph, len(problem.streams)
    read_by: dict[str, set[str]] = {}
    for query in problem.queries:
        read_by.setdefault(query.reads, set()).add(query.name)
    needed = [False] * len(problem.operators)
    for j in reversed(graph.order):
        queries, readers = read_by.get(problem.operators[j].logical_name, set()), graph.readers[streams + j]
        ends_here = not queries and not readers  # somebody wrote it for its own sake
        needed[j] = ends_here or bool(queries - set(absent)) or any(needed[r] for r in readers)
    return [
        name
        for name, members in zip(problem.fragment_names, problem.fragments, strict=True)
        if not any(needed[j] for j in members)
    ]
