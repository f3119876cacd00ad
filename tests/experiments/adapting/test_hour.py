"""The hour of changes is the hour that its record says, and its rows have the columns they promise."""

from __future__ import annotations

from mooring.experiments.adapting.hour import ADAPTING_HOUR, OPERATORS, SITES, Case, circumstances, hour
from mooring.problem.changes.agenda import rate_course
from mooring.problem.changes.change import LatencyChange, RateReplay


def test_rates_follow_the_world_cup_and_latencies_planetlab() -> None:
    made = circumstances(Case("none", "changing", 0, 0))
    assert (len(made.problem.sites), len(made.problem.operators)) == (SITES, OPERATORS)
    replays = [change for change in made.changes if isinstance(change, RateReplay)]
    assert len(replays) == len(made.problem.streams)
    assert len(made.changes) - len(replays) > 500
    assert all(isinstance(change, LatencyChange) for change in made.changes if change not in replays)
    for stream in made.problem.streams:
        course = rate_course(made.changes, stream.name, stream.rate)
        assert 0.5 < course.mean(0.0, 600.0) / stream.rate < 1.5


def test_noise_begins_once_deciders_had_time_to_settle() -> None:
    made = circumstances(Case("none", "noise", 0, 0))
    course = rate_course(made.changes, made.problem.streams[0].name, made.problem.streams[0].rate)
    assert {course.rate_at(float(at_s)) for at_s in range(0, 1800, 10)} == {made.problem.streams[0].rate}
    assert len({course.rate_at(float(at_s)) for at_s in range(1800, 3600, 10)}) == 180


def test_a_row_has_the_columns_that_are_promised() -> None:
    (row,) = hour(Case("headroom", "noise", 0, 0, 60.0))
    assert list(row) == list(ADAPTING_HOUR.columns)
    assert row["moves"] == 0
