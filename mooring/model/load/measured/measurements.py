"""From measured micro-batches to statistics: what a batch costs at all, what each row adds, what comes out.

A micro-batch costs a fixed part (planning, scheduling, commits) and a part per row. Both are read off batches
of different sizes by a line through the data that a few bad batches (a garbage collection, a neighbour on
the machine) cannot turn: the slope is the median of the slopes of all pairs of batches, each weighted by how
far apart its two sizes are (Theil 1950, Sen 1968; weights after Jaeckel 1972), the height the median of what
is left. Errors come from the median absolute residual, so that they too ignore the bad batches.

Where the data does not suffice, `NotMeasured` gives the reason; no number is made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats

LEAST_BATCHES = 6
"""A line has two parameters; fewer batches than this leave no idea of its error."""
LEAST_SPREAD = 1.5
"""The largest batch must have this many times the rows of the smallest."""
_MOST_PAIRED = 400
"""Batches whose pairs are looked at; more are thinned evenly."""
_LEAST_TRIMMED = 5
_SIGMA_PER_MAD = 1.4826
"""Standard deviation per median absolute deviation of a normal distribution."""


@dataclass(frozen=True)
class BatchSample:
    """One micro-batch, or one interval with a batch in it."""

    rows_in: float
    cpu_s: float
    rows_out: float = 0.0
    bytes_out: float = 0.0


@dataclass(frozen=True)
class Measured:
    """A value with its standard error, both in the same unit."""

    value: float
    standard_error: float

    @property
    def relative_error(self) -> float:
        """One where there is no value to compare with."""
        return min(1.0, self.standard_error / self.value) if self.value > 0.0 else 1.0


@dataclass(frozen=True)
class NotMeasured:
    """Why the data give no figure."""

    reason: str


@dataclass(frozen=True)
class CostFit:
    """CPU of a batch = `batch_cpu_s` + `cost_us` x rows / 1e6."""

    batch_cpu_s: Measured
    cost_us: Measured
    batches: int
    """Batches the fit is made of, warm-up left out."""
    below_noise: bool = False
    """No growth with the rows could be told from noise: `cost_us` is then its standard error, a bound."""

    def cpu_s(self, rows: float) -> float:
        return self.batch_cpu_s.value + self.cost_us.value * rows / 1e6


def fit_cost(samples: Sequence[BatchSample], least_batches: int = LEAST_BATCHES) -> CostFit | NotMeasured:
    """Fixed and per-row CPU of micro-batches, warm ones only (see `warm`). Fewer than usual will do where
    several such fits are held against each other (see `middle_of`).

    >>> fit = fit_cost([BatchSample(rows, 0.2 + 5e-6 * rows) for rows in (1e3, 5e4) * 6])
    >>> round(fit.batch_cpu_s.value, 6), round(fit.cost_us.value, 6)
    (0.2, 5.0)
    >>> fit_cost([BatchSample(1000, 0.2)] * 9).reason
    'all 9 batches have between 1000 and 1000 rows, too narrow a range to fit a fixed cost'
    """
    rows = np.array([sample.rows_in for sample in samples], dtype=float)
    cpu_s = np.array([sample.cpu_s for sample in samples], dtype=float)
    usable = np.isfinite(rows) & np.isfinite(cpu_s) & (rows >= 0.0) & (cpu_s >= 0.0)
    rows, cpu_s = rows[usable], cpu_s[usable]
    if (reason := _unfit(rows, least_batches)) is not None:
        return NotMeasured(reason)
    slope = _slope(rows, cpu_s)
    height = float(np.median(cpu_s - slope * rows))
    count = rows.size
    left = cpu_s - height - slope * rows
    sigma = _SIGMA_PER_MAD * float(np.median(np.abs(left))) * float(np.sqrt(count / (count - 2)))
    spread = float(np.sum((rows - rows.mean()) ** 2))
    slope_error = sigma / float(np.sqrt(spread))
    height_error = sigma * float(np.sqrt(1 / count + rows.mean() ** 2 / spread))
    below_noise = slope <= 0.0
    if below_noise:
        slope, height = slope_error, max(0.0, float(np.median(cpu_s)) - slope_error * float(np.median(rows)))
    if height < 0.0:  # the line crosses zero within its error; what is fixed is not less than nothing
        height = 0.0
    return CostFit(
        Measured(height, height_error), Measured(1e6 * slope, 1e6 * slope_error), count, below_noise
    )


def warm(samples: Sequence[BatchSample]) -> list[BatchSample]:
    """The samples without the first ones, as long as those cost clearly more than the later half would say.

    A Java process compiles what it runs often; its first batches cost several times what later ones do.
    """
    later = fit_cost(samples[len(samples) // 2 :])
    if isinstance(later, NotMeasured):
        return list(samples)
    tail = samples[len(samples) // 2 :]
    left = np.array([abs(sample.cpu_s - later.cpu_s(sample.rows_in)) for sample in tail])
    bound = 3.0 * _SIGMA_PER_MAD * float(np.median(left))
    for first, sample in enumerate(samples):
        if sample.cpu_s <= later.cpu_s(sample.rows_in) + bound:
            return list(samples[first:])
    return list(tail)


def ratio(tops: Sequence[float], bottoms: Sequence[float]) -> Measured | NotMeasured:
    """Total over total (rows out per row in, bytes per row), with the error that the batches' spread admits.

    A window holds rows back for some batches, so batch-wise ratios mean nothing; totals over many do.
    """
    top, bottom = np.array(tops, dtype=float), np.array(bottoms, dtype=float)
    total = float(bottom.sum())
    if total <= 0.0:
        return NotMeasured("no rows were measured, so costs per row are undefined")
    value = float(top.sum()) / total
    if top.size < 2:
        return Measured(value, value)
    spread = float(np.sum((top - value * bottom) ** 2))
    error = np.sqrt(spread / (top.size * (top.size - 1))) / float(bottom.mean())
    return Measured(value, float(error))


def middle_of(found: Sequence[Measured]) -> Measured:
    """Of measurements taken at different times: their mean without the largest and the smallest, its error
    from how far they differ. Of fewer than five: the median, and the error they state if that is more.

    What disturbs a measurement (a neighbour on the machine, for a minute) only ever adds, so the largest is
    the one to distrust; the rest disturbs operation just so, whose loads are means.

    >>> middle_of([Measured(value, 0.1) for value in (2.0, 2.2, 4.0)]).value
    2.2
    >>> round(middle_of([Measured(value, 0.1) for value in (2.0, 2.2, 2.4, 2.6, 9.0)]).value, 6)
    2.4
    """
    values = np.array([one.value for one in found])
    stated = float(np.sqrt(sum(one.standard_error**2 for one in found))) / values.size
    seen = float(values.std(ddof=1)) / float(np.sqrt(values.size)) if values.size > 1 else 0.0
    if values.size < _LEAST_TRIMMED:
        return Measured(float(np.median(values)), max(stated, seen))
    return Measured(float(np.sort(values)[1:-1].mean()), seen)


def _unfit(rows: Floats, least_batches: int) -> str | None:
    if rows.size < least_batches:
        return f"found {rows.size} usable batches, expected at least {least_batches}"
    least, most = float(rows.min()), float(rows.max())
    if most < LEAST_SPREAD * least or most == least:
        return (
            f"all {rows.size} batches have between {least:.0f} and {most:.0f} rows, too narrow a range "
            "to fit a fixed cost"
        )
    return None


def _slope(rows: Floats, cpu_s: Floats) -> float:
    """Median slope of all pairs, weighted by the difference of their sizes."""
    if rows.size > _MOST_PAIRED:
        chosen = np.linspace(0, rows.size - 1, _MOST_PAIRED).astype(int)
        rows, cpu_s = rows[chosen], cpu_s[chosen]
    i, j = np.triu_indices(rows.size, k=1)
    apart = rows[j] - rows[i]
    differ = apart != 0.0
    slopes = (cpu_s[j] - cpu_s[i])[differ] / apart[differ]
    return _weighted_median(slopes, np.abs(apart[differ]))


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order[int(np.searchsorted(reached, reached[-1] / 2))]])
