"""Figure 14 of the SBON paper: the placement that relaxation picks among all there are.

Section 4.3 tries one query on each of 19 PlanetLab nodes and shows that the chosen one is among the best.
Here 19 AWS regions and 19 nodes drawn from PlanetLab, two producers, one consumer, an operator that passes
12%.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.sbon.star_queries import StarQueries
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.algorithms.relaxation.mapping import MappingParams
from mooring.model.network.cost_space import CostSpace
from mooring.model.network.embedding import embed
from mooring.model.network.shipped import aws_regions, planetlab
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES = 19
SELECTIVITY = 0.12
NETWORKS = ("aws", "planetlab")
VARIANTS = {
    "relaxation": MappingParams(candidates=5),
    "relaxation, estimated": MappingParams("estimated", shortlist=NODES),
    "relaxation, estimated, 10 probes": MappingParams("estimated", shortlist=NODES, probes=10),
}


@dataclass(frozen=True)
class Case:
    network: str
    queries: int
    number: int
    seed: int


def rank_choices(case: Case) -> list[Row]:
    rng = np.random.default_rng([case.seed, case.number])
    matrix = aws_regions().one_way_ms() if case.network == "aws" else planetlab().one_way_ms()
    some = np.arange(NODES) if len(matrix) == NODES else rng.choice(len(matrix), NODES, replace=False)
    latency_ms = matrix[np.ix_(some, some)]
    drawn = StarQueries.draw(case.queries, NODES, rng, producers=2)
    queries = StarQueries(drawn.producers, drawn.consumers, selectivity=SELECTIVITY)
    every = np.stack(
        [queries.usage(latency_ms, np.full(len(queries), node)) for node in range(NODES)], axis=1
    )
    space = CostSpace(embed(latency_ms, rng))
    rows: list[Row] = []
    for policy, mapping in VARIANTS.items():
        sites, _ = queries.relaxation(latency_ms, space, rng, mapping)
        chosen = every[np.arange(len(queries)), sites]
        rank = (every < chosen[:, None] * (1 - 1e-12)).sum(axis=1) + 1
        rows.append(
            {
                "network": case.network,
                "policy": policy,
                "number": case.number,
                "mean_rank": float(rank.mean()),
                "best_share": float(np.mean(rank == 1)),
                "top_five_share": float(np.mean(rank <= 5)),
                "usage_penalty": float(chosen.mean() / every.min(axis=1).mean() - 1.0),
                "worst_penalty": float(every.max(axis=1).mean() / every.min(axis=1).mean() - 1.0),
            }
        )
    return rows


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    numbers = 1 if quick else 5
    cases = [Case(net, 200, k, seed) for net in NETWORKS for k in range(numbers)]
    return run_trials(rank_choices, cases, report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, sides = panels(8, 4, 2, sharey=True)
    for axes, network in zip(sides, NETWORKS, strict=True):
        names = list(VARIANTS)
        means = [
            np.mean([float(r["mean_rank"]) for r in rows if r["policy"] == n and r["network"] == network])
            for n in names
        ]
        axes.bar(["nearest", "estimated", "10 probes"], means)
        axes.axhline((NODES + 1) / 2, color="black", linestyle=":", label="by chance")
        axes.set(title=f"Figure 14, {network}", ylabel="mean rank among 19 sites")
        finish(axes)
    return figure


def _ranks(network: str) -> Summary:
    return Summary(
        title=network,
        by=("policy",),
        where=lambda row: row["network"] == network,
        shown=(
            Shown("mean_rank", f"rank of {NODES}"),
            Shown("best_share", "best chosen"),
            Shown("usage_penalty"),
            Shown("worst_penalty", "of the worst", how="mean alone"),
        ),
    )


SBON_FIGURE_14 = Experiment(
    name="sbon_figure14",
    title="How good the chosen site is among all sites of real networks",
    source="Network-aware operator placement (SBON), figure 14, section 4.3",
    columns={
        "network": "19 AWS regions, or 19 PlanetLab nodes drawn per number",
        "policy": "policy with its settings",
        "number": "number of the draw",
        "mean_rank": "mean rank of the chosen site by network usage; 1 is the best of 19",
        "best_share": "share of queries whose best site was chosen",
        "top_five_share": "share of queries for which one of the five best was chosen",
        "usage_penalty": "network usage over that of the best sites, less 1",
        "worst_penalty": "the same for the worst sites",
    },
    summaries=tuple(_ranks(network) for network in NETWORKS),
    setting="200 queries of two producers and one consumer per trial; operators pass 12%.",
    run=run,
    draw=draw,
)
