"""Figure 13 of the SBON paper: what sharing operators saves, for four overlapping queries and for popular
ones.

Section 4.2.2: four queries with distinct consumers in one region ask for the same aggregate of the same two
producers in another. Beyond that, queries whose producers are drawn by a Zipf distribution, since popularity
follows one; they come and go, and in the end nothing may be left running.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.sbon.running_queries import RunningQueries
from lab.experiments.summary import Reference, Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.arrays import Floats
from mooring.model.network.cost_space import CostSpace
from mooring.model.network.embedding import embed
from mooring.model.network.shipped import planetlab
from mooring.model.problem.problem import Problem
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES = 150
"""PlanetLab nodes; the paper used about as many."""
SELECTIVITY = 0.25
"""One tuple in four passes, as in the query of section 4.2."""
TOPICS = 30
"""Different pairs of producers among which popularity is spread."""
PAPER_SAVING = 1.0 - 119.55 / 152.32


@dataclass(frozen=True)
class Case:
    kind: str
    """"four" as in the paper, or "zipf"."""
    queries: int
    number: int
    seed: int


def overlapping(case: Case, latency_ms: Floats, rng: np.random.Generator) -> Problem:
    """Producers a few milliseconds apart, consumers likewise, far from them: two pairs of regions."""
    if case.kind == "four":
        first = int(rng.integers(NODES))
        by_distance = np.argsort(latency_ms[first])
        pairs = [(first, int(by_distance[rng.integers(1, 10)]))]
        middle = int(by_distance[rng.integers(NODES // 2, NODES - 10)])
        around = [c for c in np.argsort(latency_ms[middle])[:12].tolist() if c not in pairs[0]]
        return _problem(latency_ms, pairs, [(0, int(c)) for c in rng.permutation(around)[: case.queries]])
    pairs = [tuple(rng.choice(NODES, 2, replace=False).tolist()) for _ in range(TOPICS)]
    weight = 1.0 / np.arange(1, TOPICS + 1)
    topics = rng.choice(TOPICS, case.queries, p=weight / weight.sum())
    return _problem(latency_ms, pairs, [(int(t), int(rng.integers(NODES))) for t in topics])


def _problem(latency_ms: Floats, pairs: Sequence[tuple[int, ...]], queries: list[tuple[int, int]]) -> Problem:
    names = [f"n{i}" for i in range(NODES)]
    data: dict[str, Any] = {
        "sites": {name: {"capacity": 100} for name in names},
        "latency_ms": {
            a: {names[j]: float(latency_ms[i, j]) for j in range(i)} for i, a in enumerate(names) if i
        },
        "streams": {
            f"s{t}_{k}": {"site": names[node], "rate": 100, "bytes": 10}
            for t, pair in enumerate(pairs)
            for k, node in enumerate(pair)
        },
        "operators": {
            f"a{q}": {
                "inputs": [f"s{topic}_0", f"s{topic}_1"],
                "kind": "aggregate",
                "cost_us": 10,
                "selectivity": SELECTIVITY,
            }
            for q, (topic, _) in enumerate(queries)
        },
        "queries": {
            f"q{q}": {"reads": f"a{q}", "site": names[consumer]} for q, (_, consumer) in enumerate(queries)
        },
    }
    return Problem.from_dict(data)


def share(case: Case) -> list[Row]:
    rng = np.random.default_rng([case.seed, case.number])
    latency_ms = planetlab().one_way_ms()[:NODES, :NODES]
    space = CostSpace(embed(latency_ms, rng))
    problem = overlapping(case, latency_ms, rng)
    usage: list[float] = []
    reused = 0
    for reuse in (False, True):
        queries = RunningQueries(problem, space, latency_ms, np.random.default_rng(case.number), reuse=reuse)
        reused = sum(bool(queries.admit(query.name).reused) for query in problem.queries)
        usage.append(queries.usage())
        running = len(queries.instances)
        for query in problem.queries:
            queries.withdraw(query.name)
        assert not queries.instances
    row: Row = {
        "kind": case.kind,
        "queries": case.queries,
        "number": case.number,
        "usage_alone": usage[0],
        "usage_shared": usage[1],
        "saving": 1.0 - usage[1] / usage[0],
        "reused": reused,
        "running": running,
        "paper_saving": PAPER_SAVING if case.kind == "four" else np.nan,
    }
    return [row]


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    numbers = 10 if quick else 40
    cases = [Case("four", 4, number, seed) for number in range(numbers)]
    sizes = (50,) if quick else (20, 50, 100, 200)
    cases += [Case("zipf", size, number, seed) for size in sizes for number in range(2 if quick else 5)]
    return run_trials(share, cases, report)


def mean_saving(rows: Sequence[Row], kind: str, queries: int) -> float:
    return float(np.mean([float(r["saving"]) for r in rows if r["kind"] == kind and r["queries"] == queries]))


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(7, 4)
    settings = list(dict.fromkeys((str(row["kind"]), int(row["queries"])) for row in rows))
    labels = [f"{kind}, {queries} queries" for kind, queries in settings]
    axes.bar(labels, [100 * mean_saving(rows, *each) for each in settings])
    axes.axhline(100 * PAPER_SAVING, color="black", linestyle=":", label="paper, four queries")
    axes.set(ylabel="network usage saved by sharing, %", title="Figure 13")
    finish(axes)
    return figure


SBON_REUSE = Experiment(
    name="sbon_reuse",
    title="Network usage saved by sharing operators between queries",
    source="Network-aware operator placement (SBON), figure 13, section 4.2.2",
    columns={
        "kind": "four: overlapping queries as in the paper; zipf: producers by popularity",
        "queries": "queries that run together",
        "number": "number of the draw",
        "usage_alone": "bytes in flight when every query has operators of its own",
        "usage_shared": "bytes in flight with sharing, outputs delivered once per site",
        "saving": "share saved",
        "reused": "queries that found their operator running",
        "running": "operators that run with sharing",
        "paper_saving": "119.55 bytes against 152.32",
    },
    summaries=(
        Summary(
            by=("kind", "queries"),
            shown=(
                Shown("saving", beside=Reference("paper", {("four", 4): round(PAPER_SAVING, 3)})),
                Shown("usage_alone"),
                Shown("usage_shared"),
                Shown("reused"),
                Shown("running"),
            ),
        ),
    ),
    setting="150 PlanetLab nodes; queries ask for aggregates of two producers.",
    run=run,
    draw=draw,
)
