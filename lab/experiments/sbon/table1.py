"""Table 1 and figures 8 and 9 of the SBON paper: network usage and delay of six ways to place operators.

Section 4.1: 1000 queries of four producers, one operator and one consumer on a transit-stub network of 1550
nodes whose longest route takes 878 ms. Beside the paper's six there are three rows with what Mooring adds:
ranking by estimated cost, and probes. The same on PlanetLab's latencies, where routes are not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import panels
from lab.experiments.sbon.star_queries import StarQueries
from lab.experiments.summary import Key, Reference, Shown, Summary
from lab.experiments.trials import Row, run_trials
from lab.networks.transit_stub import transit_stub
from mooring.algorithms.relaxation.mapping import MappingParams
from mooring.arrays import Floats, Ints
from mooring.figure_style import colour_of, tidy
from mooring.model.network.cost_space import CostSpace
from mooring.model.network.embedding import embed
from mooring.model.network.routing import Routing
from mooring.model.network.shipped import planetlab
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = {
    "optimal": (0.0, 0.13),
    "relaxation": (0.15, 0.24),
    "ip_multicast": (0.27, 0.0),
    "producer": (0.43, 0.75),
    "consumer": (0.60, 0.0),
    "random": (0.81, 0.76),
}
"""Table 1: increase in network usage, and in delay."""
PROTOTYPE = {
    "relaxation": (0.16, 0.17),
    "producer": (0.42, 0.54),
    "consumer": (0.63, 0.0),
    "random": (0.83, 0.62),
}
"""The same on PlanetLab's latencies, by an independent prototype: the paper has no such table."""
VARIANTS = {
    "relaxation": MappingParams(),
    "relaxation, estimated": MappingParams("estimated"),
    "relaxation, estimated, 10 probes": MappingParams("estimated", probes=10),
    "relaxation, estimated, 25 probes": MappingParams("estimated", probes=25),
}
QUERIES, QUICK_QUERIES = 1000, 200
SEEDS, QUICK_SEEDS = 5, 2
PERCENTILES = (10, 25, 50, 75, 80, 90, 99)


@dataclass(frozen=True)
class Trial:
    network: str
    number: int
    queries: int
    seed: int


def networks(trial: Trial, rng: np.random.Generator) -> tuple[Floats, Routing | None]:
    if trial.network == "planetlab":
        return planetlab().one_way_ms(), None
    routing = transit_stub(rng)[1]
    return routing.latency_ms, routing


def place_all(trial: Trial) -> list[Row]:
    """All policies on one network."""
    rng = np.random.default_rng([trial.seed, trial.number])
    latency_ms, routing = networks(trial, rng)
    queries = StarQueries.draw(trial.queries, len(latency_ms), rng)
    space = CostSpace(embed(latency_ms, rng))
    sites: dict[str, Ints] = {"optimal": queries.optimal(latency_ms)}
    for name, params in VARIANTS.items():
        sites[name] = queries.relaxation(latency_ms, space, rng, params)[0]
    if routing is not None:
        sites["ip_multicast"] = queries.ip_multicast(routing)
    some = rng.integers(queries.producers.shape[1], size=len(queries))
    sites["producer"] = queries.producers[np.arange(len(queries)), some]
    sites["consumer"] = queries.consumers
    sites["random"] = rng.integers(len(latency_ms), size=len(queries))
    least = queries.usage(latency_ms, sites["optimal"])
    return [_row(trial, name, queries, latency_ms, where, least) for name, where in sites.items()]


