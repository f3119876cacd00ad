"""The ROD paper's other figures: each trial repeats, says what the paper says, and is drawn with its axes."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

import pytest

from lab.experiments.experiment import Experiment
from lab.experiments.registry import EXPERIMENTS
from lab.experiments.rod import figure9, figure15, figure16, figure17, figure19
from lab.experiments.rod import optimum as rod_optimum
from lab.experiments.trials import Row, run_trials

STEPS = 20_000


def rows_of(name: str) -> tuple[list[Row], list[Row]]:
    """Few trials of an experiment, twice."""
    trials: dict[str, Callable[[], list[Row]]] = {
        "figure9": lambda: run_trials(
            figure9.trial, [figure9.Batch(1, 0, 60, 0, STEPS), figure9.Batch(1, 0, 0, 30, STEPS)]
        ),
        "figure15": lambda: run_trials(figure15.trial, [figure15.Graph(d, 0, 1, STEPS) for d in (2, 5)]),
        "figure16": lambda: run_trials(figure16.trial, [figure16.Bound(50, n, 1) for n in range(3)]),
        "figure17": lambda: run_trials(
            figure17.trial, [figure17.Graph(5, c, 0, 1, STEPS) for c in (0.0, 0.5)]
        ),
        "figure19": lambda: run_trials(figure19.trial, [figure19.Graph(e, 0, 1, STEPS) for e in (0.0, 0.25)]),
        "rod_optimum": lambda: run_trials(rod_optimum.trial, [rod_optimum.Graph(n, 1) for n in range(5)]),
    }
    return trials[name](), trials[name]()


@pytest.mark.parametrize("name", ["figure9", "figure15", "figure16", "figure17", "figure19", "rod_optimum"])
def test_trials_repeat_and_no_plan_exceeds_the_bound(name: str) -> None:
    rows, again = rows_of(name)
    assert rows == again
    for row in rows:
        ratio = row.get("ratio_to_ideal", row.get("ratio", row.get("optimum", 0.0)))
        assert float(row["bound"]) >= float(ratio) - 1e-9


@pytest.mark.parametrize(
    ("experiment", "labels"),
    [
        (figure9.ROD_FIGURE_9, ["r / r*"]),
        (figure15.ROD_FIGURE_15, ["number of input streams"]),
        (
            figure16.ROD_FIGURE_16,
            ["distance of B to the ideal plane / of the origin", "distance between B and Z"],
        ),
        (figure16.ROD_TABLE_3, ["number of operators"]),
        (figure17.ROD_FIGURE_17, ["communication cost / processing cost"] * 3),
        (figure19.ROD_FIGURE_19, ["error level"]),
        (rod_optimum.ROD_OPTIMUM, ["share of graphs"]),
    ],
)
def test_figures_have_the_papers_axes_and_are_registered(experiment: Experiment, labels: list[str]) -> None:
    assert EXPERIMENTS[experiment.name] is experiment
    rows: list[Row] = [
        dict.fromkeys(experiment.columns, 0.5)
        | {"policy": policy, "assumed": "origin", "operators_per_stream": per_stream}
        for policy in ("rod", "resilient")
        for per_stream in figure17.OPERATORS_PER_STREAM
    ]
    assert [axes.get_xlabel() for axes in experiment.draw(rows).axes] == labels


def test_the_sphere_is_a_lower_bound_in_figure_9() -> None:
    for row in figure9.trial(figure9.Batch(2, 1, 80, 0, STEPS)):
        assert float(row["ratio_to_ideal"]) >= float(row["sphere"]) - 0.01


def test_resilient_is_ahead_of_rod_on_every_trial_of_figures_15_and_17() -> None:
    for row in rows_of("figure15")[0] + rows_of("figure17")[0]:
        if row["policy"] == "resilient":
            assert float(row["ratio_to_rod"]) >= 1.0


def test_on_two_sites_rod_is_close_to_the_optimum_and_resilient_closer() -> None:
    rows = rows_of("rod_optimum")[0]
    assert 0.6 < fmean(float(row["rod_to_optimum"]) for row in rows) < 1.0
    assert min(float(row["resilient_to_optimum"]) for row in rows) >= 0.985
    assert fmean(float(row["bound_to_optimum"]) for row in rows) <= 1.1


def test_a_plan_for_the_wrong_lower_bound_loses_part_of_the_set() -> None:
    assert figure16.penalty(0.8, 0.6) == pytest.approx(0.25)
    penalties = [float(r["penalty"]) for r in rows_of("figure16")[0] if r["policy"] == "resilient"]
    assert fmean(penalties) > 0.0
