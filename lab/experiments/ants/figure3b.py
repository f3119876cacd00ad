"""Figure 3b of the ants paper: 200 queries run, 50 more come at 20 s and at 60 s, with and without
self-optimisation.

Latencies are by the queueing model. New queries are placed by their leaders in the middle of what runs; with
self-optimisation all leaders send ants every 5 s, and a chain moves where its latency is beta times that of
the best report and the pause of a second is made up for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.ants.course_figure import course_figure
from lab.experiments.ants.mixed_queries import MixedQueries, drawn_queries
from lab.experiments.experiment import Experiment
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.algorithms.ants.colony import ColonyRun
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.neighbours import neighbours_of
from mooring.algorithms.ants.policy import Ants
from mooring.algorithms.ants.updating import Updating
from mooring.arrays import Ints
from mooring.contracts.policy import Context
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.load.build import build_load_model
from mooring.model.problem.problem import Problem
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECONDS, PERIOD_S = 100.0, 5.0
ARRIVALS_S = (20.0, 60.0)
BETA = 1.1
WAYS = ("never moving", "self-optimising")


@dataclass(frozen=True)
class Trial:
    way: str
    sites: int
    first: int
    more: int
    number: int
    seed: int


class World:
    """Queries that come in three lots, and where their fragments are."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        rng = np.random.default_rng([trial.seed, trial.number])
        drawn = drawn_queries(rng, trial.sites, trial.first + 2 * trial.more)
        stages = (trial.first, trial.first + trial.more, trial.first + 2 * trial.more)
        self.searches = [_search(first_queries(drawn, count)) for count in stages]
        self.neighbours = neighbours_of(drawn.problem.network, trial.sites, rng)
        self.policy = Ants(beta=BETA)
        self.updating = Updating(
            self.policy.params(), self.neighbours, trial.seed + trial.number, self.policy.routing_again
        )
        self.stage = 0
        first = self.searches[0]
        run = Ants().forage(first.problem, Context.of(first.problem, trial.seed + trial.number))
        self.sites = self.policy.with_refused(run)

    @property
    def search(self) -> LatencySearch:
        return self.searches[self.stage]

    def come(self) -> None:
        """The next lot, each chain placed by its leader given what runs."""
        known = dict(zip(self.search.problem.fragment_names, self.sites.tolist(), strict=True))
        self.stage += 1
        search = self.search
        sites = np.array([known.get(name, -1) for name in search.problem.fragment_names], dtype=np.int64)
        run = ColonyRun(search, self.policy.params(), self.neighbours, self.trial.seed + self.stage, sites)
        new = [n for n, chain in enumerate(search.chains) if sites[chain.fragments[0]] < 0]
        for number in sorted(set(range(len(search.chains))) - set(new)):
            run.adopt(number)
        for number in new:
            run.place(number)
        self.sites = self.policy.with_refused(run)

    def update(self) -> int:
        """One period of all leaders; returns how many chains have moved."""
        pause_s = np.full(len(self.sites), MoveTimes().stateless_s)
        changes = self.updating.look(self.search, self.sites, pause_s)
        self.sites = self.sites.copy()
        for change in changes:
            self.sites[list(change.chain.fragments)] = change.after
        return len(changes)


def _search(problem: Problem) -> LatencySearch:
    return LatencySearch.of(problem, build_load_model(problem))


def first_queries(drawn: MixedQueries, count: int) -> Problem:
    """The problem of the first queries alone."""
    problem = drawn.problem
    queries = tuple(problem.queries[q] for group in drawn.groups[:count] for q in group)
    inputs = {operator.name: operator.inputs for operator in problem.operators}
    needed, ahead = set[str](), [query.reads for query in queries]
    while ahead:
        name = ahead.pop()
        if name in inputs and name not in needed:
            needed.add(name)
            ahead += inputs[name]
    operators = tuple(operator for operator in problem.operators if operator.name in needed)
    return replace(problem, operators=operators, queries=queries)


def course(trial: Trial) -> list[Row]:
    world, due, rows = World(trial), list(ARRIVALS_S), []
    for at_s in np.arange(0.0, SECONDS + PERIOD_S / 2, PERIOD_S).tolist():
        while due and due[0] <= at_s:
            due.pop(0)
            world.come()
        moved = world.update() if trial.way == "self-optimising" else 0
        rows.append(_row(trial, world, at_s, moved))
    return rows


def _row(trial: Trial, world: World, at_s: float, moved: int) -> Row:
    sites: Ints = world.sites
    return {
        "way": trial.way,
        "at_s": at_s,
        "number": trial.number,
        "queries": trial.first + world.stage * trial.more,
        "latency_ms": 1e3 * world.search.mean_latency_s(sites),
        "moved": moved,
        "sent_bytes": world.updating.sent_bytes,
    }


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    sizes, numbers = ((12, 24, 6), 1) if quick else ((100, 200, 50), 3)
    trials = [Trial(way, *sizes, number, seed) for number in range(numbers) for way in WAYS]
    return run_trials(course, trials, report)


def draw(rows: Sequence[Row]) -> Figure:
    return course_figure(rows, WAYS, "Figure 3b", "mean end-to-end latency, ms")


def conclude(rows: Sequence[Row]) -> list[str]:
    own = [row for row in rows if row["way"] == "self-optimising"]
    late = sum(int(row["moved"]) for row in own if float(row["at_s"]) > SECONDS - 20.0)
    total = sum(int(row["moved"]) for row in own)
    return [f"{total} times a chain moved, {late} of them within the last 20 s."]


ANTS_FIGURE_3B = Experiment(
    name="ants_figure3b",
    title="Mean latency while queries come, with and without self-optimisation",
    source="Ants, figure 3b, section 4",
    columns={
        "way": "whether leaders go on sending ants",
        "at_s": "seconds since the start",
        "number": "number of the network and query set",
        "queries": "queries that are there, as the paper counts them",
        "latency_ms": "mean latency of all of them, queues included",
        "moved": "chains that moved at this time",
        "sent_bytes": "by ants of self-optimisation so far",
    },
    summaries=(
        Summary(
            title="Mean latency of all queries, ms",
            by=("at_s",),
            across="way",
            shown=(Shown("latency_ms"),),
            where=lambda row: float(row["at_s"]) % 10.0 == 0.0,
        ),
    ),
    setting="200 queries on 100 sites, 50 more at 20 and 60 s; beta 1.1, 10 + 30 ants per chain every 5 s.",
    run=run,
    draw=draw,
    conclude=conclude,
)
