"""Trials on Spark give the numbers of an in-process run, in the same order."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError
from mooring.experiments import figure14
from mooring.experiments.trials import run_trials, trials_run_by
from mooring.spark.sweeps import run_trials_on


@dataclass(frozen=True)
class Draw:
    seed: int
    count: int


def draw(parameters: Draw) -> list[dict[str, str | int | float]]:
    rng = np.random.default_rng(parameters.seed)
    return [{"seed": parameters.seed, "value": float(rng.normal())} for _ in range(parameters.count)]


def test_the_same_seeds_give_the_same_rows(session) -> None:
    parameters = [Draw(seed, 1 + seed % 3) for seed in range(8)]
    with trials_run_by(functools.partial(run_trials_on, session)):
        on_spark = run_trials(draw, parameters)
    assert on_spark == run_trials(draw, parameters)


def test_an_experiment_of_the_papers_gives_the_same_figures_on_spark(session) -> None:
    graphs = [figure14.Graph(25, number, 2, 0) for number in range(2)]
    assert run_trials_on(session, figure14.place_all, graphs) == run_trials(figure14.place_all, graphs)


def test_a_failing_trial_is_an_engine_error(session) -> None:
    with pytest.raises(EngineError, match="a trial failed"):
        run_trials_on(session, draw, [Draw(-1, 1)])
