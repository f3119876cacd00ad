"""One operator between sites, in plain arithmetic: where its springs come to rest.

The iteration of figure 7 as `relax_kernels.py` has it, for a site that reconsiders one operator at a time. A
few dozen steps over a few springs need no compiled loop, and the compiler would be most of an agent's memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mooring.algorithms.relaxation.spring_params import SpringParams
from mooring.model.network.coordinate import Coordinate


def rest_position_ms(
    sites: Sequence[Coordinate],
    rates: Sequence[float],
    start_ms: Sequence[float],
    params: SpringParams,
) -> tuple[float, ...]:
    """Of an operator with a spring to each of the sites, of these rates, from a first place on."""
    total = max(sum(rates), 1e-300)
    shares = [rate / total for rate in rates]
    at = list(start_ms)
    for _ in range(params.most_sweeps):
        force = _force(at, sites, shares)
        at = [x + params.damping * pull for x, pull in zip(at, force, strict=True)]
        if math.hypot(*force) < params.threshold_ms:
            break
    return tuple(at)


def _force(at: Sequence[float], sites: Sequence[Coordinate], shares: Sequence[float]) -> list[float]:
    force = [0.0] * len(at)
    for site, share in zip(sites, shares, strict=True):
        apart = [there - here for there, here in zip(site.position_ms, at, strict=True)]
        stretch = 1.0
        if site.height_ms > 0.0:
            # Near the site the direction means nothing: let the height fade out there.
            stretch = 1.0 + site.height_ms / (math.hypot(*apart) + site.height_ms)
        force = [pull + share * stretch * way for pull, way in zip(force, apart, strict=True)]
    return force
