"""The Hurst estimate on series whose parameter is known."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.errors import InputError
from mooring.traces.self_similarity import hurst


def fractional_noise(hurst_parameter: float, count: int, generator: np.random.Generator) -> np.ndarray:
    """Exact fractional Gaussian noise by circulant embedding (Davies and Harte 1987)."""
    lag = np.arange(count + 1.0)
    power = 2 * hurst_parameter
    covariance = 0.5 * ((lag + 1) ** power - 2 * lag**power + np.abs(lag - 1) ** power)
    spectrum = np.fft.fft(np.concatenate([covariance, covariance[-2:0:-1]])).real
    noise = generator.normal(size=spectrum.size) + 1j * generator.normal(size=spectrum.size)
    return np.fft.fft(np.sqrt(np.maximum(spectrum, 0) / spectrum.size) * noise).real[:count]


@pytest.mark.parametrize("known", [0.5, 0.7, 0.83])
def test_the_estimate_finds_a_known_parameter_up_to_its_bias(known: float) -> None:
    generator = np.random.default_rng(4)
    found = [hurst(fractional_noise(known, 2**16, generator)) for _ in range(10)]
    assert known - 0.04 < np.mean(found) < known + 0.01


def test_independent_counts_have_no_memory() -> None:
    rates = np.random.default_rng(0).poisson(20, 100_000).astype(float)
    assert hurst(rates) == pytest.approx(0.5, abs=0.03)


def test_a_constant_or_short_series_has_no_hurst_parameter() -> None:
    with pytest.raises(InputError, match="never changes"):
        hurst(np.full(1000, 3.0))
    with pytest.raises(InputError, match="too few"):
        hurst(np.arange(50.0))
