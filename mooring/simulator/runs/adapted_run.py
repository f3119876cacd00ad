"""A problem, its changes and a decider, together in virtual time.

Data plane and control plane are those of any run: the simulated engine under a run session. So recovery looks
after lost sites here too, with every decider.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mooring.algorithms.catalogue import briefing_of
from mooring.contracts.decider import Decider, Sends
from mooring.controller.adaptation import Act
from mooring.controller.cycle import Look
from mooring.controller.guards import GuardOptions
from mooring.controller.initial_placement import Wish
from mooring.controller.session import SessionOptions
from mooring.controller.state_estimator import SurveyOptions
from mooring.coordination.site_decider import ProtocolDecider
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.placement.placement import Placement
from mooring.model.problem.changes.change import Changes
from mooring.model.problem.problem import Problem
from mooring.progress import Report, silent
from mooring.simulator.data_plane.arrivals import Arrivals
from mooring.simulator.data_plane.binding import Behaviour
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.data_plane.overload import Limits
from mooring.simulator.data_plane.report import report_of
from mooring.simulator.runs.ground_truth import Truth
from mooring.simulator.runs.query_sharing import StandIns, equal_operators, with_stand_ins
from mooring.simulator.runs.simulated_agents import SimulatedAgents
from mooring.simulator.runs.simulated_run import SimulatedRun, simulated_run
from mooring.simulator.runs.timed_changes import Unfolding, UnfoldingClock
from mooring.simulator.runs.timeline import CourseReport, LimitWatch, MadeMove, Moment, Traffic

TICK_S = 1.0
"""Virtual seconds between two turns of the session."""
LIMITS = Limits(site_tuples=np.inf, all_tuples=20_000_000, link_backlog_s=np.inf)
"""A site that falls behind is what a scenario may be about, so only memory ends a run early."""

Prompt = Callable[[SimulatedRun, Truth, float], None]
"""Called at every turn with the run, what is really so, and the second: for those who may know the truth."""


@dataclass(frozen=True)
class Circumstances:
    """What happens, whoever decides."""

    problem: Problem
    start: Placement
    changes: Changes
    seconds: float
    arrivals: tuple[Arrivals, ...]
    """One process per stream, following the course of its rate."""
    seed: int = 0
    batch: int = 1
    look_s: float = 5.0
    behaviour: Behaviour | None = None
    policy: str = "rod"
    """Places what faults leave without a site."""
    believed: Problem | None = None
    """What deciders take the problem for, where its statistics are wrong."""
    reuse: bool = True
    """Whether a query that comes reads what already runs, where that computes the same."""
    guards: GuardOptions = field(default_factory=GuardOptions)
    survey: SurveyOptions = field(default_factory=SurveyOptions)


@dataclass(frozen=True)
class Way:
    """How it is adapted to."""

    name: str
    decider: Decider
    act: Act = "apply"
    prompt: Prompt | None = None
    times: MoveTimes | None = None
    """How long moves take; None: as they usually do."""
    at_sites: Callable[[SimulatedEngine, int], SimulatedAgents] | None = None
    """Machines at the sites that decide by messages instead of `decider`, from the engine and a seed."""


def run_adapted(scenario: Circumstances, way: Way, progress: Report = silent) -> CourseReport:
    """The same scenario, way and seed give the same report, to the last bit."""
    equal = equal_operators(scenario.problem, scenario.changes) if scenario.reuse else {}
    engine = SimulatedEngine(
        scenario.problem,
        scenario.arrivals,
        np.random.default_rng(scenario.seed),
        horizon_s=scenario.seconds,
        batch=scenario.batch,
        behaviour=scenario.behaviour,
        limits=LIMITS,
        times=way.times,
        stand_ins=equal,
    )
    with TemporaryDirectory() as folder:
        return _run(scenario, way, engine, equal, Path(folder), progress)


def _run(
    scenario: Circumstances,
    way: Way,
    engine: SimulatedEngine,
    equal: Mapping[str, tuple[str, ...]],
    folder: Path,
    progress: Report,
) -> CourseReport:
    agents = None if way.at_sites is None else way.at_sites(engine, scenario.seed)
    decider = (
        way.decider
        if agents is None
        else ProtocolDecider(way.name, scenario.problem, agents, briefing_of(way.name))
    )
    truth = Truth(engine, scenario.changes)

    def rewired(stand_ins: StandIns) -> None:
        truth.rewire(stand_ins)
        known = with_stand_ins(scenario.believed or scenario.problem, stand_ins)
        run.session.adopt(known)
        if isinstance(decider, ProtocolDecider):
            decider.brief_anew(known)

    unfolding = Unfolding(engine, scenario.changes, equal, rewired)
    run = simulated_run(
        engine,
        folder,
        Wish(scenario.policy, seed=scenario.seed),
        decider=decider,
        act=way.act,
        guards=scenario.guards,
        survey=scenario.survey,
        clock=UnfoldingClock(engine, unfolding),
        believed=scenario.believed,
        options=SessionOptions(tick_s=TICK_S, look_s=scenario.look_s),
    )
    moments: list[Moment] = []
    whys: Counter[str] = Counter()
    limits = LimitWatch(scenario.problem.queries, lambda: unfolding.absent)

    def watch(look: Look) -> None:
        now_s, measured = engine.simulation.now_s, look.observation.measured
        if measured.seconds <= 0.0:  # the first look, at which nothing has happened yet
            return
        rates = truth.rates(now_s)
        picture = truth.picture(look.observation.belongs, rates)
        used = {name: site.utilisation or 0.0 for name, site in measured.sites.items()}
        latencies, met = limits.met(measured)
        headroom = picture.predict(picture.sites).headroom
        moments.append(Moment(now_s, headroom, used, latencies, met))
        if not look.considered.ordered:
            whys[look.considered.why] += 1
        progress(
            min(1.0, now_s / scenario.seconds), f"{way.name}: {now_s:.0f} s, {len(run.book.moves)} moves"
        )

    def over(passed_s: float) -> bool:
        if way.prompt is not None:
            way.prompt(run, truth, passed_s)
        return passed_s >= scenario.seconds or engine.simulation.overload is not None

    if agents is not None:
        run.session.chores["carrying messages between sites"] = agents.advance
    run.session.watchers.append(watch)
    run.session.start(scenario.start, "given")
    unfolding.begin(run.session)
    run.session.run(over)
    moves = tuple(
        MadeMove(at_s, made.fragment, made.from_site, made.to_site, made.pause_s, asked_by)
        for at_s, made, asked_by in run.book.moves
    )
    incidents = tuple(run.book.incidents)
    ledger = tuple(entry.as_json() for entry in run.session.adaptation.ledger.entries)
    messages = Traffic() if agents is None else agents.traffic
    if isinstance(way.decider, Sends):
        messages = Traffic(way.decider.sent_messages, int(way.decider.sent_bytes))
    return CourseReport(
        way.name,
        tuple(moments),
        moves,
        incidents,
        report_of(engine),
        dict(whys),
        ledger,
        messages,
        tuple(unfolding.reused),
    )
