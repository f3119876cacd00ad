"""The hour of changes is the hour that its record says, and its rows have the columns they promise."""

from __future__ import annotations

from lab.experiments.adapting.hour import ADAPTING_HOUR, OPERATORS, SITES, Case, circumstances, hour
from mooring.model.problem.changes.change import LatencyChange, RateReplay
from mooring.model.problem.changes.schedule import rate_course


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


def test_deciders_settle_at_the_rates_that_noise_is_around() -> None:
    seen = {}
    for kind in ("steady", "noise"):
        made = circumstances(Case("none", kind, 0, 0, 1800.0))
        stream = made.problem.streams[0]
        course = rate_course(made.changes, stream.name, stream.rate)
        seen[kind] = [course.rate_at(float(at_s)) / stream.rate for at_s in range(0, 1800, 10)]
    assert set(seen["steady"]) == {1.0}
    assert len(set(seen["noise"])) == 180
    assert 0.95 < sum(seen["noise"]) / 180 < 1.05


def test_a_row_has_the_columns_that_are_promised() -> None:
    (row,) = hour(Case("headroom", "noise", 0, 0, 60.0))
    assert list(row) == list(ADAPTING_HOUR.columns)
    assert row["moves"] == 0
