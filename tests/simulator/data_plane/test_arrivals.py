"""Arrival processes have the rate, the burstiness and the order that they promise."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.errors import InputError
from mooring.simulator.data_plane.arrivals import (
    Arrivals,
    BinnedRates,
    Constant,
    OnOff,
    Poisson,
    Renewal,
    Replay,
    SelfSimilar,
)


def first_seconds(process: Arrivals, seconds: float, seed: int = 0) -> np.ndarray:
    parts = []
    for chunk in process.chunks(np.random.default_rng(seed)):
        parts.append(chunk)
        if len(chunk) and chunk[-1] > seconds:
            break
    instants = np.concatenate(parts)
    return instants[instants <= seconds]


PROCESSES = [
    Constant(50.0),
    Poisson(50.0),
    Renewal(50.0, 0.25),
    Renewal(50.0, 5.0),
    OnOff(50.0, on_s=0.5, off_s=1.5),
    SelfSimilar(50.0, hurst=0.7),
    BinnedRates(np.array([20.0, 80.0]), bin_s=1.0, repeat=True),
    Replay(np.arange(100) / 50.0, repeat=True),
]


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: type(process).__name__)
def test_instants_increase_and_come_at_the_stated_rate(process: Arrivals) -> None:
    instants = first_seconds(process, 2000.0)
    assert np.all(np.diff(instants) >= 0)
    assert len(instants) / 2000.0 == pytest.approx(50.0, rel=0.08)
    doubled = first_seconds(process.scaled(2.0), 2000.0)
    assert len(doubled) / 2000.0 == pytest.approx(100.0, rel=0.08)


@pytest.mark.parametrize("scv", [0.25, 1.0, 5.0])
def test_gaps_of_a_renewal_process_vary_as_asked(scv: float) -> None:
    gaps = np.diff(first_seconds(Renewal(100.0, scv), 2000.0))
    assert np.var(gaps) / np.mean(gaps) ** 2 == pytest.approx(scv, rel=0.05)


def hurst(counts: np.ndarray) -> float:
    """Aggregated variance: the slope of log variance of block means against log block size is 2H - 2."""
    sizes = 2 ** np.arange(2, 9)
    variances = [np.var(counts[: len(counts) // m * m].reshape(-1, m).mean(axis=1)) for m in sizes]
    return 1 + float(np.polyfit(np.log(sizes), np.log(variances), 1)[0]) / 2


def test_self_similar_arrivals_keep_bursting_at_every_scale_and_poisson_ones_do_not() -> None:
    def counts(process: Arrivals) -> np.ndarray:
        return np.histogram(first_seconds(process, 20_000.0), bins=20_000, range=(0, 20_000))[0]

    assert hurst(counts(SelfSimilar(40.0, hurst=0.85))) == pytest.approx(0.85, abs=0.08)
    assert hurst(counts(Poisson(40.0))) == pytest.approx(0.5, abs=0.05)


def test_chunks_stay_small_however_high_the_rate() -> None:
    process = BinnedRates(np.array([1e6]), bin_s=60.0)
    sizes = [
        len(chunk) for chunk, _ in zip(process.chunks(np.random.default_rng(0)), range(50), strict=False)
    ]
    assert max(sizes) < 20_000


def test_a_replay_faster_by_two_ends_after_half_the_time() -> None:
    instants = first_seconds(Replay(np.array([1.0, 2.0, 4.0])).scaled(2.0), 10.0)
    np.testing.assert_allclose(instants, [0.5, 1.0, 2.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Poisson(-1.0),
        lambda: Renewal(1.0, 0.0),
        lambda: OnOff(1.0, on_s=0.0),
        lambda: SelfSimilar(1.0, hurst=1.0),
        lambda: BinnedRates(np.array([]), 1.0),
        lambda: Replay(np.array([2.0, 1.0])),
    ],
)
def test_impossible_processes_are_refused(make: object) -> None:
    with pytest.raises(InputError):
        make()  # type: ignore[operator]
