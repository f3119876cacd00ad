"""Table 1 of the ants paper: how often a query of ten tasks moves under cross-traffic, and what it loses, by
beta.

Cross-traffic fills every site differently, and every 20 s half of them differently again. The loss is
the latency above that of a reference (coordinate descent from a good start, which knows all and moves for
nothing), added up over time. Latencies are by the queueing model; the paper says neither how its network was
disturbed nor for how long. Cross-traffic fills some sites here, or nearly: the query then takes thrice as
long as it needs to, or for ever, and has to move whatever beta is. These updates are counted apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.experiments.ants.mixed_queries import network_of
from lab.experiments.experiment import Experiment
from lab.experiments.figures import panels, plot_means
from lab.experiments.summary import Key, Reference, Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.neighbours import neighbours_of
from mooring.algorithms.ants.policy import Ants
from mooring.algorithms.ants.updating import Updating
from mooring.arrays import Ints
from mooring.figure_style import tidy
from mooring.model.load.build import build_load_model
from mooring.model.problem.network import Network
from mooring.model.problem.problem import Problem
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETAS = (1.1, 1.25, 1.5, 1.75, 2.0)
PAPER_UPDATES: dict[Key, float] = {(1.1,): 15.0, (1.25,): 10.0, (1.5,): 7.0, (1.75,): 2.0, (2.0,): 1.0}
PAPER_LOSS: dict[Key, float] = {(1.1,): 0.0, (1.25,): 25.87, (1.5,): 59.23, (1.75,): 78.67, (2.0,): 101.23}
SITES, TASKS, RATE = 20, 10, 20.0
COST_US = (1500.0, 3500.0)
MOST_FILLED = 0.78
"""Of a site, by cross-traffic."""
DISTURBED = 10
"""Sites whose cross-traffic changes at a time."""
FULL_S = 10.0
"""What a placement counts with that fills a site, until its leader has it moved."""
FORCED = 3.0
"""Times the latency of the best report: beyond, every beta of the table has the query moved."""
PERIOD_S, DISTURBED_S, PAUSE_S = 5.0, 20.0, 0.2


@dataclass(frozen=True)
class Trial:
    beta: float
    number: int
    seconds: float
    seed: int


class World:
    """The query, and on every site an operator of nobody's that fills a part of it."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.latency_ms = network_of(rng, SITES) / 10.0
        self.costs_us = rng.uniform(*COST_US, TASKS).tolist()
        self.filled = rng.uniform(0.0, MOST_FILLED, SITES)
        self.search = self._search()

    def disturb(self) -> None:
        """Other cross-traffic at some sites."""
        chosen = self.rng.permutation(SITES)[:DISTURBED]
        self.filled[chosen] = self.rng.uniform(0.0, MOST_FILLED, DISTURBED)
        self.search = self._search()

    def _search(self) -> LatencySearch:
        names = [f"s{i}" for i in range(SITES)]
        data: dict[str, Any] = {
            "sites": {name: {"capacity": 1.0} for name in names},
            "streams": {"x": {"rate": RATE, "site": names[0]}},
            "operators": {},
            "queries": {"q": {"reads": f"o{TASKS - 1}", "site": names[1]}},
        }
        for k, cost_us in enumerate(self.costs_us):
            task = {"inputs": [f"o{k - 1}" if k else "x"], "cost_us": cost_us, "variability": 1.0}
            data["operators"][f"o{k}"] = task
        for name, part in zip(names, self.filled.tolist(), strict=True):
            data["streams"][f"cross_{name}"] = {"rate": 200.0 * part, "site": name}
            load = {"inputs": [f"cross_{name}"], "cost_us": 5000.0, "variability": 1.0, "site": name}
            data["operators"][f"load_{name}"] = load
        problem = replace(Problem.from_dict(data), network=Network(self.latency_ms))
        return LatencySearch.of(problem, build_load_model(problem))

    def reference(self) -> tuple[Ints, float]:
        """Sites, and the latency in seconds."""
        start = self.search.shortest_ways()
        assert start is not None, "nothing here needs memory"
        return self.search.descend(start, passes=50)


def updates(trial: Trial) -> list[Row]:
    world = World(np.random.default_rng([trial.seed, trial.number]))
    sites, reference_s = world.reference()
    network, policy = world.search.problem.network, Ants(beta=trial.beta)
    neighbours = neighbours_of(network, SITES, np.random.default_rng(trial.number))
    updating = Updating(policy.params(), neighbours, trial.seed + trial.number, policy.routing_again)
    pause_s = np.full(len(sites), PAUSE_S)
    moved, forced, loss_s2 = 0, 0, 0.0
    for step in range(1, int(trial.seconds / PERIOD_S) + 1):
        if (step * PERIOD_S) % DISTURBED_S == 0.0:
            world.disturb()
            reference_s = world.reference()[1]
        for change in updating.look(world.search, sites, pause_s):
            sites[list(change.chain.fragments)] = change.after
            moved += 1
            forced += change.now_s > FORCED * change.then_s
        latency_s = min(world.search.mean_latency_s(sites), FULL_S)
        loss_s2 += PERIOD_S * max(latency_s - reference_s, 0.0)
    return [
        {
            "beta": trial.beta,
            "number": trial.number,
            "updates": moved,
            "forced": forced,
            "loss_ms_s": 1e3 * loss_s2,
            "loss_ms": 1e3 * loss_s2 / trial.seconds,
        }
    ]


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    seconds, numbers = (100.0, 2) if quick else (400.0, 10)
    trials = [Trial(beta, number, seconds, seed) for beta in BETAS for number in range(numbers)]
    return run_trials(updates, trials, report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, sides = panels(8, 3.5, 2)
    for axes, column in zip(sides, ("updates", "loss_ms_s"), strict=True):
        plot_means(axes, rows, "beta", column, {}, marker=".")
        axes.set(xlabel="beta", ylabel=column.replace("_", " "), ylim=(0, None))
        tidy(axes)
    return figure


ANTS_TABLE_1 = Experiment(
    name="ants_table1",
    title="Updates of a query under cross-traffic, and what it loses, by beta",
    source="Ants, table 1, section 4",
    columns={
        "beta": "a chain moves when its latency is so many times that of the best report",
        "number": "number of the network and cross-traffic",
        "updates": "times that the query moved",
        "forced": "those of them at which it took thrice as long as it had to, or a site was full",
        "loss_ms_s": "latency above the reference, added up over time",
        "loss_ms": "the same per second of the run",
    },
    summaries=(
        Summary(
            title="Updates and loss",
            by=("beta",),
            shown=(
                Shown("updates", beside=Reference("paper", PAPER_UPDATES)),
                Shown("forced"),
                Shown("loss_ms_s", "loss, ms x s", beside=Reference("paper, ms", PAPER_LOSS)),
                Shown("loss_ms", "loss per second, ms"),
            ),
        ),
    ),
    setting="Ten tasks on 20 sites; 400 s, other cross-traffic every 20 s; ants every 5 s, pauses of .2 s.",
    run=run,
    draw=draw,
)
