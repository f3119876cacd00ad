"""The ants' experiments at their smallest: rows as declared, and claims that hold even there."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from lab.experiments.experiment import Experiment
from lab.experiments.registry import EXPERIMENTS
from lab.experiments.trials import Row
from mooring.progress import silent

NAMES = (
    "ants_figure2a",
    "ants_figure2b",
    "ants_figure3a",
    "ants_figure3b",
    "ants_figure4",
    "ants_queueing",
    "ants_table1",
)

WAYS = ("never moving", "self-optimising")


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
    rows = [row for row in quick_rows("ants_figure2a") if row["policy"] == "ants"]
    over = {
        short: [float(row["over_optimal"]) for row in rows if (int(row["tasks"]) <= 3) == short]
        for short in (True, False)
    }
    assert min(map(min, over.values())) >= -1e-9
    assert np.mean(over[True]) <= 0.01
    assert np.mean(over[False]) <= 0.03


def test_many_queries_are_near_the_reference_and_far_from_random() -> None:
    rows = quick_rows("ants_figure2b")

    def worst(policy: str) -> float:
        return max(float(row["to_reference"]) for row in rows if row["policy"] == policy)

    assert worst("ants") <= 1.25
    assert worst("ants, descent") <= 1.05
    assert min(float(row["to_reference"]) for row in rows if row["policy"] == "random") >= 3.0


def test_ants_deploy_about_as_many_queries_as_who_knows_all() -> None:
    rows = quick_rows("ants_figure4")
    for sites in {row["sites"] for row in rows}:
        own = {row["policy"]: float(row["success"]) for row in rows if row["sites"] == sites}
        assert own["ants"] >= own["reference"] - 0.05
        (control,) = {float(row["control_share"]) for row in rows if row["sites"] == sites}
        assert control < 0.001


def test_self_optimisation_lowers_the_latency_of_a_query_whose_rate_rises() -> None:
    late = [row for row in quick_rows("ants_figure3a") if float(row["at_s"]) > 80.0]
    mean = {way: np.mean([float(r["latency_ms"]) for r in late if r["way"] == way]) for way in WAYS}
    assert mean["self-optimising"] < mean["never moving"]
    assert sum(int(row["moves"]) for row in late) == 0


def test_while_queries_come_self_optimisation_lowers_the_mean_and_then_stops() -> None:
    rows = quick_rows("ants_figure3b")
    still, own = ([row for row in rows if row["way"] == way] for way in WAYS)
    assert all(
        float(b["latency_ms"]) <= float(a["latency_ms"]) * (1 + 1e-9) for a, b in zip(still, own, strict=True)
    )
    assert float(own[-1]["latency_ms"]) < float(still[-1]["latency_ms"])
    assert sum(int(row["moved"]) for row in own) > 0
    assert sum(int(row["moved"]) for row in own[-2:]) == 0


def test_a_larger_beta_updates_less_and_loses_more() -> None:
    rows = quick_rows("ants_table1")
    betas = sorted({float(row["beta"]) for row in rows})

    def added(column: str) -> list[float]:
        return [sum(float(row[column]) for row in rows if row["beta"] == beta) for beta in betas]

    updates, loss = added("updates"), added("loss_ms_s")
    assert sum(updates[:2]) > sum(updates[-2:])
    assert loss == sorted(loss)
    assert loss[0] < loss[-1]
    assert all(int(row["forced"]) <= int(row["updates"]) for row in rows)


def test_the_correction_is_nearer_to_simulated_waits() -> None:
    rows = [row for row in quick_rows("ants_queueing") if row["part"] == "one site" and row["load"] == 0.5]
    off = {
        form: np.mean([float(r["off"]) for r in rows if r["form"] == form]) for form in ("paper", "corrected")
    }
    assert off["corrected"] < off["paper"]


def test_latencies_of_random_placements_are_near_and_ranked_right() -> None:
    rows = [row for row in quick_rows("ants_queueing") if row["part"] == "placements"]
    assert max(float(row["off"]) for row in rows) <= 0.15
    assert np.mean([float(row["ranked_right"]) for row in rows]) >= 0.95
