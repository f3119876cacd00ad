"""Latencies as kernels take them are those of the problem, to the last bit."""

from __future__ import annotations

import numpy as np

from mooring.model.load.queued.way_kernels import between_s, ways_of
from mooring.model.problem.latencies import Coordinates, as_matrix, with_changed


def test_coordinates_and_their_matrix_give_the_same_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    plane = Coordinates(rng.uniform(-50.0, 50.0, (9, 3)), rng.uniform(0.0, 4.0, 9))
    slower = with_changed(with_changed(plane, {(1, 4): 250.0}), {(7, 0): 0.5})
    for latency_ms in (plane, slower):
        computed, read = ways_of(latency_ms, 9, most_read=0), ways_of(as_matrix(latency_ms), 9)
        pairs = [(a, b) for a in range(9) for b in range(9)]
        assert [between_s(computed, a, b) for a, b in pairs] == [between_s(read, a, b) for a, b in pairs]
    assert between_s(ways_of(slower, 9, most_read=0), 4, 1) == 0.25


def test_without_latencies_all_sites_are_at_one_point() -> None:
    for most_read in (0, 3):
        nowhere = ways_of(None, 3, most_read)
        assert {between_s(nowhere, a, b) for a in range(3) for b in range(3)} == {0.0}
