"""The chunk paper's figures come out as they should, on few and small trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from lab.experiments.chunks import bound, figure5, figure6, figure7, figure8
from lab.experiments.chunks.plans import complex_edges
from lab.experiments.chunks.populations import DrawnProblem, search_by_trials
from lab.experiments.registry import EXPERIMENTS
from lab.experiments.trials import Row, trials_run_by
from mooring.chunks.search.genetic import GeneticParams
from mooring.chunks.search.search_log import StoppingRules
from mooring.progress import Report


def test_the_complex_plan_has_the_papers_operators_joins_and_inputs() -> None:
    edges = complex_edges(np.random.default_rng(0))
    assert len(edges) == 20
    assert sum(len(inputs) == 2 for inputs in edges) == 6
    assert sum(inputs[0].startswith("i") for inputs in edges) == 7
    read = [name for inputs in edges for name in inputs if name.startswith("o")]
    assert sorted(read) == sorted(f"o{k}" for k in range(19)), "a tree with one output"


def figure5_means(plan: str, sites: str, numbers: int) -> dict[str, float]:
    rows = [row for k in range(numbers) for row in figure5.balance_all(figure5.Case(plan, sites, k, 0))]
    return figure5.mean_to_worst(rows, plan, sites)


@pytest.mark.parametrize("sites", ["like", "unlike"])
def test_on_the_simple_plan_tiered_is_best_and_global_worst(sites: str) -> None:
    means = figure5_means("simple", sites, 12)
    assert means["tiered"] <= means["local"] <= means["global"]


def test_global_is_best_where_operators_are_independent() -> None:
    means = figure5_means("independent", "unlike", 4)
    assert means["global"] == min(means.values()) < means["local"]


def test_on_the_complex_plan_global_is_worst_and_local_beats_tiered() -> None:
    """Unlike in the paper: operators of a tier of an uneven tree do not run at the same time."""
    means = figure5_means("complex", "unlike", 3)
    assert means["local"] < means["tiered"] < means["global"]


@cache
def quick_rows(name: str) -> list[Row]:
    return EXPERIMENTS[name].run(seed=1, quick=True, report=lambda done, what: None)


def test_figure_8_has_the_papers_order_at_low_load_and_the_search_is_near_the_bound() -> None:
    ways = {row["way"]: row for row in quick_rows("chunks_figure8") if row["load"] == 0.1}
    dedicated, shared, tiered, earliest = (float(ways[way]["to_bound"]) for way in figure8.WAYS)
    assert dedicated > shared > tiered
    assert tiered <= 1.05
    assert earliest <= 1.05


def test_searches_come_to_the_optimum_of_the_chain() -> None:
    cyclical, genetic = (
        [row for row in quick_rows("chunks_figure7") if row["search"] == search][-1]
        for search in figure7.SEARCHES
    )
    assert float(cyclical["to_uniform"]) == pytest.approx(1.0, abs=1e-9)
    assert float(genetic["to_uniform"]) <= 1.04


def test_a_seed_speeds_up_every_search() -> None:
    rows = quick_rows("chunks_figure6")
    for search in figure6.SEARCHES:
        plain, seeded = (figure6.mean_to_best(rows, search, each, figure6.STEPS[0]) for each in ("no", "yes"))
        assert seeded < plain


def test_earliest_finish_is_close_to_the_bound_with_exact_and_with_learned_costs() -> None:
    for row in quick_rows("chunks_bound"):
        if float(row["load"]) <= 0.6:
            if row["way"] == bound.EXACT:
                assert float(row["gap"]) <= 0.06
            if row["way"] == bound.LEARNED:
                assert float(row["gap"]) <= 0.12
        assert float(row["gap"]) >= -1e-9
        assert float(row["bound_to_alone"]) >= 1.0


def test_a_population_is_evaluated_by_whoever_runs_trials() -> None:
    """The runner sees one call per generation, and the search finds what it finds here."""
    drawn = DrawnProblem("simple", "unlike", 0.3, 0, 8, "tiered")
    params, rules = GeneticParams(population=8), StoppingRules(most_rounds=3)
    calls: list[int] = []

    def counting(trial: Callable[[Any], list[Row]], parameters: Sequence[Any], report: Report) -> list[Row]:
        calls.append(len(parameters))
        return [row for each in parameters for row in trial(each)]

    here = search_by_trials(drawn, np.random.default_rng(0), params, rules)
    with trials_run_by(counting):
        elsewhere = search_by_trials(drawn, np.random.default_rng(0), params, rules)
    assert (elsewhere.best, elsewhere.best_ms) == (here.best, here.best_ms)
    assert sum(calls) == here.evaluations
    assert len(calls) == 3


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("chunks_")])
def test_rows_have_the_columns_that_are_documented_and_can_be_drawn(name: str) -> None:
    assert list(quick_rows(name)[0]) == list(EXPERIMENTS[name].columns)
    assert EXPERIMENTS[name].draw(quick_rows(name)).axes


def test_the_same_seed_gives_the_same_rows() -> None:
    case = figure5.Case("simple", "unlike", 0, 0)
    assert figure5.balance_all(case) == figure5.balance_all(case)
