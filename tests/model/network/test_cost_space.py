"""The search in the cost space finds what trying all nodes finds."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.model.network.cost_space import CostSpace, LoadScale
from mooring.model.network.embedding import Embedding


def scattered(nodes: int, seed: int) -> Embedding:
    rng = np.random.default_rng(seed)
    return Embedding(rng.normal(0, 80, (nodes, 3)), rng.exponential(30, nodes), np.full(nodes, 0.1))


@pytest.mark.parametrize("count", [1, 10, 200, 5000])
@pytest.mark.parametrize("loaded", [False, True])
def test_nearest_agrees_with_brute_force(count: int, loaded: bool) -> None:
    rng = np.random.default_rng(count)
    space = CostSpace(scattered(1500, 1), rng.random(1500) if loaded else None, LoadScale(200.0))
    for point in rng.normal(0, 120, (20, 3)):
        nodes, distance = space.nearest(point, count)
        everywhere = space.distance_ms(point, np.arange(1500))
        assert np.allclose(distance, np.sort(everywhere)[: min(count, 1500)])
        assert np.allclose(everywhere[nodes], distance)


def test_load_pushes_a_node_away() -> None:
    embedding = Embedding(np.zeros((2, 3)), np.zeros(2), np.zeros(2))
    space = CostSpace(embedding, np.array([0.9, 0.1]), LoadScale(100.0))
    nodes, distance = space.nearest(np.zeros(3), 2)
    assert nodes.tolist() == [1, 0]
    assert distance.tolist() == pytest.approx([10.0, 90.0])


def test_a_node_without_a_usable_coordinate_is_never_found() -> None:
    embedding = scattered(50, 2)
    embedding.position_ms[7] = np.nan
    space = CostSpace(embedding)
    assert len(space) == 49
    assert 7 not in space.nearest(np.zeros(3), 50)[0]
