"""Random placement: equal counts or a uniform draw, repeatable by seed."""

from __future__ import annotations

import numpy as np

from mooring.algorithms.baselines.random_placement import random_assign
from mooring.model.load.model import LoadModel


def counts(model: LoadModel, seed: int, balanced: bool) -> list[int]:
    sites = random_assign(model, np.random.default_rng(seed), balanced)
    return [int(count) for count in np.bincount(sites, minlength=model.site_count)]


def test_balanced_means_equal_counts_even_around_pins() -> None:
    pins = np.full(20, -1)
    pins[:4] = 2
    model = LoadModel.from_coefficients(np.ones((20, 1)), np.ones(4), pinned_site=pins)
    for seed in range(5):
        assert counts(model, seed, balanced=True) == [5, 5, 5, 5]


def test_uniform_draws_every_site_equally_often() -> None:
    model = LoadModel.from_coefficients(np.ones((4000, 1)), np.ones(4))
    found = counts(model, 1, balanced=False)
    assert found != [1000] * 4
    assert all(abs(count - 1000) < 5 * np.sqrt(1000) for count in found)


def test_the_seed_decides() -> None:
    model = LoadModel.from_coefficients(np.ones((20, 1)), np.ones(4))
    plans = [random_assign(model, np.random.default_rng(seed)).tolist() for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
