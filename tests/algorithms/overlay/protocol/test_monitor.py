"""Latencies measured where somebody measured, inferred elsewhere, and how far off that may be."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.algorithms.overlay.protocol.monitor import UNKNOWN_MS, NetworkMonitor
from mooring.model.network.coordinate import Coordinate
from mooring.model.network.embedding import embed
from mooring.model.network.shipped import planetlab
from mooring.model.network.vivaldi import VivaldiParams


def monitor() -> NetworkMonitor:
    return NetworkMonitor(0, np.random.default_rng(0), VivaldiParams(), Coordinate((0.0, 0.0, 0.0), 1.0, 0.1))


def test_a_measured_pair_is_certain_and_an_inferred_one_is_not() -> None:
    own = monitor()
    own.learn_place(1, Coordinate((30.0, 0.0, 0.0), 2.0, 0.2))
    own.learn_place(2, Coordinate((0.0, 40.0, 0.0), 3.0, 0.05))
    inferred = own.estimate(1, 2)
    assert [inferred.latency_ms, inferred.error_ms] == pytest.approx([55.0, 11.0])
    own.learn_pair(2, 1, 70.0)
    assert own.estimate(1, 2) == own.estimate(2, 1)
    assert (own.estimate(1, 2).latency_ms, own.estimate(1, 2).error_ms) == (70.0, 0.0)
    assert own.between_ms(np.array([1, 2]), np.array([2])).tolist() == [[70.0], [0.0]]


def test_a_site_that_nobody_told_of_is_far_away() -> None:
    assert monitor().estimate(0, 9).latency_ms == UNKNOWN_MS


def test_what_cannot_be_a_coordinate_is_not_believed() -> None:
    own = monitor()
    own.learn_place(1, Coordinate((float("nan"), 0.0, 0.0)))
    assert own.place_of(1) is None


def test_most_inferred_latencies_of_planetlab_lie_within_twice_their_error() -> None:
    """Each of 60 nodes measures 16 others; what they say of all pairs is held against the whole matrix."""
    rng = np.random.default_rng(0)
    latency_ms = planetlab().one_way_ms()[:60, :60]
    places = embed(latency_ms, rng, neighbours=16)
    own = NetworkMonitor(0, rng, VivaldiParams(), places.coordinate(0))
    for site in range(1, 60):
        own.learn_place(site, places.coordinate(site))
    pairs = [(i, j) for i in range(60) for j in range(i)]
    off = [abs(own.estimate(i, j).latency_ms - latency_ms[i, j]) for i, j in pairs]
    allowed = [2.0 * own.estimate(i, j).error_ms for i, j in pairs]
    assert np.mean(np.array(off) <= np.array(allowed)) > 0.7
