"""Resilient operator distribution: a large feasible set without ever computing one (ROD paper, section 5).

Fragments are placed greedily, those with the largest (normalised) load coefficients first. A site is in class
I when its hyperplane, the candidate included, stays above the ideal one: taking it costs nothing. Otherwise
the site whose hyperplane stays farthest from the origin is taken, or from the lower bound where minimum rates
are known (section 6.1).

Departures from the paper: Figure 10 ends with `min`, which must be `max`; fragments are sorted by the norm of
their normalised coefficients, so that units do not matter; fixed load uses up capacity as it is placed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from mooring.algorithms.rod import rod_kernels
from mooring.algorithms.rod.clustering import Clustering, cluster, clustered, plane_distance, sweep
from mooring.arrays import Floats, Ints
from mooring.contracts.policy import Context
from mooring.errors import InfeasibleError, InputError
from mooring.model.evaluation.explanation import Subject
from mooring.model.load.limits import require_some_capacity
from mooring.model.load.model import LoadModel
from mooring.model.placement.adjacency import adjacency
from mooring.model.placement.placement import Placement
from mooring.model.placement.site_limits import first_that_fits, no_room
from mooring.model.problem.problem import Problem

ClassOne = Literal["plane_distance", "fewest_crossings", "random"]
Order = Literal["normalised", "coefficients"]

_CLASS_ONE = {
    "plane_distance": rod_kernels.BY_PLANE_DISTANCE,
    "fewest_crossings": rod_kernels.BY_CROSSINGS,
    "random": rod_kernels.AT_RANDOM,
}
_NO_ARCS = rod_kernels.Arcs(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


def rod_assign(
    model: LoadModel,
    class_one: ClassOne = "plane_distance",
    rng: np.random.Generator | None = None,
    problem: Problem | None = None,
    order: Order = "normalised",
) -> Ints:
    """The site of every fragment, from arrays alone. Communication is not looked at (see clustering).

    >>> model = LoadModel.from_coefficients([[14, 0], [6, 0], [0, 9], [0, 7]], capacity_cores=[1, 1])
    >>> rod_assign(model)
    array([0, 1, 1, 0])
    """
    require_some_capacity(model)
    total_left_cores = model.capacity_left_cores
    if class_one == "random" and rng is None:
        raise ValueError("class_one='random' needs a random generator")
    parts = normalised_parts(model)
    matrix = model.coefficients
    indptr = matrix.indptr.astype(np.int64, copy=False)
    indices = matrix.indices.astype(np.int64, copy=False)
    fragments = rod_kernels.Fragments(
        indptr, indices, parts, model.fixed_cores / total_left_cores, model.memory_mb, model.pinned_site
    )
    arcs = rod_kernels.Arcs(*adjacency(model)[:3]) if class_one == "fewest_crossings" else _NO_ARCS
    lower = model.lower * model.totals / total_left_cores
    counts = np.bincount(indices, minlength=len(model.variables))
    draws = np.zeros(0) if class_one != "random" or rng is None else rng.random(model.fragment_count)

    def attempt(by_norm: Ints) -> Ints:
        room, memory_left_mb = model.capacity_cores / total_left_cores, model.memory_limit_mb.copy()
        sites, stuck = rod_kernels.assign(
            by_norm, fragments, room, memory_left_mb, lower, counts, _CLASS_ONE[class_one], draws, arcs
        )
        if stuck >= 0:
            raise no_room(model, stuck, room * total_left_cores, memory_left_mb, problem)
        return np.asarray(sites)

    norms = rod_kernels.row_squares(indptr, parts if order == "normalised" else matrix.data)
    return first_that_fits(model, np.argsort(-norms, kind="stable"), attempt)


def normalised_parts(model: LoadModel) -> Floats:
    """p_jk = l_jk / l_k for every stored coefficient: the part of a variable's load that a fragment makes."""
    totals = np.where(model.totals > 0.0, model.totals, 1.0)
    return np.asarray(model.coefficients.data / totals[model.coefficients.indices])


@dataclass(frozen=True)
class Rod:
    """Policy `rod`."""

    name: ClassVar[str] = "rod"
    as_published: ClassVar[bool] = True
    about: ClassVar[Subject] = "resilience"

    class_one: ClassOne = "plane_distance"
    """Which class I site is taken (section 5.2): the one with the largest candidate plane distance, the one
    with the fewest crossing streams, or any."""
    order: Order = "normalised"
    """By which norm the fragments are sorted (section 5.1): of their normalised coefficients, which does not
    depend on units, or of the coefficients as they are, as Figure 10 has it."""
    clustering: Literal["none", "ratio", "weight", "sweep"] = "sweep"
    """Which fragments are clustered first (section 6.3): none, along the arcs that are costliest to cut, the
    lightest pairs, or the best of both approaches over several thresholds and caps. Where crossing is free
    (`comm_us` 0) there is nothing to cluster, and all are the same."""
    threshold: float = 0.1
    """For ratio and weight: the least clustering ratio that merges; the paper gives none."""
    weight_cap: float = 3.0
    """For ratio and weight: the heaviest cluster, in node shares; between two and four pay off."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold < np.inf:
            raise InputError(f"found {self.threshold}, expected a number of at least 0", field="threshold")
        if not 0.0 < self.weight_cap < np.inf:
            raise InputError(f"found {self.weight_cap}, expected a number above 0", field="weight_cap")

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def place(self, problem: Problem, context: Context) -> Placement:
        model = context.load
        if self.clustering == "none" or model.arcs.comm_us == 0.0:
            return Placement(problem, rod_assign(model, self.class_one, context.rng, problem, self.order))
        if self.clustering == "sweep":
            return Placement(problem, self._best_of_sweep(problem, context))
        cluster_of = cluster(model, Clustering(self.clustering, self.threshold, self.weight_cap))
        return Placement(problem, self._assign_clusters(cluster_of, context))

    def _assign_clusters(self, cluster_of: Ints, context: Context) -> Ints:
        """ROD over clusters instead of fragments (section 6.3)."""
        merged = clustered(context.load, cluster_of)
        return rod_assign(merged, self.class_one, context.rng, order=self.order)[cluster_of]

    def _best_of_sweep(self, problem: Problem, context: Context) -> Ints:
        """The plan with the largest plane distance, the one without clustering included."""
        model = context.load
        best = rod_assign(model, self.class_one, context.rng, problem, self.order)
        farthest = plane_distance(model, best)
        tried: set[bytes] = set()
        ways = list(sweep(model))
        for number, how in enumerate(ways):
            if context.deadline.expired:
                break
            context.progress(number / len(ways), f"clustering by {how.approach}")
            cluster_of = cluster(model, how)
            if cluster_of.tobytes() in tried:
                continue
            tried.add(cluster_of.tobytes())
            try:
                sites = self._assign_clusters(cluster_of, context)
            except InfeasibleError:
                continue  # these clusters are too bulky for the sites; smaller ones may do
            distance = plane_distance(model, sites)
            if distance > farthest:
                best, farthest = sites, distance
        return best
