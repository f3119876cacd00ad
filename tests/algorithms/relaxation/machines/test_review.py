"""The cost space as one site sees it has the same nearest sites as the planner's."""

from __future__ import annotations

import numpy as np

from mooring.algorithms.relaxation.machines.review import Neighbourhood
from mooring.model.network.coordinate import Coordinate
from mooring.model.network.cost_space import CostSpace, LoadScale
from mooring.model.network.embedding import Embedding


def test_the_nearest_sites_are_those_of_the_cost_space() -> None:
    rng = np.random.default_rng(3)
    positions, heights = rng.uniform(-100, 100, (40, 2)), rng.uniform(0, 20, 40)
    spare = rng.uniform(-0.5, 2.0, 40)
    places = [
        Coordinate((float(x), float(y)), float(height))
        for (x, y), height in zip(positions, heights, strict=True)
    ]
    known = {3 * i: place for i, place in enumerate(places)}
    around = Neighbourhood(known, {3 * i: float(cores) for i, cores in enumerate(spare)}, load_ms=80.0)
    load = 1.0 - spare / spare.max()
    space = CostSpace(Embedding(positions, heights, np.ones(40)), load, LoadScale(80.0))
    for point in rng.uniform(-100, 100, (20, 2)):
        nodes, _ = space.nearest(point, 6)
        x, y = point.tolist()
        assert around.near(Coordinate((x, y)), 6) == [3 * node for node in nodes.tolist()]


def test_without_a_load_axis_only_the_network_counts() -> None:
    known = {0: Coordinate((0.0, 0.0)), 1: Coordinate((10.0, 0.0)), 2: Coordinate((3.0, 0.0), 9.0)}
    around = Neighbourhood(known, {0: -5.0, 1: 1.0, 2: 1.0}, load_ms=0.0)
    assert around.near(Coordinate((1.0, 0.0)), 3) == [0, 1, 2]
    assert around.near(Coordinate((1.0, 0.0)), 2) == [0, 1]
