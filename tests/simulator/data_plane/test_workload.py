"""Streams keep the rate that the problem states, whatever shapes their traffic."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from mooring.arrays import Floats
from mooring.errors import InputError
from mooring.model.problem.changes.change import RateChange, RateReplay
from mooring.model.problem.changes.schedule import rate_course
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Arrivals, BinnedRates, Constant, OnOff, Poisson
from mooring.simulator.data_plane.workload import PROCESSES, TraceChoice, Varying, workload

PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}},
        "streams": {"s": {"rate": 200}, "t": {"rate": 50}, "still": {"rate": 0}},
        "operators": {"o": {"inputs": ["s", "t", "still"], "cost_us": 1}},
    }
)


def rates(seconds: float, **options: object) -> list[float]:
    found = []
    for process in workload(PROBLEM, **options):  # type: ignore[arg-type]
        count = 0
        for chunk in process.chunks(np.random.default_rng(0)):
            count += int(np.searchsorted(chunk, seconds))
            if len(chunk) and chunk[-1] > seconds:
                break
        found.append(count / seconds)
    return found


@pytest.mark.parametrize("arrivals", PROCESSES)
@pytest.mark.parametrize("multiplier", [1.0, 3.0])
def test_processes_keep_the_stated_rates(arrivals: str, multiplier: float) -> None:
    found = rates(2000.0, arrivals=arrivals, multiplier=multiplier)
    assert found == pytest.approx([200 * multiplier, 50 * multiplier, 0], rel=0.1)


@pytest.mark.parametrize(
    "trace", ["bc-paug89-extract", {"s": "bc-paug89-extract"}, {"t": "bc-paug89-extract"}], ids=str
)
def test_traces_are_replayed_at_the_stated_rates(trace: TraceChoice) -> None:
    assert rates(1900.0, trace=trace) == pytest.approx([200, 50, 0], rel=0.12)


def test_counts_per_minute_become_rates_per_minute() -> None:
    (process, *_) = workload(PROBLEM, trace={"s": "worldcup98-extract"})
    assert process.rates.mean() == pytest.approx(200)  # type: ignore[attr-defined]
    assert process.bin_s == 60  # type: ignore[attr-defined]


def test_a_history_of_rates_gives_each_stream_its_column(tmp_path: Path) -> None:
    """Its shape comes from the file, its mean from the problem."""
    path = tmp_path / "history.csv"
    path.write_text("time_s,y,other\n0,1,9\n2,3,9\n")
    text = "sites: {a: {capacity: 1}}\nstreams: {x: {rate: 5}, y: {rate: 20}}\n"
    (tmp_path / "p.yaml").write_text(text + "operators: {f: {inputs: [x, y], cost_us: 1}}\n")
    problem = Problem.load(tmp_path / "p.yaml")
    x, y = workload(problem, trace=path)
    assert not isinstance(x, BinnedRates)
    assert isinstance(y, BinnedRates)
    assert (y.rates.tolist(), y.bin_s, y.repeat) == ([10.0, 30.0], 2.0, True)
    path.write_text("time_s,z\n0,1\n2,3\n")
    with pytest.raises(InputError, match="found rates of z"):
        workload(problem, trace=path)


def instants(process: Arrivals, until_s: float, seed: int = 0) -> Floats:
    parts = []
    for chunk in itertools.islice(process.chunks(np.random.default_rng(seed)), 2000):
        parts.append(chunk)
        if len(chunk) and chunk[-1] > until_s:
            break
    found = np.concatenate(parts)
    return found[found <= until_s]


@pytest.mark.parametrize("base", [Constant(100.0), Poisson(100.0), OnOff(100.0, 0.1, 0.1)])
def test_as_many_come_in_each_stretch_as_the_course_says(base: Arrivals) -> None:
    changes = (
        RateChange(at_s=20, stream="x", rate=400, for_s=20),
        RateChange(at_s=60, stream="x", rate=300, over_s=40),
        RateReplay(at_s=120, stream="x", rates=((0, 0.0), (20, 50.0))),
    )
    found = instants(Varying(base, 100.0, rate_course(changes, "x", 100.0)), 160.0)
    assert np.all(np.diff(found) >= 0)
    counts, _ = np.histogram(found, [0, 20, 40, 60, 100, 120, 140, 160])
    expected = np.array([2000, 8000, 2000, 8000, 6000, 0, 1000])
    assert counts == pytest.approx(expected, abs=10 + 6 * np.sqrt(expected.max()))
    assert counts[5] == 0


def test_a_stream_that_dries_up_for_good_ends() -> None:
    course = rate_course((RateChange(at_s=5, stream="x", rate=0),), "x", 100.0)
    chunks = list(Varying(Constant(100.0), 100.0, course).chunks(np.random.default_rng(0)))
    assert sum(map(len, chunks)) == 500
    assert max(chunk.max() for chunk in chunks if len(chunk)) <= 5.0
