"""The ways a scenario is run: a decider by name, and what it is held against.

Never moving is the decider `none`. Replanning from scratch makes a new plan at every change, with the true
rates and capacities, and moves everything that the new plan has elsewhere, with its pauses: a yardstick with
perfect information and no regard for cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mooring.algorithms.baselines.none_decider import NoneDecider
from mooring.algorithms.catalogue import ALGORITHMS, make_decider, simulated_machines
from mooring.contracts.decider import Decider
from mooring.errors import MooringError
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import Placement
from mooring.model.problem.changes.change import change_to_data, in_words
from mooring.model.problem.changes.schedule import instants
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from mooring.progress import Report, silent
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.adapted_run import TICK_S, Circumstances, Way, run_adapted
from mooring.simulator.runs.ground_truth import Truth
from mooring.simulator.runs.simulated_agents import SimulatedAgents
from mooring.simulator.runs.simulated_run import SimulatedRun
from mooring.simulator.runs.timeline import CourseReport

REPLANNED = "replanned"
"""The name of the way that replans at every change."""
_SETTLE_S = 2 * TICK_S
"""After a change, until recovery has started what it stopped."""
_LEAST_GAP_S = 60.0
"""Between two plans, where rates change more often than that."""


def decided_by(
    decider: str | Decider, machines: str = "", settings: Mapping[str, object] | None = None
) -> Way:
    """By a decider or one of that name. `machines`: the algorithm whose machines at the simulated sites
    decide by messages instead, by these settings. A way is named after what decides, so that of `ants`,
    whose machines are not simulated, is `ants-central`.
    """
    if isinstance(decider, str):
        machines, decider = decider, make_decider(decider)
    if machines not in ALGORITHMS or not ALGORITHMS[machines].simulated:
        return Way(decider.name, decider)

    def at_sites(engine: SimulatedEngine, seed: int) -> SimulatedAgents:
        return SimulatedAgents(engine, simulated_machines(machines, engine.problem, settings), seed)

    return Way(machines, decider, at_sites=at_sites)


def never_moving() -> Way:
    return Way("none", NoneDecider())


def replanned(scenario: Circumstances) -> Way:
    due = [at_s + _SETTLE_S for at_s in instants(scenario.changes, _LEAST_GAP_S)]

    def prompt(run: SimulatedRun, truth: Truth, now_s: float) -> None:
        if not due or now_s < due[0]:
            return
        while due and now_s >= due[0]:
            due.pop(0)
        moves = _to_a_new_plan(scenario, run, truth.problem(truth.rates(now_s)))
        if moves:
            run.session.order(moves, "replanned from scratch")

    return Way(REPLANNED, NoneDecider(), prompt=prompt)


def foreseeing(scenario: Circumstances, every_s: float = 600.0, policy: str = "") -> Way:
    """Plans anew every so often for the rates that are to come until the next time, and its moves are free:
    what nobody can do, to hold the others against. Plans are those of the scenario's policy unless another
    is given.
    """
    due = [0.0]

    def prompt(run: SimulatedRun, truth: Truth, now_s: float) -> None:
        if now_s < due[0]:
            return
        due[0] += every_s
        coming = truth.rates(now_s, now_s + every_s)
        moves = _to_a_new_plan(scenario, run, truth.problem(coming), policy)
        if moves:
            run.session.order(moves, "foreseen")

    free = MoveTimes(stateless_s=0.0, stateful_s=0.0, bytes_per_s=float("inf"))
    return Way("foreseeing", NoneDecider(), prompt=prompt, times=free)


def _to_a_new_plan(
    scenario: Circumstances, run: SimulatedRun, problem: Problem, policy: str = ""
) -> list[Move]:
    where = run.session.placement()
    running = run.engine.homes()
    try:
        current = Placement.from_fragments(problem, where)
        new = plan(problem, policy or scenario.policy, seed=scenario.seed, current=current).placement
        made = new.by_fragment()
    except MooringError:  # nothing is allowed just now: as it was
        return []
    return [Move(name, where[name], to) for name, to in made.items() if name in running and to != where[name]]


@dataclass(frozen=True)
class Comparison:
    scenario: Circumstances
    courses: dict[str, CourseReport]
    """By the name of the way, in the order in which they were asked for."""

    def as_json(self, most_series: int | None = None) -> dict[str, object]:
        return {
            "seconds": self.scenario.seconds,
            "changes": [
                {**change_to_data(change), "what": in_words(change)} for change in self.scenario.changes
            ],
            "ways": {name: course.as_json(most_series) for name, course in self.courses.items()},
        }


def compare_ways(scenario: Circumstances, ways: Sequence[Way], progress: Report = silent) -> Comparison:
    """The same tuples arrive whichever way it is run."""
    courses: dict[str, CourseReport] = {}
    for done, way in enumerate(ways):

        def told(share: float, what: str, done: int = done) -> None:
            progress((done + share) / len(ways), what)

        courses[way.name] = run_adapted(scenario, way, told)
    return Comparison(scenario, courses)
