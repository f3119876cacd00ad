"""Figures 10 to 12 of the SBON paper: what moving operators saves while network and load change.

Section 4.2: queries of two producers, a select-join that passes a quarter, and a consumer; each runs once
free to move and once pinned where it began. The paper ran 24 pairs on PlanetLab for five hours; here
PlanetLab's and Seattle's measurements are replayed, with route changes and load injected, so that an oracle
can be asked what was possible. Section 4.2.1 compares the latency space with the latency/load space; so does
this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.sbon.adaptation import AdaptationParams, adapt
from lab.experiments.sbon.changing_network import planetlab_weather, seattle_weather
from lab.experiments.sbon.star_queries import StarQueries
from lab.experiments.summary import Reference, Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.algorithms.relaxation.migration import MigrationParams
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIRS = 24
"""Query pairs (section 4.2.1)."""
LOAD_MS = 100.0
VARIANTS = {
    "latency": AdaptationParams(),
    "latency/load": AdaptationParams(load_ms=LOAD_MS),
    "latency, no thresholds": AdaptationParams(migration=MigrationParams(0.0, 0.0, 1)),
}
PAPER = {"saving": 0.169, "migrations": 3.5, "improved": 0.75, "delay_saving": 0.105}
"""On PlanetLab, with load in the cost space."""


@dataclass(frozen=True)
class Case:
    weather: str
    space: str
    number: int
    seed: int


def migrate(case: Case) -> list[Row]:
    """24 pairs through one weather: a row per pair, and one for all."""
    rng = np.random.default_rng([case.seed, case.number])
    weather = planetlab_weather(rng) if case.weather == "planetlab" else seattle_weather()
    queries = StarQueries.draw(PAIRS, weather.latency_ms.shape[1], rng, producers=2)
    course = adapt(weather, queries, rng, VARIANTS[case.space])
    rows: list[Row] = []
    for query in [*range(PAIRS), -1]:
        own = slice(None) if query < 0 else slice(query, query + 1)
        static, adapted = course.static[:, own].sum(), course.adapted[:, own].sum()
        oracle = course.oracle[:, own].sum()
        delays = course.static_delay[:, own].sum(), course.adapted_delay[:, own].sum()
        rows.append(
            {
                "weather": case.weather,
                "space": case.space,
                "number": case.number,
                "query": query,
                "usage_static": float(static / weather.rounds),
                "usage_adapted": float(adapted / weather.rounds),
                "usage_oracle": float(oracle / weather.rounds),
                "saving": float(1.0 - adapted / static),
                "delay_saving": float(1.0 - delays[1] / delays[0]),
                "recovered": float((static - adapted) / (static - oracle)) if static > oracle else 1.0,
                "migrations": float(course.migrations[own].mean()),
                "improved": float(np.mean(course.adapted[:, own].sum(0) < course.static[:, own].sum(0))),
            }
        )
    return rows


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    numbers = 1 if quick else 5
    cases = [Case("planetlab", space, k, seed) for space in VARIANTS for k in range(numbers)]
    cases += [Case("seattle", space, k, seed) for space in ("latency",) for k in range(1 if quick else 2)]
    return run_trials(migrate, cases, report)


def overall(rows: Sequence[Row], weather: str, space: str, column: str) -> float:
    chosen = [r for r in rows if r["query"] == -1 and r["weather"] == weather and r["space"] == space]
    return float(np.mean([float(row[column]) for row in chosen]))


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(8, 4)
    for space in VARIANTS:
        own = [
            r for r in rows if r["weather"] == "planetlab" and r["space"] == space and int(r["query"]) >= 0
        ]
        change = np.sort([-100 * float(row["saving"]) for row in own])
        moves = overall(rows, "planetlab", space, "migrations")
        axes.plot(np.linspace(0, 100, len(change)), change, label=f"{space} ({moves:.1f} moves per query)")
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set(xlabel="% of query pairs", ylabel="change of network usage by moving, %", title="Figure 12")
    finish(axes)
    return figure


def _beside_the_paper(column: str) -> Shown:
    return Shown(column, beside=Reference("paper", {("planetlab", "latency/load"): PAPER[column]}))


SBON_MIGRATION = Experiment(
    name="sbon_migration",
    title="What moving operators saves while network and load change",
    source="Network-aware operator placement (SBON), figures 10 to 12, sections 4.2 and 4.2.1",
    columns={
        "weather": "planetlab (replayed, with route changes and load) or seattle (replayed)",
        "space": "the cost space, and whether the thresholds of section 3.2 hold",
        "number": "number of the draw",
        "query": "number of the pair; -1 for all together",
        "usage_static": "mean bytes in flight of the queries that never move",
        "usage_adapted": "the same of those that may",
        "usage_oracle": "the same if every operator were at its best site in every round",
        "saving": "share of network usage that moving saves (paper: .169)",
        "delay_saving": "share of delay that moving saves (paper: .105)",
        "recovered": "share of the oracle's saving that moving gets",
        "migrations": "moves per query (paper: 3.5)",
        "improved": "share of the pairs that use less by moving (paper: .75)",
    },
    summaries=(
        Summary(
            title="what moving saves",
            by=("weather", "space"),
            where=lambda row: row["query"] == -1,
            shown=(_beside_the_paper("saving"), _beside_the_paper("delay_saving"), Shown("recovered")),
        ),
        Summary(
            title="what it takes",
            by=("weather", "space"),
            where=lambda row: row["query"] == -1,
            shown=(_beside_the_paper("migrations"), _beside_the_paper("improved")),
        ),
    ),
    setting="24 pairs of queries with two producers; latencies replayed, route changes and load injected.",
    run=run,
    draw=draw,
)
