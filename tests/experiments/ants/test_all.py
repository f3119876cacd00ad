"""The ants' experiments at their smallest: rows as declared, and claims that hold even there."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from mooring.experiments.experiment import Experiment
from mooring.experiments.registry import EXPERIMENTS
from mooring.experiments.trials import Row
from mooring.progress import silent

NAMES = ("ants_figure2a", "ants_figure2b", "ants_figure4")


@cache
def quick_rows(name: str) -> list[Row]:
    return EXPERIMENTS[name].run(seed=0, quick=True, report=silent)


@pytest.mark.parametrize("name", NAMES)
def test_rows_have_the_columns_that_are_declared_and_can_be_drawn(name: str) -> None:
    experiment: Experiment = EXPERIMENTS[name]
    rows = quick_rows(name)
    assert all(list(row) == list(experiment.columns) for row in rows)
    assert experiment.draw(rows).axes


def test_one_query_is_near_the_optimum() -> None:
    over = [float(row["over_optimal"]) for row in quick_rows("ants_figure2a") if row["policy"] == "ants"]
    assert min(over) >= -1e-9
    assert np.mean(over) <= 0.03


def test_many_queries_are_near_the_reference_and_far_from_random() -> None:
    rows = quick_rows("ants_figure2b")

    def worst(policy: str) -> float:
        return max(float(row["to_reference"]) for row in rows if row["policy"] == policy)

    assert worst("ants") <= 1.25
    assert worst("ants, descent") <= 1.05
    assert min(float(row["to_reference"]) for row in rows if row["policy"] == "random") >= 2.0


def test_ants_deploy_about_as_many_queries_as_who_knows_all() -> None:
    rows = quick_rows("ants_figure4")
    for sites in {row["sites"] for row in rows}:
        own = {row["policy"]: float(row["success"]) for row in rows if row["sites"] == sites}
        assert own["ants"] >= own["reference"] - 0.1
