"""One node's Vivaldi: it converges, and nothing impossible reaches its coordinate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.model.network.coordinate import Coordinate
from mooring.model.network.latency_filter import FilterParams, LatencyFilter
from mooring.model.network.vivaldi import VivaldiClient, VivaldiParams


def test_two_dozen_nodes_on_a_plane_find_their_distances() -> None:
    rng = np.random.default_rng(0)
    place = rng.random((24, 2)) * 200
    latency = np.linalg.norm(place[:, None] - place[None], axis=2)
    clients = [VivaldiClient(rng, VivaldiParams(dimensions=2, height=False)) for _ in place]
    for _ in range(400):
        for i, client in enumerate(clients):
            j = int(rng.integers(len(clients) - 1))
            j += j >= i
            client.observe(j, float(latency[i, j]), clients[j].coordinate)
    errors = [
        abs(clients[i].coordinate.latency_ms(clients[j].coordinate) / latency[i, j] - 1)
        for i in range(24)
        for j in range(i)
    ]
    assert np.median(errors) < 0.02
    assert all(client.coordinate.confidence > 0.8 for client in clients)


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        (math.nan, "latency is not a number"),
        (-3.0, "latency is negative"),
        (0.0, "latency is zero"),
        (1e9, "latency is above the largest plausible value"),
        (math.inf, "latency is above the largest plausible value"),
    ],
)
def test_an_impossible_sample_changes_nothing_and_is_counted(sample: float, reason: str) -> None:
    client = VivaldiClient(np.random.default_rng(0))
    before = client.coordinate
    assert client.observe(1, sample, Coordinate((1.0, 2.0, 3.0), 1.0, 0.5)) == before
    assert client.refused == {reason: 1}


@pytest.mark.parametrize(
    "theirs",
    [
        Coordinate((math.nan, 0.0, 0.0)),
        Coordinate((0.0, 0.0)),
        Coordinate((0.0, 0.0, math.inf)),
        Coordinate((0.0, 0.0, 0.0), -1.0),
        Coordinate((0.0, 0.0, 0.0), 1.0, math.nan),
        Coordinate((0.0, 0.0, 1e12)),
    ],
)
def test_an_impossible_coordinate_of_a_peer_is_refused(theirs: Coordinate) -> None:
    client = VivaldiClient(np.random.default_rng(0))
    before = client.coordinate
    assert client.observe(1, 20.0, theirs) == before
    assert client.refused == {"coordinate is impossible": 1}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=30),
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=5, max_size=5),
)
def test_whatever_peers_say_the_own_coordinate_stays_usable(samples: list[float], raw: list[float]) -> None:
    client = VivaldiClient(np.random.default_rng(0))
    for peer, sample in enumerate(samples):
        client.observe(peer % 3, sample, Coordinate(tuple(raw[:3]), raw[3], raw[4]))
    assert client.coordinate.unusable(3, math.inf) is None


def test_a_newcomer_finds_its_place_without_dragging_the_others_along() -> None:
    rng = np.random.default_rng(1)
    place = rng.random((20, 2)) * 100
    latency = np.linalg.norm(place[:, None] - place[None], axis=2) + 10
    clients = [VivaldiClient(rng, VivaldiParams(dimensions=2)) for _ in place]

    def rounds(count: int, active: list[int]) -> None:
        for _ in range(count):
            for i in active:
                j = active[int(rng.integers(len(active)))]
                if i != j:
                    clients[i].observe(j, float(latency[i, j]), clients[j].coordinate)

    rounds(300, list(range(19)))
    before = [client.coordinate for client in clients[:19]]
    rounds(40, list(range(20)))
    moved = np.median(
        [
            math.dist(a.position_ms, c.coordinate.position_ms)
            for a, c in zip(before, clients[:19], strict=True)
        ]
    )
    own = [
        abs(clients[19].coordinate.latency_ms(clients[j].coordinate) / latency[19, j] - 1) for j in range(19)
    ]
    assert np.median(own) < 0.2
    assert moved < 5.0


def test_the_filter_keeps_the_baseline_through_spikes_and_follows_a_route_change() -> None:
    link = LatencyFilter(FilterParams())
    rng = np.random.default_rng(0)
    spiky = [50.0 * (1 + 20 * (rng.random() < 0.4)) for _ in range(100)]
    assert max(link.add(sample) for sample in spiky[:50]) == 50.0
    after = [link.add(80.0) for _ in range(10)]
    assert after[0] == 50.0
    assert after[-1] == 80.0


def test_a_peer_that_left_is_forgotten_with_its_samples() -> None:
    client = VivaldiClient(np.random.default_rng(0))
    there = Coordinate((10.0, 0.0, 0.0), 1.0, 0.3)
    for _ in range(10):
        client.observe(1, 10.0, there)
    client.forget(1)
    error = client.coordinate.error
    client.observe(1, 5000.0, there)
    assert client.coordinate.error > error
