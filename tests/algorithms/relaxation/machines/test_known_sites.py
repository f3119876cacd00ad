"""What a site knows of the others: measured, unless it is told that something else counts."""

from __future__ import annotations

import numpy as np

from mooring.algorithms.relaxation.machines.known_sites import KnownSites
from mooring.model.network.coordinate import Coordinate
from mooring.model.network.vivaldi import VivaldiParams

THERE = Coordinate((0.1, 0.1), 0.01, 0.5)


def known_sites() -> KnownSites:
    return KnownSites(0, 3, np.random.default_rng(1), VivaldiParams(dimensions=2), load_ms=0.0)


def test_stated_latencies_count_whatever_was_and_is_measured() -> None:
    known = known_sites()
    for _ in range(10):
        known.learn(1, 0.2, THERE, 1.0)
    assert known.latencies_ms((0, 1, 2)) == (0.0, 0.2, -1.0)
    known.state((0.0, 30.0, -1.0))
    assert known.latencies_ms((0, 1, 2)) == (0.0, 30.0, -1.0)
    for _ in range(100):
        known.learn(1, 0.2, THERE, 1.0)
        known.learn(2, 0.3, THERE, 1.0)
    assert known.latencies_ms((1, 2)) == (30.0, 0.3)
    assert known.coordinate.latency_ms(THERE) > 1.0, "its place goes by what is stated"


def test_what_is_stated_no_more_is_measured_again_from_the_first_sample_on() -> None:
    known = known_sites()
    known.state((0.0, 30.0, 60.0))
    known.learn(1, 0.2, THERE, 1.0)
    known.state((0.0, -1.0, 60.0))
    assert known.latencies_ms((1, 2)) == (-1.0, 60.0)
    known.learn(1, 0.2, THERE, 1.0)
    assert known.latencies_ms((1,)) == (0.2,)


def test_sites_on_one_spot_are_stated_too_and_a_list_of_another_network_is_not_used() -> None:
    known = known_sites()
    known.state((0.0, 0.0, 60.0))
    known.learn(1, 0.2, THERE, 1.0)
    assert known.latencies_ms((1, 2)) == (0.0, 60.0)
    known.state((0.0, 7.0))
    assert known.latencies_ms((1, 2)) == (0.0, 60.0)
