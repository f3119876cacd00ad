"""What `resilient` has to show at up to 200 operators, each line measured and held against its figure."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

import numpy as np

from lab.benchmarks._resilient_cases import Row, at_least, at_most, drawn, ratio, timed
from lab.experiments.rod import figure17, figure19
from lab.experiments.rod.trials import STEPS
from lab.experiments.trials import Row as Trial
from mooring.algorithms.catalogue import make_policy
from mooring.algorithms.exact.policy import optimal_assign
from mooring.contracts.policy import Context
from mooring.model.bounds.upper_bound import upper_bound
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.feasible.true_feasible_set import true_ratio

TEN_SITES = (
    # streams, operators, seconds, least mean ratio to ROD's (or to the ideal, where stated so), graphs
    (5, 25, 1.0, 1.35, "rod", 20),
    (5, 50, 1.0, 1.18, "rod", 20),
    (5, 100, 1.0, 1.27, "rod", 20),
    (5, 200, 1.0, 0.985, "ideal", 20),
    (10, 50, 1.0, 2.0, "rod", 20),
    (10, 200, 1.0, 1.4, "rod", 20),
    (10, 100, 10.0, 1.6, "rod", 10),
)


def two_sites() -> list[Row]:
    """100 graphs of up to 20 operators against the optimum, and the bound's gap to it."""
    found, took, bounds, rods = [], [], [], []
    timed(make_policy("resilient", {}), *drawn(0, operators=20, sites=2), 0.1)
    for seed in range(100):
        streams = 2 + seed % 4
        operators = streams * int(np.random.default_rng((seed, 2)).integers(2, 20 // streams, endpoint=True))
        problem, model = drawn(seed, operators=operators, streams=streams, sites=2)
        best = FeasibleSet.of(model, optimal_assign(model)).ratio().value
        sites, seconds = timed(make_policy("resilient", {}), problem, model, 0.17)
        rod = make_policy("rod", {}).place(problem, Context.of(problem)).site_of_fragment
        found.append(FeasibleSet.of(model, sites).ratio().value / best)
        rods.append(FeasibleSet.of(model, rod).ratio().value / best)
        bounds.append(upper_bound(model, sites) / best)
        took.append(seconds)
    return [
        at_least("mean ratio to the optimum", fmean(found), 0.997, rod=round(fmean(rods), 4)),
        at_least("least ratio to the optimum", min(found), 0.985, rod=round(min(rods), 4)),
        at_most("most CPU seconds", max(took), 0.2, mean=round(fmean(took), 3)),
        at_least("least bound over the optimum", min(bounds), 1.0),
        at_most("mean bound over the optimum", fmean(bounds), 1.1),
    ]


def ten_sites(order: str = "breadth_first") -> list[Row]:
    """The mean over fresh graphs, on directions that the search has not seen."""
    rows: list[Row] = []
    for streams, operators, budget_s, wanted, to, graphs in TEN_SITES:
        ratios, rods, bounds = [], [], []
        for seed in range(graphs):
            problem, model = drawn(1000 + seed, operators=operators, streams=streams, order=order)
            if seed == 0:
                timed(make_policy("resilient", {}), problem, model, 0.1)
            sites, _ = timed(make_policy("resilient", {}), problem, model, budget_s)
            rod = make_policy("rod", {}).place(problem, Context.of(problem)).site_of_fragment
            ratios.append(ratio(model, sites))
            rods.append(ratio(model, rod))
            bounds.append(upper_bound(model, sites))
        gains = [own / rod for own, rod in zip(ratios, rods, strict=True)]
        rows.append(
            at_least(
                f"{streams} streams, {operators} operators, {budget_s:g} s, to {to}",
                fmean(gains if to == "rod" else ratios),
                wanted,
                graphs=graphs,
                error=round(float(np.std(gains if to == "rod" else ratios) / (graphs - 1) ** 0.5), 3),
                rod=round(fmean(rods), 4),
                resilient=round(fmean(ratios), 4),
                bound=round(fmean(bounds), 4),
                median=round(float(np.median(gains if to == "rod" else ratios)), 4),
            )
        )
    return rows


def ten_sites_random_order() -> list[Row]:
    """The same on trees that grow at random instead of breadth first."""
    return ten_sites("random")


def errors() -> list[Row]:
    """Plans made from wrong statistics, judged by the truth (figure 19)."""
    rows: list[Row] = []
    for error, wanted in ((0.25, 1.08), (0.5, 1.0)):
        trials = [row for n in range(30) for row in figure19.trial(figure19.Graph(error, n, 0, STEPS))]
        rows.append(
            at_least(
                f"{error:.0%} error, told of it, to rod",
                _mean(trials, "resilient"),
                wanted,
                unaware=round(_mean(trials, "resilient unaware"), 4),
                bound=round(fmean(float(row["bound"]) for row in trials), 4),
            )
        )
    return rows


def _mean(trials: Iterable[Trial], policy: str, value: str = "ratio_to_rod") -> float:
    return fmean(float(row[value]) for row in trials if row["policy"] == policy)


def communication() -> list[Row]:
    """Crossings at a quarter of the processing cost, against ROD over clusters (figure 17)."""
    trials = [row for n in range(10) for row in figure17.trial(figure17.Graph(20, 0.25, n, 0, STEPS))]
    ratios = _mean(trials, "resilient", "ratio_to_ideal")
    return [
        at_least(
            "20 operators per stream, to clustered rod",
            _mean(trials, "resilient"),
            1.4,
            resilient=round(ratios, 4),
            bound=round(fmean(float(r["bound"]) for r in trials), 4),
        )
    ]


def joins() -> list[Row]:
    """The true feasible set of plans made for it over that of plans made for the linearised one."""
    rows: list[Row] = []
    for streams, count in ((2, 4), (3, 8), (5, 10)):
        gains = []
        for seed in range(5):
            problem, model = drawn(
                40 + seed,
                operators=streams * 10,
                streams=streams,
                sites=5,
                joins=count,
                join_cost_us=(0.5, 5.0),
            )
            timed(make_policy("resilient", {}), problem, model, 0.1)
            true, linear = (
                true_ratio(
                    model, timed(make_policy("resilient", {"objective": goal}), problem, model, 1.0)[0]
                )
                for goal in ("true", "linear")
            )
            gains.append(true.value / linear.value)
        rows.append(
            at_least(
                f"{streams} streams, {count} joins, true over linearised",
                fmean(gains),
                1.1,
                least=round(min(gains), 3),
            )
        )
    return rows
