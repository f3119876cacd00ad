"""The feasible set of a placement over so many sites and variables that only what loads a site is kept.

The same planes as in `feasible_set`, as rows of a sparse matrix; only for more than `MANY_VARIABLES`, so that
no ratio is measured along directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, diags_array

from mooring.arrays import Bools, Floats, Ints
from mooring.errors import InfeasibleError
from mooring.model.load.feasible.directions import MANY_VARIABLES, Directions
from mooring.model.load.feasible.feasible_kernels import largest_sparse_loads
from mooring.model.load.feasible.feasible_set import FEW_POINTS, FeasibleSet, require_capacity
from mooring.model.load.feasible.log_volume import MOST_VISITS, LogEstimate, log_volume
from mooring.model.load.model import LoadModel


@dataclass(frozen=True, eq=False)
class SparseFeasibleSet:
    rows: csr_array
    """(n sites, K variables), w_ik where it is not zero; nothing where a site is overloaded at any rate."""
    lower: Floats
    variables: tuple[str, ...]
    overloaded: Bools

    @classmethod
    def of(cls, model: LoadModel, site_of_fragment: ArrayLike) -> SparseFeasibleSet:
        active, total_left = np.asarray(model.active, dtype=np.intp), require_capacity(model)
        totals = model.totals[active]
        sites = np.asarray(site_of_fragment, dtype=np.int64)
        parts = csr_array(model.sparse_site_coefficients(sites)[:, active] * (1.0 / totals))
        capacity_parts = model.site_capacity_left(sites) / total_left
        has_load = np.asarray(parts.max(axis=1).todense()).ravel() > 0.0
        overloaded = (capacity_parts < 0) | ((capacity_parts == 0) & has_load)
        inverse = np.divide(1.0, capacity_parts, out=np.zeros_like(capacity_parts), where=capacity_parts > 0)
        names = tuple(model.variables[k].name for k in active)
        lower = model.lower[active] * totals / total_left
        if lower.sum() >= 1.0:
            raise InfeasibleError(
                f"the minimum rates need {lower.sum():.6g} of all capacity left, so no placement is feasible",
                remedy="lower min_rate, or add capacity",
            )
        return cls(csr_array(diags_array(inverse) @ parts), lower, names, overloaded)

    @property
    def axis_distances(self) -> Floats:
        most = np.asarray(self.rows.max(axis=0).todense()).ravel()
        if self.overloaded.any():
            return np.zeros(len(most))
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / most)

    @property
    def plane_distance(self) -> float:
        norms = np.sqrt(np.asarray((self.rows * self.rows).sum(axis=1)).ravel())
        with np.errstate(divide="ignore"):
            distances = (1.0 - self.rows @ self.lower) / norms
        return float(np.where(self.overloaded, 0.0, distances).min())

    @property
    def overloaded_at_lower(self) -> Bools:
        return np.asarray(self.overloaded | (self.rows @ self.lower >= 1.0))

    @property
    def is_empty(self) -> bool:
        return bool(self.overloaded_at_lower.any())

    def weights_of(self, site: int) -> Floats:
        """The row of one site, infinite where it is overloaded at any rate."""
        row = np.asarray(self.rows[[site]].toarray())[0]
        return np.full_like(row, np.inf) if self.overloaded[site] else row

    def rows_above_lower(self) -> csr_array:
        room = 1.0 - self.rows @ self.lower
        return csr_array(diags_array((1.0 - self.lower.sum()) / room) @ self.rows)

    def log_ratio(self, seed: int = 0, visits: int = MOST_VISITS) -> LogEstimate:
        if self.is_empty:
            return LogEstimate(-np.inf)
        return log_volume(self.rows_above_lower(), seed, visits)

    def mean_reach(self, directions: Directions) -> float:
        if self.is_empty:
            return 0.0
        most, _ = self._largest(directions)
        return float(np.mean(1.0 / np.maximum(most, 1.0)))

    def comparable_ratio(self, seed: int = 0) -> float:
        """As of dense sets over many variables."""
        if self.is_empty:
            return 0.0
        most, _ = self._largest(Directions.draw(len(self.variables), FEW_POINTS, seed))
        return float(np.mean((1.0 / np.maximum(most, 1.0)) ** float(MANY_VARIABLES)))

    def binding_shares(self, points: int, seed: int = 0) -> Floats:
        if self.is_empty:
            return np.asarray(self.overloaded_at_lower / self.overloaded_at_lower.sum())
        _, first = self._largest(Directions.draw(len(self.variables), points, seed))
        return np.asarray(np.bincount(first, minlength=self.rows.shape[0]) / points)

    def _largest(self, directions: Directions) -> tuple[Floats, Ints]:
        rows = self.rows_above_lower()
        return largest_sparse_loads(
            rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data, directions.values
        )


SomeFeasibleSet = FeasibleSet | SparseFeasibleSet


def feasible_set_of(model: LoadModel, site_of_fragment: ArrayLike) -> SomeFeasibleSet:
    """Sparse where there are many variables and far more cells than loads."""
    if model.is_wide and len(model.active) > MANY_VARIABLES:
        return SparseFeasibleSet.of(model, site_of_fragment)
    return FeasibleSet.of(model, site_of_fragment)