def _row(
    trial: Trial, policy: str, queries: StarQueries, latency_ms: Floats, sites: Ints, least: Floats
) -> Row:
    usage, delay = queries.usage(latency_ms, sites), queries.delay_penalty(latency_ms, sites)
    row: Row = {
        "network": trial.network,
        "policy": policy,
        "number": trial.number,
        "usage_penalty": float(usage.mean() / least.mean() - 1.0),
        "delay_penalty": float(delay.mean()),
        "paper_usage_penalty": PAPER.get(policy, (np.nan,))[0],
        "paper_delay_penalty": PAPER.get(policy, (np.nan, np.nan))[1],
        "queries": trial.queries,
    }
    row |= {f"usage_p{p}": float(np.percentile(usage, p)) for p in PERCENTILES}
    row |= {f"delay_p{p}": float(np.percentile(delay, p)) for p in PERCENTILES}
    return row


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    count, numbers = (QUICK_QUERIES, QUICK_SEEDS) if quick else (QUERIES, SEEDS)
    trials = [Trial("transit-stub", number, count, seed) for number in range(numbers)]
    trials += [Trial("planetlab", number, count, seed) for number in range(numbers)]
    return run_trials(place_all, trials, report)


def mean_penalties(rows: Sequence[Row], network: str = "transit-stub") -> dict[str, tuple[float, float]]:
    """Policy -> mean increase in usage and in delay over the networks drawn."""
    chosen: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["network"] == network:
            pair = float(row["usage_penalty"]), float(row["delay_penalty"])
            chosen.setdefault(str(row["policy"]), []).append(pair)
    return {
        policy: (float(np.mean([u for u, _ in own])), float(np.mean([d for _, d in own])))
        for policy, own in chosen.items()
    }


def draw(rows: Sequence[Row]) -> Figure:
    figure, (bars, usage, delay) = panels(11, 4, 3)
    means = mean_penalties(rows)
    names = [name for name in PAPER if name in means]
    bars.barh(names, [100 * means[name][0] for name in names], color=[colour_of(name) for name in names])
    bars.plot([100 * PAPER[name][0] for name in names], names, "kx", label="paper")
    bars.set(xlabel="network usage over the optimum, %", title="Table 1")
    bars.invert_yaxis()
    bars.legend(frameon=False)
    for axes, key, title in ((usage, "usage", "Figure 8"), (delay, "delay", "Figure 9")):
        for name in names:
            own = [row for row in rows if row["network"] == "transit-stub" and row["policy"] == name]
            values = [np.mean([float(row[f"{key}_p{p}"]) for row in own]) for p in PERCENTILES]
            axes.plot(values, PERCENTILES, marker=".", label=name, color=colour_of(name))
        axes.set(xlabel="bytes in flight" if key == "usage" else "delay penalty", ylabel="% of queries")
        axes.set_title(title)
        tidy(axes)
    usage.legend(frameon=False, fontsize="small")
    return figure


def _penalties(network: str, whose: str, figures: Mapping[str, tuple[float, float]]) -> Summary:
    usage: dict[Key, float] = {(policy,): pair[0] for policy, pair in figures.items()}
    delay: dict[Key, float] = {(policy,): pair[1] for policy, pair in figures.items()}
    return Summary(
        title=network,
        by=("policy",),
        where=lambda row: row["network"] == network,
        shown=(
            Shown("usage_penalty", beside=Reference(whose, usage)),
            Shown("delay_penalty", beside=Reference(whose, delay)),
        ),
    )


SBON_TABLE_1 = Experiment(
    name="sbon_table1",
    title="Network usage and delay of six placements, and of ranking and probing",
    source="Network-aware operator placement (SBON), Table 1 and figures 8 and 9, section 4.1",
    columns={
        "network": "transit-stub (drawn anew per number) or planetlab (measured)",
        "policy": "policy, with its settings where they are not the defaults",
        "number": "number of the network and query set",
        "usage_penalty": "network usage over that of the optimal placement, less 1",
        "delay_penalty": "mean over the queries of their delay over the direct delay, less 1",
        "paper_usage_penalty": "Table 1",
        "paper_delay_penalty": "Table 1",
        "queries": "queries placed",
        **{f"usage_p{p}": f"percentile {p} of the queries' bytes in flight" for p in PERCENTILES},
        **{f"delay_p{p}": f"percentile {p} of the queries' delay penalties" for p in PERCENTILES},
    },
    summaries=(
        _penalties("transit-stub", "paper", PAPER),
        _penalties("planetlab", "prototype", PROTOTYPE),
    ),
    setting="Queries of four producers, one operator, one consumer: 1000 per trial at full size.",
    run=run,
    draw=draw,
)
