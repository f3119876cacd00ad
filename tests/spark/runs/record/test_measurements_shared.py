"""The CPU of a site is shared out so that totals are met and nothing known before is thrown away."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.spark.runs.record.measurements_shared import share_out


def looks(rng: np.random.Generator, count: int) -> np.ndarray:
    """Batches and rows of two fragments per look."""
    return np.column_stack(
        [
            np.ones(count),
            rng.uniform(1_000, 9_000, count),
            rng.integers(1, 3, count).astype(float),
            rng.uniform(500, 20_000, count),
        ]
    )


def test_looks_that_differ_find_the_costs_whatever_was_believed_before() -> None:
    rng = np.random.default_rng(0)
    amounts, truth = looks(rng, 60), np.array([0.2, 5e-6, 0.1, 2e-6])
    cpu_s = amounts @ truth * (1 + 0.03 * rng.standard_normal(60))
    shares = share_out(cpu_s, amounts, prior=truth * [0.5, 2.0, 1.5, 0.7])
    assert shares.costs == pytest.approx(truth, rel=0.35)
    assert shares.error < 0.1


def test_looks_that_are_all_alike_scale_what_was_known_to_the_total() -> None:
    amounts = np.tile([1.0, 4000.0, 1.0, 4000.0], (12, 1))
    prior = np.array([0.1, 5e-6, 0.2, 1e-6])
    cpu_s = 2.0 * amounts @ prior
    assert share_out(cpu_s, amounts, prior).costs == pytest.approx(2.0 * prior)


@pytest.mark.parametrize("seed", range(10))
def test_no_cost_is_negative_and_the_total_is_met(seed: int) -> None:
    rng = np.random.default_rng(seed)
    amounts, truth = looks(rng, 8), np.array([0.2, 5e-6, 0.1, 2e-6])
    cpu_s = amounts @ truth * rng.uniform(0.5, 1.5, 8)
    shares = share_out(cpu_s, amounts, prior=truth * rng.uniform(0.1, 10, 4))
    assert np.all(shares.costs >= 0.0)
    assert float((amounts @ shares.costs).sum()) == pytest.approx(float(cpu_s.sum()), rel=0.25)


def test_a_site_that_was_idle_teaches_nothing() -> None:
    prior = np.array([0.1, 1e-6])
    assert share_out(np.zeros(3), np.zeros((3, 2)), prior).costs == pytest.approx(prior)
