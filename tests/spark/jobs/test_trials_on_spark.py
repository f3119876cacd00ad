"""The trials of an experiment on Spark: the rows of the loop in this process, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import numpy as np
import pandas as pd

from lab.experiments.chunks.populations import DrawnProblem, search_by_trials
from lab.experiments.command import csv_text
from lab.experiments.registry import EXPERIMENTS
from lab.experiments.rod import figure14, optimum
from lab.experiments.trials import Row, trials_run_by
from lab.experiments.trials_on_spark import SparkTrials, name_of, packed, run_batch, unpacked
from mooring.chunks.search.genetic import GeneticParams
from mooring.chunks.search.search_log import StoppingRules
from mooring.cli.main import main
from mooring.errors import EngineError
from mooring.progress import Report


def silent(done: float, what: str) -> None:
    pass


@pytest.mark.spark
def test_an_experiment_has_the_same_bytes_on_spark_as_here(tmp_path: Path) -> None:
    """On a server that the command starts itself; those at an endpoint are in test_trace_jobs.py."""
    here = csv_text(optimum.ROD_OPTIMUM, optimum.run(seed=3, quick=True, report=silent))
    command = ["experiment", "rod_optimum", "--quick", "--seed", "3", "--output", str(tmp_path)]
    assert main([*command, "--on", "spark", "--master", "local[2]"]) == 0
    assert len(here.splitlines()) == 1 + optimum.QUICK_GRAPHS
    assert (tmp_path / "rod_optimum.csv").read_text() == here


def test_a_trial_that_fails_on_a_worker_says_why_here(batch: object) -> None:
    impossible = figure14.Graph(operators=7, number=0, repeats=1, seed=0)
    with pytest.raises(
        EngineError, match=r"a trial failed on Spark: mooring.errors.InputError: .*7"
    ) as caught:
        SparkTrials(batch)(figure14.place_all, [impossible], silent)
    assert "--on spark" in str(caught.value.remedy)


def test_a_population_of_candidates_is_worth_the_same_on_spark_as_here(batch: object) -> None:
    drawn = DrawnProblem("simple", "unlike", 0.3, 0, 8, "tiered")
    params, rules = GeneticParams(population=8), StoppingRules(most_rounds=1)
    here = search_by_trials(drawn, np.random.default_rng(0), params, rules)
    with trials_run_by(SparkTrials(batch)):
        there = search_by_trials(drawn, np.random.default_rng(0), params, rules)
    assert there.improvements == here.improvements


def test_no_trials_are_no_rows(batch: object) -> None:
    assert SparkTrials(batch)(figure14.place_all, [], silent) == []


def test_parameters_arrive_as_they_left() -> None:
    for value in (figure14.Graph(25, 1, 2, 2**63 - 1), 0.1 + 0.2, -0.0, "strøm", 7):
        back = unpacked(packed(value), name_of(type(value)))
        assert back == value
        assert type(back) is type(value)
    assert math.copysign(1, unpacked(packed(-0.0), "builtins:float")) == -1


def test_what_cannot_be_found_by_name_or_sent_as_data_is_refused_before_it_leaves() -> None:
    with pytest.raises(TypeError, match="by name"):
        name_of(lambda graph: [])
    with pytest.raises(TypeError, match="plain data"):
        packed((1, [2, (3,)]))
    with pytest.raises(TypeError, match="plain data"):
        packed({"frame": pd.DataFrame()})


def test_a_worker_with_another_version_refuses() -> None:
    with pytest.raises(EngineError, match=r"the driver 0\.0\.0"):
        next(run_batch(iter([]), trial=name_of(figure14.place_all), version="0.0.0"))


@pytest.mark.parametrize("name", [name for name, each in EXPERIMENTS.items() if not each.drives_sites])
def test_the_trials_of_every_experiment_can_be_sent(name: str) -> None:
    sent: list[bytes] = []

    def sender(trial: Callable[[Any], list[Row]], parameters: Sequence[Any], report: Report) -> list[Row]:
        assert name_of(trial)
        sent.extend(packed(each) for each in parameters)
        raise InterruptedError("enough seen")

    with pytest.raises(InterruptedError), trials_run_by(sender):
        EXPERIMENTS[name].run(seed=0, quick=True, report=silent)
    assert sent
