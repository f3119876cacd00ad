"""Whom a cell knows."""

from __future__ import annotations

import numpy as np

from mooring.algorithms.ants.neighbours import neighbours_of
from mooring.model.problem.network import Network


def test_stated_routes_say_who_is_next_to_whom() -> None:
    latency_ms = np.ones((4, 4)) - np.eye(4)
    network = Network(latency_ms, routes={(0, 3): (1, 2), (3, 0): (2, 1)})
    assert neighbours_of(network, 4, np.random.default_rng(0)) == [(1,), (0, 2), (1, 3), (2,)]


def test_without_routes_everybody_can_be_reached_and_the_nearest_are_known() -> None:
    """Two far-apart groups are joined."""
    rng = np.random.default_rng(1)
    place = np.concatenate([rng.random(20), 1000.0 + rng.random(20)])
    latency_ms = np.abs(place[:, None] - place[None])
    known = neighbours_of(Network(latency_ms), 40, rng)
    for s, own in enumerate(known):
        assert s not in own
        assert all(s in known[other] for other in own)
        nearest = int(np.argsort(latency_ms[s] + 1e9 * (np.arange(40) == s))[0])
        assert nearest in own
    reached, ahead = {0}, [0]
    while ahead:
        new = set(known[ahead.pop()]) - reached
        reached |= new
        ahead += new
    assert len(reached) == 40


def test_a_single_site_has_nobody() -> None:
    assert neighbours_of(Network(), 1, np.random.default_rng(0)) == [()]
