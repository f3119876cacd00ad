"""A number that was sampled rather than computed, with how far off it may be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error, which was itself estimated from few blocks.

    Because of that the interval takes Student's quantile at `degrees_of_freedom` (blocks - 1).
    """

    value: float
    standard_error: float = 0.0
    degrees_of_freedom: int = 0  # 0: the value is exact, its standard error zero

    @classmethod
    def of_blocks(cls, means: Floats) -> Estimate:
        """The mean, at most 1, of equally large blocks of one sample, and the error their spread admits."""
        blocks = len(means)
        error = float(means.std(ddof=1)) / np.sqrt(blocks)
        return cls(min(1.0, float(means.mean())), float(error), blocks - 1)

    def half_width(self, level: float = 0.95) -> float:
        """How far the interval reaches to either side."""
        if self.degrees_of_freedom == 0:
            return 0.0
        from scipy.special import stdtrit  # Student's quantile; what needs no interval does not wait for it

        return float(stdtrit(self.degrees_of_freedom, (1 + level) / 2)) * self.standard_error

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The range that holds the truth with probability `level`, for a quantity between 0 and 1."""
        half = self.half_width(level)
        return max(0.0, self.value - half), min(1.0, self.value + half)
