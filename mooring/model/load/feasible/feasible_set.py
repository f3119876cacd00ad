"""The feasible set of a placement: the rate combinations under which no site is overloaded.

In the paper's normalised space (section 3.3, x_k = l_k r_k / C_T) the ideal set of Theorem 1 is the unit
simplex, and a placement cuts it with one plane W_i . x = 1 per site. What remains, relative to the simplex,
is the feasible ratio, the yardstick every placement is judged by.

It is measured radially. Along a direction u on the simplex the set reaches from the lower bound (section
6.1) to the nearest plane, a fraction 1 / max_i V_i . u of the way to the ideal plane, where V_i is W_i seen
from the lower bound. Integrating that radius exactly leaves ratio = E[(max_i V_i . u)^-K], far smoother
than hit or miss.

Before that the axes are stretched, which changes the ratio by a known factor and makes the set look as much
like a simplex as it can, so that its radius varies little and no few directions decide. Two simplices offer
themselves: the largest inside the set with its corners on the axes (section 4.1), and the smallest around
it. Measured over random placements, a point a third of the way from the outer to the inner did best: at 20
variables and 2^14 points the worst relative standard error fell from .33 with the inner alone, and .70
without stretching, to .07.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from mooring.arrays import Bools, Floats
from mooring.errors import InfeasibleError, InputError
from mooring.model.load.feasible.directions import BLOCKS, MANY_VARIABLES, Directions, check_points
from mooring.model.load.feasible.estimate import Estimate
from mooring.model.load.feasible.feasible_kernels import (
    count_first_to_saturate,
    largest_loads,
    mean_radii_to_the_power,
    smallest_simplex_around,
)
from mooring.model.load.feasible.log_volume import MOST_VISITS, LogEstimate, log_volume
from mooring.model.load.model import LoadModel, ResourceLoad

DEFAULT_POINTS = 2**14
FEW_POINTS = 2**10
"""With many variables, enough to tell plans apart by a power that is not too large."""
LEAST_NETS = 8
SIMPLEX_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class FeasibleSet:
    """A placement's site planes in normalised space; those of named resources follow, site by site.

    `weights[i, k]` is w_ik (Table 1): site i's part of variable k's load over its part of the capacity
    left. The weights of a site that is overloaded at any rate are infinite.
    """

    weights: Floats  # (n sites, K variables)
    lower: Floats  # (K,), B' of section 6.1
    variables: tuple[str, ...]  # (K,), names
    # (n,), sites that fixed load alone overloads, or that have load and no capacity left; none unless given
    overloaded: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64, ndmin=2)
        lower = np.array(self.lower, dtype=np.float64, ndmin=1)
        _check_shapes(weights, lower, self.variables)
        overloaded = np.isinf(weights).any(axis=1)
        if self.overloaded.size:
            overloaded |= self.overloaded
        for name, values in (("weights", weights), ("lower", lower), ("overloaded", overloaded)):
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @classmethod
    def of(cls, model: LoadModel, site_of_fragment: ArrayLike) -> FeasibleSet:
        """The feasible set of a placement; variables that load nothing are left out."""
        total_left = require_capacity(model)
        active = np.asarray(model.active, dtype=np.intp)
        totals = np.asarray(model.totals)[active]
        sites = np.asarray(site_of_fragment, dtype=np.intp)
        parts = np.asarray(model.site_coefficients(sites))[:, active] / totals
        capacity_parts = np.asarray(model.site_capacity_left(sites)) / total_left
        overloaded = (capacity_parts < 0) | ((capacity_parts == 0) & parts.any(axis=1))
        # Idle sites without capacity weigh nothing.
        weights = np.divide(
            parts, capacity_parts[:, None], out=np.zeros_like(parts), where=capacity_parts[:, None] > 0
        )
        weights[overloaded] = np.inf
        for resource in model.resources:  # one more set of planes
            more, full = _resource_planes(model, resource, sites, total_left)
            weights, overloaded = np.vstack([weights, more]), np.concatenate([overloaded, full])
        names = tuple(model.variables[k].name for k in active)
        return cls(weights, model.lower[active] * totals / total_left, names, overloaded)

    def weights_of(self, site: int) -> Floats:
        return np.asarray(self.weights[site])

    @property
    def axis_distances(self) -> Floats:
        """Per variable, where the nearest plane meets its axis: min_i 1 / w_ik (section 4.1), ideally 1."""
        with np.errstate(divide="ignore"):
            distances: Floats = 1.0 / self.weights.max(axis=0)
        return distances

    @property
    def plane_distances(self) -> Floats:
        """Per site, (1 - W_i . B') / ||W_i|| (section 6.1).

        Infinite where nothing is placed, negative where the lower bound overloads the site, zero where
        fixed load does.
        """
        norms = np.linalg.norm(self._finite_weights, axis=1)
        with np.errstate(divide="ignore"):
            distances = (1.0 - self._finite_weights @ self.lower) / norms
        return np.where(self.overloaded, 0.0, distances)

    @property
    def plane_distance(self) -> float:
        """The radius of the largest partial hypersphere around the lower bound in the set (section 4.2)."""
        return float(self.plane_distances.min())

    @property
    def overloaded_at_lower(self) -> Bools:
        """Per site, whether it is overloaded at the lower bound already."""
        return self.overloaded | (self._finite_weights @ self.lower >= 1.0)

    @property
    def is_empty(self) -> bool:
        """Whether some site is overloaded at the lower bound already, which leaves nothing above it."""
        return bool(self.overloaded_at_lower.any())

    def weights_above_lower(self) -> Floats:
        """V_i = W_i (1 - sum B') / (1 - W_i . B'): the planes in units of the ideal set above the bound."""
        if self.is_empty:
            raise InfeasibleError(
                "a site is overloaded at the lower bound, so the set above it is empty",
                remedy="lower min_rate or fixed_cores, or choose another placement",
            )
        room = 1.0 - self.weights @ self.lower
        above: Floats = self.weights * ((1.0 - self.lower.sum()) / room)[:, None]
        return above

    def ratio(
        self, points: int = DEFAULT_POINTS, seed: int = 0, *, directions: Directions | None = None
    ) -> Estimate:
        """The size of the set above the lower bound, relative to the ideal set above it.

        Pass `directions` (then `points` and `seed` are not used) to measure many sets along the same ones.
        """
        if self.is_empty or len(self.variables) < 2:
            return Estimate(self._exact_ratio_below_two())
        return Estimate.of_blocks(self._block_ratios(self._net(points, seed, directions)))

    def ratio_within(
        self, relative_error: float = 0.01, seed: int = 0, *, most_points: int = 2**22
    ) -> Estimate:
        """The ratio, sampled until half its 95% interval is at most `relative_error` of it.

        For many variables with few operators each, whose ratio hangs on few directions. Independent nets
        are added, at least eight; after `most_points` the estimate is returned as it is, with the error it
        has.
        """
        if self.is_empty or len(self.variables) < 2:
            return Estimate(self._exact_ratio_below_two())
        means: list[float] = []
        while True:
            net = Directions.draw(len(self.variables), DEFAULT_POINTS, (seed, len(means)))
            means.append(float(self._block_ratios(net).mean()))
            if len(means) < LEAST_NETS:
                continue
            estimate = Estimate.of_blocks(np.array(means))
            enough = estimate.half_width() <= relative_error * estimate.value
            if enough or (len(means) + 1) * DEFAULT_POINTS > most_points:
                return estimate

    def log_ratio(self, seed: int = 0, visits: int = MOST_VISITS) -> LogEstimate:
        """The ratio's logarithm: with more than `MANY_VARIABLES`, directions do not find the volume."""
        if self.is_empty:
            return LogEstimate(-np.inf)
        # The load of all sites together is the ideal plane, so theirs leave nothing to it to cut.
        return log_volume(self.weights_above_lower(), seed, visits)

    def comparable_ratio(
        self, points: int = DEFAULT_POINTS, seed: int = 0, *, directions: Directions | None = None
    ) -> float:
        """What a search compares plans by: the ratio or, with more than `MANY_VARIABLES`, the mean along the
        directions of the part of the way to the ideal plane, to the power of `MANY_VARIABLES` only.

        A larger power would leave the comparison to the one or two directions that reach farthest.
        """
        if self.is_empty or len(self.variables) <= MANY_VARIABLES:
            return self.ratio(points, seed, directions=directions).value
        net = self._net(min(points, FEW_POINTS), seed, directions)
        return float(np.mean(self._reaches(net) ** float(MANY_VARIABLES)))

    def mean_reach(self, directions: Directions) -> float:
        """The part of the way to the ideal plane that the set goes along a direction, on average."""
        return 0.0 if self.is_empty else float(np.mean(self._reaches(directions)))

    def _reaches(self, directions: Directions) -> Floats:
        return 1.0 / np.maximum(largest_loads(self.weights_above_lower(), directions.values), 1.0)

    def binding_shares(
        self, points: int = DEFAULT_POINTS, seed: int = 0, *, directions: Directions | None = None
    ) -> Floats:
        """Per site, the share of directions (uniform in normalised space) in which it saturates first.

        Where fixed load or the lower bound overloads sites already, these share the whole equally.
        """
        if self.is_empty:
            return np.asarray(self.overloaded_at_lower / self.overloaded_at_lower.sum())
        if not self.variables:
            return np.zeros(len(self.weights))
        net = self._net(points, seed, directions)
        counts = count_first_to_saturate(self.weights_above_lower(), net.values)
        return np.asarray(counts / net.points)

    def _stretched_planes(self) -> tuple[Floats, float]:
        """The site planes and the ideal one after stretching the axes, and by how much they were on average.

        The average is the geometric one; to the power of the variables it is what stretching did to volumes.
        """
        planes = np.vstack([self.weights_above_lower(), np.ones(len(self.variables))])
        nearest = planes.max(axis=0)
        stretch = np.log(nearest)
        if (
            not (planes == nearest).all(axis=1).any()
        ):  # else one plane is nearest throughout: a simplex already
            outer = np.log(smallest_simplex_around(planes, SIMPLEX_ROUNDS))
            stretch = outer + (stretch - outer) / 3
        return planes / np.exp(stretch), float(np.exp(-stretch.mean()))

    def _block_ratios(self, net: Directions) -> Floats:
        planes, scale = self._stretched_planes()
        return np.asarray(mean_radii_to_the_power(planes, net.values, scale, net.dimensions, BLOCKS))

    def _exact_ratio_below_two(self) -> float:
        """The ratio where nothing has to be sampled: an empty set, no variable, or a single one."""
        if self.is_empty:
            return 0.0
        return float(1.0 / self.weights_above_lower().max(initial=1.0))

    @property
    def _finite_weights(self) -> Floats:
        return np.where(self.overloaded[:, None], 0.0, self.weights)

    def _net(self, points: int, seed: int, directions: Directions | None) -> Directions:
        if directions is None:
            return Directions.draw(len(self.variables), points, seed)
        check_points(directions.points)
        if directions.dimensions != len(self.variables):
            raise InputError(
                f"directions in {directions.dimensions} dimensions for {len(self.variables)} variables",
                remedy="draw them with Directions.draw(len(feasible_set.variables), ...)",
            )
        return directions


def _resource_planes(
    model: LoadModel, resource: ResourceLoad, sites: ArrayLike, total_left: float
) -> tuple[Floats, Bools]:
    """Per site, the plane beyond which a resource runs out, and whether none of it is left at any rate."""
    active, at = model.active, np.asarray(sites, dtype=np.int64)
    gather = np.zeros((model.site_count, model.fragment_count))
    gather[at, np.arange(model.fragment_count)] = 1.0
    taken = (gather @ resource.coefficients[:, active].toarray()) * (total_left / model.totals[active])
    left = resource.limit - gather @ resource.fixed
    slack = 1e-9 * np.maximum(resource.limit, 1e-300)
    full = (left < -slack) | ((left <= slack) & taken.any(axis=1))
    planes = np.divide(taken, left[:, None], out=np.zeros_like(taken), where=left[:, None] > slack[:, None])
    planes[full] = np.inf
    return planes, full


def require_capacity(model: LoadModel) -> float:
    """C_T, which has to be more than none."""
    total_left = float(model.capacity_left_cores)
    if total_left <= 0:
        raise InfeasibleError(
            f"the fixed load leaves {total_left:g} cores on all sites together, so no rate is feasible",
            remedy="add capacity, or lower fixed_cores",
        )
    return total_left


def _check_shapes(weights: Floats, lower: Floats, variables: tuple[str, ...]) -> None:
    count = len(variables)
    if weights.ndim != 2 or weights.shape[1] != count or lower.shape != (count,):
        raise InputError(
            f"weights of shape {weights.shape} and lower bounds of shape {lower.shape} for {count} variables",
            remedy="give weights as sites x variables and one lower bound per variable",
        )
    if np.isnan(weights).any() or (weights < 0).any() or not np.isfinite(lower).all() or (lower < 0).any():
        raise InputError("weights and lower bounds must be numbers of at least zero")
    if lower.sum() >= 1.0:
        raise InfeasibleError(
            f"the minimum rates need {lower.sum():.6g} of all capacity left, so no placement is feasible",
            remedy="lower min_rate, or add capacity",
        )
