"""Figure 4 of the ants paper: how many of 300 queries find a place on 200 to 600 sites.

A query succeeds when all of its chains have sites within the load limit. The reference knows all sites: each
chain takes its quickest way, and is refused if that fills a site beyond the limit.

The paper states rates in messages per millisecond, and found .01 to .022% of the traffic on a link to be
ants; neither its rates nor its message sizes are known. Here a stream has .2 to 1 message per millisecond of
1,000 bytes, ants have the bytes of the protocol's messages, there and back, and are set against an hour of
data between sites: all that it took to place the queries, and looking again every ten minutes from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.ants.mixed_queries import MixedQueries, drawn_queries
from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels, plot_means
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.policy import Ants
from mooring.arrays import Ints
from mooring.contracts.policy import Context
from mooring.figure_style import colour_of
from mooring.model.placement.network_metrics import network_metrics
from mooring.model.placement.placement import Placement
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUERIES = 300
SITES = (200, 300, 400, 500, 600)
CAPACITIES = (0.25, 0.5, 1.0)
LIMIT = 0.95
RATES, COST_US = (200.0, 1000.0), (100.0, 600.0)
HOUR_S, AGAIN_S = 3600.0, 600.0
SCOUTS_AGAIN = 20


@dataclass(frozen=True)
class Trial:
    sites: int
    queries: int
    number: int
    seed: int


def deploy_all(trial: Trial) -> list[Row]:
    rng = np.random.default_rng([trial.seed, trial.sites, trial.number])
    drawn = drawn_queries(
        rng, trial.sites, trial.queries, capacities=CAPACITIES, rates=RATES, cost_us=COST_US
    )
    search = LatencySearch.of(drawn.problem, Context.of(drawn.problem).load)
    policy = Ants(load_limit=LIMIT, rounds=1)
    run = policy.forage(drawn.problem, Context.of(drawn.problem, trial.seed + trial.number))
    steps, placing = int(run.colony.steps.sum()), float(run.colony.sent_bytes.sum())
    run.is_running = True
    for number in run.ways:
        run.improve(number, policy.routing_again, SCOUTS_AGAIN)
    again = float(run.colony.sent_bytes.sum()) - placing
    placed = Placement(drawn.problem, np.where(run.sites < 0, 0, run.sites))
    data = network_metrics(placed).bandwidth
    assert isinstance(data, float)
    found = {"ants": _success(drawn, search, run.refused), "reference": _reference(drawn, search)}
    return [
        {
            "sites": trial.sites,
            "policy": policy_name,
            "number": trial.number,
            "success": success,
            "steps_per_query": steps / trial.queries,
            "placing_share": placing / (data * HOUR_S),
            "control_share": again / (data * AGAIN_S),
            "queries": trial.queries,
        }
        for policy_name, success in found.items()
    ]


def _success(drawn: MixedQueries, search: LatencySearch, refused: set[int]) -> float:
    failed = {q for number in refused for q in search.chains[number].queries}
    return float(np.mean([not failed & set(group) for group in drawn.groups]))


def _reference(drawn: MixedQueries, search: LatencySearch) -> float:
    """Chain after chain; a chain that would overfill a site is refused."""
    sites: Ints = search.model.pinned_site.astype(np.int64)
    refused = set()
    for number, chain in enumerate(search.chains):
        tried = search.shortest_ways(sites, [chain])
        if tried is None or not _within_limit(search, tried, chain.fragments):
            refused.add(number)
        else:
            sites = tried
    return _success(drawn, search, refused)


def _within_limit(search: LatencySearch, sites: Ints, fragments: Sequence[int]) -> bool:
    there = sites >= 0
    count = len(search.problem.sites)
    load = np.bincount(sites[there], search.fragments.flow[there, 1], count)
    used = load / search.many.template.capacity_cores
    return bool((used[sites[list(fragments)]] < LIMIT).all())


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    sites, queries, numbers = ((30, 60), 40, 1) if quick else (SITES, QUERIES, 2)
    trials = [Trial(count, queries, number, seed) for count in sites for number in range(numbers)]
    return run_trials(deploy_all, trials, report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(6, 4)
    for policy in ("reference", "ants"):
        plot_means(
            axes,
            rows,
            "sites",
            "success",
            {"policy": policy},
            scale=100.0,
            marker=".",
            label=policy,
            color=colour_of(policy),
        )
    axes.set(title="Figure 4", xlabel="sites", ylabel="queries deployed, %", ylim=(0, 102))
    finish(axes)
    return figure


ANTS_FIGURE_4 = Experiment(
    name="ants_figure4",
    title="Queries that find a place, by the number of sites",
    source="Ants, figure 4, section 4",
    columns={
        "sites": "sites of the network",
        "policy": "ants, or the reference that knows all sites",
        "number": "number of the network and query set",
        "success": "share of queries of which every chain has sites within the load limit",
        "steps_per_query": "steps of ants from site to site until all are placed, there and back, per query",
        "placing_share": "bytes of those ants over an hour's bytes of data between sites",
        "control_share": "the same of ants that look again, over the bytes of ten minutes",
        "queries": "queries to be placed",
    },
    summaries=(
        Summary(title="Share of queries deployed", by=("sites",), across="policy", shown=(Shown("success"),)),
        Summary(
            title="Ants",
            by=("sites",),
            shown=(Shown("steps_per_query"), Shown("placing_share"), Shown("control_share")),
            where=lambda row: row["policy"] == "ants",
        ),
    ),
    setting="300 queries; sites of .25, .5 or 1 core; .2 to 1 tuple per ms of 1,000 bytes.",
    run=run,
    draw=draw,
)
