"""Coordinates of thousands of nodes at once, from measured and generated latencies."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.model.network.embedding import draw_neighbours, embed, refine, relative_errors, start_embedding
from mooring.model.network.shipped import planetlab
from mooring.model.network.vivaldi import VivaldiClient, VivaldiParams


@pytest.mark.parametrize("seed", [0, 1])
def test_the_median_error_on_planetlab_is_at_most_85_thousandths(seed: int) -> None:
    latency_ms = planetlab().one_way_ms()
    assert np.median(relative_errors(embed(latency_ms, np.random.default_rng(seed)), latency_ms)) <= 0.085


def test_heights_halve_the_error_where_access_links_are_slow() -> None:
    rng = np.random.default_rng(0)
    place, access = rng.random((150, 2)) * 100, rng.random(150) * 60
    latency = np.linalg.norm(place[:, None] - place[None], axis=2) + access[:, None] + access
    np.fill_diagonal(latency, 0.0)
    flat, tall = (
        np.median(
            relative_errors(embed(latency, np.random.default_rng(1), VivaldiParams(height=height)), latency)
        )
        for height in (False, True)
    )
    assert tall < flat / 2


def test_poisoned_samples_are_counted_and_do_no_harm() -> None:
    latency = planetlab().one_way_ms()[:200, :200]
    poisoned = latency.copy()
    rng = np.random.default_rng(0)
    for value in (np.nan, -1.0, 0.0, 1e9, np.inf):
        poisoned[rng.random(latency.shape) < 0.02] = value
    result = embed(poisoned, np.random.default_rng(1))
    clean = embed(latency, np.random.default_rng(1))
    assert result.refused > 0.05 * 200 * 3500
    assert np.all(np.isfinite(result.position_ms))
    worse = np.median(relative_errors(result, latency)) - np.median(relative_errors(clean, latency))
    assert worse < 0.02


def test_the_compiled_step_does_what_a_client_does() -> None:
    rng = np.random.default_rng(0)
    params = VivaldiParams()
    start = start_embedding(2, rng, params)
    client = VivaldiClient(rng, params)
    client.coordinate = start.coordinate(0)
    expected = client.observe(1, 40.0, start.coordinate(1))
    after = refine(start, np.array([[1], [0]]), np.array([[40.0], [-1.0]]), rng, params, rounds=1)
    assert after.coordinate(0).position_ms == pytest.approx(expected.position_ms)
    assert after.coordinate(0).height_ms == pytest.approx(expected.height_ms)
    assert after.coordinate(0).error == pytest.approx(expected.error)
    assert after.refused == 1


def test_neighbours_are_never_oneself_and_all_others_where_there_are_few() -> None:
    rng = np.random.default_rng(0)
    assert not np.any(draw_neighbours(300, rng) == np.arange(300)[:, None])
    assert sorted(draw_neighbours(5, rng)[2].tolist()) == [0, 1, 3, 4]


def test_the_same_seed_gives_the_same_coordinates() -> None:
    latency = planetlab().one_way_ms()[:60, :60]
    one, two = (embed(latency, np.random.default_rng(7)).position_ms for _ in range(2))
    assert np.array_equal(one, two)
