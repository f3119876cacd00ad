"""Latency statistics from the kernel's logarithmic histograms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Counts32
from mooring.simulator.data_plane.kernels.records import HISTOGRAM_FLOOR_S, HISTOGRAM_RATIO, Records


@dataclass(frozen=True)
class Latency:
    """End-to-end latency of one query's tuples; mean and maximum are exact, quantiles within 0.4%."""

    tuples: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float

    def as_json(self) -> dict[str, float | int | None]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: None if value != value else value for name, value in values.items()}


def quantiles_s(histogram: Counts32, shares: tuple[float, ...]) -> list[float]:
    """The latencies below which the given shares of the tuples stayed, in seconds (0: below 1 us)."""
    cumulative = np.cumsum(histogram, dtype=np.float64)
    if cumulative[-1] == 0:
        return [float("nan")] * len(shares)
    bins = np.searchsorted(cumulative, np.array(shares) * cumulative[-1])
    middles = HISTOGRAM_FLOOR_S * HISTOGRAM_RATIO ** (bins - 0.5)
    return [float(middle) if bin_ else 0.0 for bin_, middle in zip(bins, middles, strict=True)]


def latency_of(queries: Records, histogram: Counts32) -> Latency:
    """One summary over all the rows given (one query, or several taken together)."""
    count = float(queries["count"].sum())
    longest = float(queries["max"].max(initial=0.0)) if count else float("nan")
    p50, p95, p99 = (min(value, longest) for value in quantiles_s(histogram.sum(axis=0), (0.5, 0.95, 0.99)))
    mean = float(queries["sum"].sum()) / count if count else float("nan")
    return Latency(int(count), *(1e3 * value for value in (mean, p50, p95, p99, longest)))
