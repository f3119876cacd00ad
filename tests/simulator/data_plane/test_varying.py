"""Arrivals follow the course of their rate, whatever process they are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mooring.arrays import Floats
from mooring.model.problem.changes.change import RateChange, RateReplay
from mooring.model.problem.changes.schedule import rate_course
from mooring.simulator.data_plane.arrivals import Arrivals, Constant, OnOff, Poisson
from mooring.simulator.data_plane.varying import Varying


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
