"""Fits find the truth behind noisy batches, and say so where there is nothing to find."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.model.load.measured.measurements import (
    BatchSample,
    CostFit,
    Measured,
    NotMeasured,
    fit_cost,
    ratio,
    warm,
)


def batches(
    fixed_s: float, cost_us: float, sizes: list[int], rng: np.random.Generator, noise: float = 0.05
) -> list[BatchSample]:
    cpu_s = [(fixed_s + cost_us * rows / 1e6) * (1 + noise * rng.standard_normal()) for rows in sizes]
    return [BatchSample(rows, max(0.0, cpu)) for rows, cpu in zip(sizes, cpu_s, strict=True)]


@settings(max_examples=60, deadline=None)
@given(
    fixed_s=st.floats(0.02, 1.0),
    growth=st.floats(1.0, 10.0),
    largest=st.integers(5_000, 500_000),
    outliers=st.integers(0, 4),
    seed=st.integers(0, 2**31),
)
def test_fixed_and_per_row_cost_are_found_although_a_sixth_of_the_batches_is_spoilt(
    fixed_s: float, growth: float, largest: int, outliers: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    cost_us = 1e6 * growth * fixed_s / largest
    samples = batches(fixed_s, cost_us, [largest // 20, largest // 2, largest] * 8, rng)
    for at in rng.choice(len(samples), outliers, replace=False):
        spoilt = samples[at]
        samples[at] = BatchSample(spoilt.rows_in, spoilt.cpu_s * rng.uniform(2, 6))
    fit = fit_cost(samples)
    assert isinstance(fit, CostFit)
    assert fit.cost_us.value == pytest.approx(cost_us, rel=0.25)
    assert fit.cpu_s(largest // 2) == pytest.approx(fixed_s + cost_us * (largest // 2) / 1e6, rel=0.2)


def test_the_stated_error_is_that_of_repeated_measurements() -> None:
    values, errors = [], []
    for seed in range(200):
        samples = batches(0.2, 4.0, [2_000, 50_000] * 10, np.random.default_rng(seed))
        fit = fit_cost(samples)
        assert isinstance(fit, CostFit)
        values.append(fit.cost_us.value)
        errors.append(fit.cost_us.standard_error)
    assert 0.6 < np.mean(errors) / np.std(values) < 1.7


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ([], "found 0 usable batches"),
        ([BatchSample(10 * n, 0.1) for n in range(5)], "found 5 usable batches"),
        ([BatchSample(1000 + n, 0.1) for n in range(20)], "too narrow a range"),
        ([BatchSample(0, 0.1)] * 20, "too narrow a range"),
        ([BatchSample(float("nan"), 0.1), BatchSample(5, -1.0)] * 9, "found 0 usable batches"),
    ],
)
def test_data_that_cannot_tell_give_a_reason_instead_of_a_number(
    samples: list[BatchSample], reason: str
) -> None:
    fit = fit_cost(samples)
    assert isinstance(fit, NotMeasured)
    assert reason in fit.reason


def test_a_cost_per_row_lost_in_noise_is_a_bound_and_never_zero() -> None:
    rng = np.random.default_rng(1)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        fit = fit_cost(batches(0.3, 0.0, [100, 1000] * 10, rng))
        assert isinstance(fit, CostFit)
        assert fit.cost_us.value > 0.0
        assert fit.below_noise == (fit.cost_us.value == fit.cost_us.standard_error)


def test_the_first_expensive_batches_are_left_out_and_no_others() -> None:
    rng = np.random.default_rng(3)
    good = batches(0.2, 3.0, [1_000, 40_000] * 12, rng)
    cold = [BatchSample(1_000, 0.2 * factor) for factor in (9, 4, 2.5)]
    kept = warm(cold + good)
    assert kept[0].cpu_s < 0.5
    assert len(good) - 2 <= len(kept) <= len(good)


def test_a_ratio_of_totals_sees_through_rows_held_back() -> None:
    """A window gives out nothing in most batches and everything in some."""
    found = ratio([0, 0, 30] * 10, [100] * 30)
    assert isinstance(found, Measured)
    assert found.value == pytest.approx(0.1)
    assert 0.0 < found.standard_error < 0.05
    assert isinstance(ratio([1], [0]), NotMeasured)
