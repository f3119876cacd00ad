"""Figure 3a of the ants paper: a query of ten tasks whose rate rises at 20 s and at 60 s, with and without
self-optimisation.

Tuples in virtual time under the same control loop as any run, with the decider `ants`; latency is what was
measured. The rate rises in two equal steps to where the fullest site of the first placement is 95% busy. The
paper gives no rates, and counts no pauses; here a fragment stands still for a fifth of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.experiments.ants.course_figure import course_figure
from lab.experiments.ants.mixed_queries import network_of
from lab.experiments.experiment import Experiment
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.algorithms.ants.central_decider import AntsDecider
from mooring.algorithms.baselines.none_decider import NoneDecider
from mooring.controller.guards import GuardOptions
from mooring.controller.state_estimator import SurveyOptions
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.problem.changes.change import RateChange
from mooring.model.problem.network import Network
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from mooring.progress import Report
from mooring.simulator.data_plane.binding import Behaviour
from mooring.simulator.data_plane.workload import workload
from mooring.simulator.runs.adapted_run import Circumstances, Way, run_adapted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SITES, TASKS, RATE = 40, 10, 100.0
SECONDS, RISES_S, LOOK_S, SAMPLE_S = 100.0, (20.0, 60.0), 2.0, 10.0
FULLEST = 0.95
WAYS = ("never moving", "self-optimising")
TIMES = MoveTimes(stateless_s=0.2, stateful_s=0.4)
AS_MODELLED = Behaviour(to_completion=True, drawn=True)
FREE = GuardOptions(
    moves_per_hour=1000,
    moves_of_one_per_hour=100,
    most_share=1.0,
    pause_s=0.0,
    looks=1,
    least_gain=0.0,
    worth=0.0,
)
"""The paper knows no guards but beta."""


@dataclass(frozen=True)
class Trial:
    way: str
    number: int
    seed: int


def course(trial: Trial) -> list[Row]:
    scenario = circumstances(trial)
    own = trial.way == "self-optimising"
    decider = AntsDecider(seed=trial.seed + trial.number, times=TIMES) if own else NoneDecider()
    report = run_adapted(scenario, Way(trial.way, decider, times=TIMES))
    rows: list[Row] = []
    for end_s in np.arange(SAMPLE_S, SECONDS + SAMPLE_S / 2, SAMPLE_S).tolist():
        seen = [m.latency_ms.get("q") for m in report.moments if end_s - SAMPLE_S < m.at_s <= end_s]
        known = [latency for latency in seen if latency is not None]
        moves = sum(end_s - SAMPLE_S < move.at_s <= end_s for move in report.moves)
        rows.append(
            {
                "way": trial.way,
                "at_s": end_s,
                "number": trial.number,
                "latency_ms": float(np.mean(known)) if known else float("nan"),
                "moves": moves,
            }
        )
    return rows


def circumstances(trial: Trial) -> Circumstances:
    rng = np.random.default_rng([trial.seed, trial.number])
    problem = ten_tasks(rng)
    start = plan(problem, "ants", seed=trial.seed + trial.number).placement
    used = queued_latencies(problem, start.site_of_operator.tolist()).site_utilisation.max()
    step = RATE * (FULLEST / float(used) - 1.0) / 2.0
    changes = tuple(
        RateChange(at_s=at_s, stream="x", rate=RATE + (k + 1) * step) for k, at_s in enumerate(RISES_S)
    )
    return Circumstances(
        problem,
        start,
        changes,
        SECONDS,
        tuple(workload(problem, changes=changes, seed=trial.seed + trial.number)),
        seed=trial.seed + trial.number,
        look_s=LOOK_S,
        behaviour=AS_MODELLED,
        guards=FREE,
        survey=SurveyOptions(looks=3, fewest=3, calibrates=False),
    )


def ten_tasks(rng: np.random.Generator) -> Problem:
    """A chain, between two sites of many."""
    names = [f"s{i}" for i in range(SITES)]
    ends = rng.permutation(SITES)[:2]
    data: dict[str, Any] = {
        "sites": {name: {"capacity": float(rng.choice([0.5, 1.0]))} for name in names},
        "streams": {"x": {"rate": RATE, "site": names[ends[0]], "bytes": 1000}},
        "operators": {},
        "queries": {"q": {"reads": f"o{TASKS - 1}", "site": names[ends[1]]}},
    }
    for k in range(TASKS):
        data["operators"][f"o{k}"] = {
            "inputs": [f"o{k - 1}" if k else "x"],
            "cost_us": float(rng.uniform(200.0, 1200.0)),
            "variability": 1.0,
        }
    return replace(Problem.from_dict(data), network=Network(network_of(rng, SITES) / 4.0))


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    numbers = 1 if quick else 10
    trials = [Trial(way, number, seed) for number in range(numbers) for way in WAYS]
    return run_trials(course, trials, report)


def draw(rows: Sequence[Row]) -> Figure:
    return course_figure(rows, WAYS, "Figure 3a", "end-to-end latency, ms")


ANTS_FIGURE_3A = Experiment(
    name="ants_figure3a",
    title="Latency of a query whose rate rises, with and without self-optimisation",
    source="Ants, figure 3a, section 4",
    columns={
        "way": "whether leaders go on sending ants",
        "at_s": "end of ten seconds",
        "number": "number of the network and query",
        "latency_ms": "mean measured within them",
        "moves": "fragments that were moved within them",
    },
    summaries=(
        Summary(title="Measured latency, ms", by=("at_s",), across="way", shown=(Shown("latency_ms"),)),
        Summary(
            title="Moves",
            by=("at_s",),
            shown=(Shown("moves"),),
            where=lambda row: row["way"] == "self-optimising",
        ),
    ),
    setting="Ten tasks on 40 sites of .5 or 1 core; looks every 2 s, beta 1.1, pauses of .2 s.",
    run=run,
    draw=draw,
)
