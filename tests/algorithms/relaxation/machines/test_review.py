"""The cost space as one site sees it has the same nearest sites as the planner's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.algorithms.relaxation.machines.review import Neighbourhood, rest_position_ms
from mooring.algorithms.relaxation.spring_params import SpringParams
from mooring.algorithms.relaxation.springs import Springs, virtual_positions
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


PLACES = st.floats(-300.0, 300.0)
SITES = st.builds(Coordinate, st.tuples(PLACES, PLACES), st.floats(0.0, 50.0))
SPRINGS = st.lists(st.tuples(SITES, st.floats(0.0, 1e6)), min_size=1, max_size=6)


@given(SPRINGS, st.tuples(PLACES, PLACES))
def test_it_rests_where_the_compiled_springs_rest(
    springs: list[tuple[Coordinate, float]], start: tuple[float, float]
) -> None:
    sites, rates = [site for site, _ in springs], [rate for _, rate in springs]
    embedding = Embedding(
        np.array([site.position_ms for site in sites]),
        np.array([site.height_ms for site in sites]),
        np.array([site.error for site in sites]),
    )
    ends = ~np.arange(len(sites))
    system = Springs.of(1, ends, np.zeros(len(sites), dtype=np.int64), np.array(rates))
    begin = np.array([start])
    compiled = virtual_positions(system, embedding, np.random.default_rng(0), SpringParams(), begin)[0]
    plain = rest_position_ms(sites, rates, start, SpringParams())
    # One sweep more or less, where a force is at the threshold to the last bit, is no other place.
    assert plain == pytest.approx(compiled.tolist(), abs=2 * SpringParams().damping)


def test_it_agrees_to_rounding() -> None:
    sites = [Coordinate((0.0, 30.0), 4.0), Coordinate((60.0, -10.0)), Coordinate((5.0, 5.0), 0.01)]
    embedding = Embedding(
        np.array([site.position_ms for site in sites]),
        np.array([site.height_ms for site in sites]),
        np.ones(3),
    )
    rates = [50.0, 25.0, 3.0]
    system = Springs.of(1, ~np.arange(3), np.zeros(3, dtype=np.int64), np.array(rates))
    begin = np.array([[0.3, -0.2]])
    compiled = virtual_positions(system, embedding, np.random.default_rng(0), SpringParams(), begin)[0]
    plain = rest_position_ms(sites, rates, (0.3, -0.2), SpringParams())
    assert plain == pytest.approx(compiled.tolist(), rel=1e-12)
