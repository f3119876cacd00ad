"""A run session over the simulator: the same loop in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mooring.algorithms.headroom.decider import HeadroomDecider
from mooring.contracts.clock import Clock
from mooring.contracts.decider import Decider
from mooring.contracts.engine import MoveReport
from mooring.controller.adaptation import Act
from mooring.controller.guards import GuardOptions
from mooring.controller.initial_placement import Wish
from mooring.controller.journal import Journal
from mooring.controller.session import RunSession, SessionOptions
from mooring.controller.state_estimator import SurveyOptions
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.memory_mailbox import Tray


class VirtualClock:
    """The simulator's time: it passes while somebody sleeps."""

    def __init__(self, engine: SimulatedEngine) -> None:
        self._engine = engine

    def now_s(self) -> float:
        return self.monotonic_s()

    def monotonic_s(self) -> float:
        return self._engine.simulation.now_s

    def sleep(self, seconds: float) -> None:
        self._engine.run(self.monotonic_s() + seconds)


class SimulatedRevival:
    """Lost sites come back when the scenario gives them back; nothing else can be done for them."""

    def __init__(self, engine: SimulatedEngine) -> None:
        self._engine = engine
        self._waiting: set[str] = set()

    def look_after(self, site: str) -> None:
        self._waiting.add(site)

    def returned(self) -> list[str]:
        back = self._waiting - {trouble.site for trouble in self._engine.dead_sites()}
        self._waiting -= back
        return sorted(back)

    def refusals(self) -> dict[str, str]:
        return {}


@dataclass
class MemoryBook:
    """Keeps what was written down, to look at afterwards."""

    looks: list[tuple[dict[str, str], dict[str, object]]] = field(default_factory=list)
    """Troubles and remarks of every look."""
    incidents: list[tuple[float, str]] = field(default_factory=list)
    moves: list[tuple[float, MoveReport, str]] = field(default_factory=list)
    """When, what, and who asked for it."""
    sites: FragmentSites = field(default_factory=lambda: FragmentSites({}))
    """After the last change."""

    def write(self, troubles: Mapping[str, str], remarks: Mapping[str, object]) -> None:
        self.looks.append((dict(troubles), dict(remarks)))

    def incident(self, at_s: float, what: str) -> None:
        self.incidents.append((at_s, what))

    def placed(self, sites: FragmentSites) -> None:
        self.sites = sites

    def moved(self, at_s: float, reports: Sequence[MoveReport], asked_by: str) -> None:
        self.moves += [(at_s, report, asked_by) for report in reports]

    def noticed(
        self, sites: FragmentSites, troubles: Mapping[str, str], under_way: Mapping[str, object] | None
    ) -> None:
        """The next look says it."""


@dataclass
class SimulatedRun:
    """What the session is made of, where a scenario or a test wants to reach in."""

    engine: SimulatedEngine
    tray: Tray
    book: MemoryBook
    session: RunSession


def simulated_run(
    engine: SimulatedEngine,
    journal_folder: Path,
    wish: Wish,
    *,
    decider: Decider | None = None,
    act: Act = "propose",
    guards: GuardOptions | None = None,
    survey: SurveyOptions | None = None,
    clock: Clock | None = None,
    believed: Problem | None = None,
    options: SessionOptions | None = None,
) -> SimulatedRun:
    """A session over an engine on which nothing runs yet; `session.start` begins it. `believed` is what the
    session takes the problem for, where that is not what the engine simulates.
    """
    clock, tray, book = clock or VirtualClock(engine), Tray(), MemoryBook()
    session = RunSession(
        believed or engine.problem,
        engine,
        clock,
        tray,
        journal=Journal(journal_folder, clock.now_s),
        book=book,
        reviver=SimulatedRevival(engine),
        replan=wish.replan,
        decider=decider or HeadroomDecider(),
        act=act,
        guards=guards,
        survey=survey,
        options=options,
    )
    return SimulatedRun(engine, tray, book, session)
