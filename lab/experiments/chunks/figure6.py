"""Figure 6 of the chunk paper: best latency over the time of a search, with and without a seed.

The Complex plan. A seed is the configuration that was best while sites were 30% faster; since then each has
become slower, to a different degree. Time is counted in simulated chunks, so that rows do not depend on the
machine: `python -m lab.benchmarks chunks` says how many there are in a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.chunks.plans import drawn_problem
from lab.experiments.chunks.searches import FRAMES, searched
from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.chunks.search.evaluation import Assignment
from mooring.chunks.search.search_log import StoppingRules
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CHUNKS, LOAD = 16, 0.5
LEFT_OF_SPEED = (0.55, 0.85)
"""What each site keeps: 30% less on average, each to a different degree."""
SEARCHES = {"cyclical": None, "genetic, 16": 16, "genetic, 64": 64, "genetic, 256": 256}
STEPS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
"""Chunks simulated per frame."""


@dataclass(frozen=True)
class Case:
    number: int
    steps: int
    most_evaluations: int
    """Of the search that finds the seed."""
    seed: int


def descend(case: Case) -> list[Row]:
    """All searches on one draw, each from the same start and from the same seed."""
    rng = np.random.default_rng([case.seed, case.number])
    now = drawn_problem("complex", "unlike", LOAD, rng)
    left = rng.uniform(*LEFT_OF_SPEED, len(now.sites))
    faster = [
        replace(site, cycles_per_s=site.cycles_per_s / part)
        for site, part in zip(now.sites, left.tolist(), strict=True)
    ]
    earlier = replace(now, sites=tuple(faster))
    steps = STEPS[: case.steps]
    rules = StoppingRules(most_evaluations=case.most_evaluations, unchanged_rounds=10)
    last = searched(earlier, Assignment.TIERED, MOST_CHUNKS, rng, rules=rules).best
    found = {}
    for search, population in SEARCHES.items():
        for is_seeded in (False, True):
            own = np.random.default_rng([case.seed, case.number, 1])
            log = searched(
                now,
                Assignment.TIERED,
                MOST_CHUNKS,
                own,
                population=population,
                seeds=[last] if is_seeded else [],
                rules=replace(rules, most_evaluations=steps[-1] // 100),
            )
            found[search, is_seeded] = [log.best_after(chunks) for chunks in steps]
    best_ms = min(min(each) for each in found.values())
    return [
        {
            "search": search,
            "seeded": "yes" if is_seeded else "no",
            "number": case.number,
            "chunks": chunks,
            "best_ms": latency_ms,
            "to_best": latency_ms / best_ms,
        }
        for (search, is_seeded), latencies_ms in found.items()
        for chunks, latency_ms in zip(steps, latencies_ms, strict=True)
        if np.isfinite(latency_ms)
    ]


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    numbers, steps, evaluations = (1, 3, 1000) if quick else (6, len(STEPS), 10_000)
    return run_trials(descend, [Case(k, steps, evaluations, seed) for k in range(numbers)], report)


def mean_to_best(rows: Sequence[Row], search: str, seeded: str, chunks: int) -> float:
    wanted = (search, seeded, chunks)
    own = [row for row in rows if (row["search"], row["seeded"], row["chunks"]) == wanted]
    return float(np.mean([float(row["to_best"]) for row in own])) if own else float("nan")


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(7, 4)
    for k, search in enumerate(SEARCHES):
        for seeded, line in (("no", "-"), ("yes", "--")):
            means = [mean_to_best(rows, search, seeded, chunks) for chunks in STEPS]
            axes.plot(
                np.array(STEPS) * FRAMES, means, line, color=f"C{k}", label=search if seeded == "no" else None
            )
    axes.set(
        title="Figure 6 (dashed: seeded)",
        xlabel="chunk executions simulated",
        ylabel="latency to the best of all",
        xscale="log",
    )
    finish(axes)
    return figure


def _descent(seeded: str) -> Summary:
    return Summary(
        title=f"Best latency to the best of all, as chunks are simulated; seeded: {seeded}",
        by=("chunks",),
        across="search",
        where=lambda row: row["seeded"] == seeded,
        shown=(Shown("to_best"),),
    )


CHUNKS_FIGURE_6 = Experiment(
    name="chunks_figure6",
    title="Best latency over the time of a search, seeded and not",
    source="chunk paper, figure 6, section 4.1",
    columns={
        "search": "cyclical, or genetic with a population of so many",
        "seeded": "whether it starts from the configuration of the sites while they were 30% faster",
        "number": "number of the draw",
        "chunks": "chunks simulated until then, per simulated frame: what a search's time goes into",
        "best_ms": "best latency found until then",
        "to_best": "best latency to the best that any search of the draw found",
    },
    summaries=(_descent("no"), _descent("yes")),
    setting="Complex plan, 12 unlike sites, at most 16 chunks per operator, load .5, Tiered.",
    run=run,
    draw=draw,
)
