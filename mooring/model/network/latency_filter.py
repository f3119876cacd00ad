"""The moving percentile filter of section 3.1.1: the latency of a link without queues.

Measured latencies have long tails (load, congestion) above a baseline that changes rarely (routes). A low
percentile of the last few samples follows the baseline and ignores the tail.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats
from mooring.errors import InputError


@dataclass(frozen=True)
class FilterParams:
    history: int = 10
    """Samples kept per link (section 3.1.1)."""
    percentile: float = 20.0
    """Of those samples (section 3.1.1)."""

    def __post_init__(self) -> None:
        if self.history < 1 or not 0.0 <= self.percentile <= 100.0:
            raise InputError(f"found {self}, expected some history and a percentile", field="filter")

    def rank(self, samples: int) -> int:
        """Which of so many sorted samples is taken: the nearest rank."""
        return max(0, math.ceil(samples * self.percentile / 100.0) - 1)


def low_percentile(samples_ms: Floats, percentile: float) -> Floats:
    """Nearest-rank percentile along the first axis of whatever was measured (positive); NaN where nothing
    was."""
    ordered = np.sort(np.where(samples_ms > 0.0, samples_ms, np.nan), axis=0)
    count = np.sum(~np.isnan(ordered), axis=0)
    rank = np.maximum(np.ceil(count * percentile / 100.0).astype(np.int64) - 1, 0)
    return np.asarray(np.take_along_axis(ordered, rank[None], axis=0)[0])


class LatencyFilter:
    """One link's samples, oldest forgotten first."""

    def __init__(self, params: FilterParams) -> None:
        self._params = params
        self._samples: deque[float] = deque(maxlen=params.history)
        self.value = math.nan
        """The filtered latency, once there was a sample."""

    def add(self, sample_ms: float) -> float:
        """Take a sample; returns the filtered latency."""
        self._samples.append(sample_ms)
        self.value = sorted(self._samples)[self._params.rank(len(self._samples))]
        return self.value
