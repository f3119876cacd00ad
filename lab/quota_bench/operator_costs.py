"""Costs of the quota bench's operators from the CPU of whole sites, as the paper gathers them (section 7.1).

A site's process tree tells one figure; which of its fragments used it does not show. But looks at several
rates give an equation each: CPU = idle + fixed x micro-batches + sum over fragments of cost x rows. Where the
fragments of one tree are spread over the sites, the rows of a site's fragments move independently, and the
equations have one solution. Big outliers (another process took the machine for a while) are damped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from mooring.errors import EngineError


@dataclass(frozen=True)
class SiteEquation:
    """What one site did during one look."""

    seconds: float
    cpu_s: float
    batches: int
    """Of all its fragments together."""
    rows_in: Mapping[str, int]
    """Per fragment that ran there."""


@dataclass(frozen=True)
class MeasuredCosts:
    idle_cores: float
    """A site that runs queries without input."""
    batch_cpu_s: float
    """Fixed CPU per micro-batch of one fragment."""
    cost_us: Mapping[str, float]
    """Per fragment: CPU per input row."""
    error: float
    """Median over the equations of |fitted - measured| / measured."""


def fit_costs(equations: Sequence[SiteEquation]) -> MeasuredCosts:
    names = sorted({name for equation in equations for name in equation.rows_in})
    unknowns = 2 + len(names)
    if len(equations) < unknowns:
        raise EngineError(
            f"{len(equations)} looks at sites for {unknowns} unknown costs",
            remedy="run more steps of different rates",
        )
    matrix = np.array(
        [[e.seconds, e.batches, *(e.rows_in.get(name, 0) for name in names)] for e in equations], dtype=float
    )
    cpu_s = np.array([equation.cpu_s for equation in equations])
    # Columns differ by orders of magnitude: fit what each contributes, not its coefficient.
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-9)
    # Residuals relative to their equation's CPU, since noise grows with it; small ones are counted in full.
    weight = 1.0 / np.maximum(cpu_s, 0.1 * cpu_s.max())
    fitted = least_squares(
        lambda x: (matrix / scale @ x - cpu_s) * weight,
        x0=np.full(unknowns, cpu_s.max() / unknowns),
        bounds=(0.0, np.inf),
        loss="soft_l1",
        f_scale=0.05,
    ).x
    relative = np.abs(matrix / scale @ fitted - cpu_s) / np.maximum(cpu_s, 1e-9)
    idle, batch, *rest = (fitted / scale).tolist()
    costs = {name: 1e6 * value for name, value in zip(names, rest, strict=True)}
    return MeasuredCosts(idle, batch, costs, float(np.median(relative)))
