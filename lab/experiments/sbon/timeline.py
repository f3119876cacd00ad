"""Figures 10 and 11 of the SBON paper: one pair of queries over time, and what each of its moves did.

Of 24 pairs through one replayed PlanetLab weather, the pair whose operator moved most is shown: its usage
round by round beside the same query that never moves, and every decision to move with the usage in the rounds
before and after it. (The query that never moves stays at the first placement, A in Figure 11.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.sbon.adaptation import AdaptationParams, adapt
from lab.experiments.sbon.changing_network import planetlab_weather
from lab.experiments.sbon.migration import PAIRS
from lab.experiments.sbon.star_queries import StarQueries
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Case:
    seed: int


def follow(case: Case) -> list[Row]:
    """A row per round of the pair that moved most (the first of equals)."""
    rng = np.random.default_rng(case.seed)
    weather = planetlab_weather(rng)
    queries = StarQueries.draw(PAIRS, weather.latency_ms.shape[1], rng, producers=2)
    course = adapt(weather, queries, rng, AdaptationParams())
    query = int(np.argmax(course.migrations))
    rows: list[Row] = []
    decisions = 0
    for at in range(len(course.static)):
        moved = at > 0 and course.sites[at, query] != course.sites[at - 1, query]
        decisions += moved
        rows.append(
            {
                "round": at,
                "usage_static": float(course.static[at, query]),
                "usage_adapted": float(course.adapted[at, query]),
                "usage_oracle": float(course.oracle[at, query]),
                "site": int(course.sites[at, query]),
                "decision": decisions if moved else 0,
                "usage_before": float(course.adapted[at - 1, query]) if moved else float("nan"),
            }
        )
    return rows


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    return run_trials(follow, [Case(seed)], report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(9, 4)
    rounds = [int(row["round"]) for row in rows]
    for column, label in (
        ("usage_static", "never moves"),
        ("usage_adapted", "moves"),
        ("usage_oracle", "best site in every round"),
    ):
        axes.step(rounds, [float(row[column]) for row in rows], where="post", label=label)
    for row in rows:
        if int(row["decision"]) > 0:
            axes.annotate(
                str(row["decision"]),
                (int(row["round"]), float(row["usage_adapted"])),
                textcoords="offset points",
                xytext=(0, 8),
                ha="center",
            )
    axes.set(xlabel="round", ylabel="network usage, bytes in flight", title="Figures 10 and 11")
    finish(axes)
    return figure


SBON_TIMELINE = Experiment(
    name="sbon_timeline",
    title="One pair of queries over time, and what each move did",
    source="Network-aware operator placement (SBON), figures 10 and 11, section 4.2.1",
    columns={
        "round": "round of the replayed weather",
        "usage_static": "bytes in flight of the query that never moves",
        "usage_adapted": "the same of the one that may",
        "usage_oracle": "the same with the operator at its best site in every round",
        "site": "where the moving operator is",
        "decision": "number of the move made in this round; 0 without one",
        "usage_before": "usage in the round before the move",
    },
    summaries=(
        Summary(
            title="bytes in flight, over all rounds",
            by=(),
            shown=(
                Shown("usage_static", "never moves", how="mean alone"),
                Shown("usage_adapted", "moves", how="mean alone"),
                Shown("usage_oracle", "best site in every round", how="mean alone"),
                Shown("decision", "moves made", how="largest"),
            ),
            counted="rounds",
        ),
        Summary(
            title="each move",
            by=("decision", "round", "site"),
            where=lambda row: int(row["decision"]) > 0,
            shown=(
                Shown("usage_before", "before"),
                Shown("usage_adapted", "after"),
                Shown("usage_static", "had it never moved"),
                Shown("usage_oracle", "at the best site"),
            ),
            counted="",
        ),
    ),
    setting="Of 24 pairs through one replayed weather the one whose operator moved most.",
    run=run,
    draw=draw,
)
