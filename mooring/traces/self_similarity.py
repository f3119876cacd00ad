"""Self-similarity of a trace: the Hurst parameter, by aggregated variance.

Averaging m neighbouring bins divides the variance by m when bins are independent (H = .5), and by less when
bursts have no scale of their own: Var ~ m^(2H - 2). H is read off the slope in a log-log plot (Leland,
Taqqu, Willinger and Wilson 1994, section 4).

The estimate is known to fall a little short where the memory is long, because the mean is estimated from
the same series: on exact fractional noise of 65,536 bins with H = .83 it gives .80.
"""

from __future__ import annotations

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.errors import InputError

_FEWEST_BLOCKS = 30
_SCALES = 20


def variance_by_scale(rates: Floats) -> tuple[Ints, Floats]:
    """Block lengths m, evenly spread on a log scale, and the variance of the block means."""
    bins = rates.size
    if bins < 4 * _FEWEST_BLOCKS:
        raise InputError(
            f"found {bins} bins, too few to estimate self-similarity",
            remedy=f"give at least {4 * _FEWEST_BLOCKS}, by a longer trace or shorter bins",
        )
    scales = np.unique(np.rint(np.geomspace(1, bins / _FEWEST_BLOCKS, _SCALES)).astype(np.int64))
    variances = [rates[: bins // m * m].reshape(-1, m).mean(axis=1).var() for m in scales.tolist()]
    return scales, np.array(variances)


def hurst(rates: Floats) -> float:
    """The Hurst parameter of a rate series: .5 without memory, towards 1 with bursts on every scale."""
    scales, variances = variance_by_scale(np.asarray(rates, dtype=np.float64))
    if not (variances > 0).all():
        raise InputError("the rate never changes, so it has no Hurst parameter")
    slope = np.polyfit(np.log(scales), np.log(variances), 1)[0]
    return float(1 + slope / 2)
