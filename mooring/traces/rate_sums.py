"""Moments and correlations of rates from sums over bins: what many workers can add up part by part.

Counts of arrivals are whole numbers, so are the sums of them and of their products, and no order of adding
changes them. Only the last step divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class RateSums:
    """Sums over the bins of a table of counts, a stream each."""

    bin_s: float
    bins: int
    streams: tuple[str, ...]
    totals: Ints
    """Arrivals of each stream."""
    products: Ints
    """For each two streams, the sum over the bins of the product of their counts."""
    most: Ints
    """The largest count of each stream."""

    @classmethod
    def of_counts(cls, counts: Ints, bin_s: float, streams: Sequence[str]) -> RateSums:
        """Counts with a row per bin and a column per stream."""
        totals, most = counts.sum(axis=0), counts.max(axis=0, initial=0)
        return cls(bin_s, len(counts), tuple(streams), totals, counts.T @ counts, most)

    def mean(self) -> list[float]:
        """Arrivals per second."""
        return [total / self.bins / self.bin_s for total in self.totals.tolist()]

    def deviation(self) -> list[float]:
        """Standard deviation of each stream's rate over the bins."""
        spread = self._spread()
        return [spread[k][k] ** 0.5 / self.bins / self.bin_s for k in range(len(self.streams))]

    def peak(self) -> list[float]:
        """The largest rate of each stream in any bin."""
        return [most / self.bin_s for most in self.most.tolist()]

    def correlation(self) -> Floats:
        """Of the rates, stream by stream; one that never changes is correlated with itself alone."""
        spread = self._spread()
        own = [spread[k][k] ** 0.5 for k in range(len(self.streams))]
        result = np.eye(len(own))
        for i in range(len(own)):
            for j in range(i):
                if own[i] > 0 and own[j] > 0:
                    result[i, j] = result[j, i] = min(max(spread[i][j] / own[i] / own[j], -1.0), 1.0)
        return result

    def _spread(self) -> list[list[int]]:
        """n sum(xy) - sum(x) sum(y), in Python's unbounded whole numbers: nothing cancels."""
        totals = self.totals.tolist()
        return [
            [self.bins * product - totals[i] * totals[j] for j, product in enumerate(row)]
            for i, row in enumerate(self.products.tolist())
        ]
