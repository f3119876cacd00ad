"""One set of metrics for every placement of every policy."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType, structs

from mooring.arrays import Floats
from mooring.errors import InfeasibleError, UnsupportedError
from mooring.model.evaluation.bounded_rates import log_ratio_below, ratio_below, upper_bounds
from mooring.model.load.feasible.directions import MANY_VARIABLES
from mooring.model.load.feasible.estimate import Estimate
from mooring.model.load.feasible.feasible_set import DEFAULT_POINTS, FeasibleSet
from mooring.model.load.feasible.headroom import Growth, headroom
from mooring.model.load.feasible.log_volume import MOST_VISITS, WALKS, LogEstimate
from mooring.model.load.feasible.sparse_feasible_set import (
    SomeFeasibleSet,
    SparseFeasibleSet,
    feasible_set_of,
)
from mooring.model.load.feasible.true_feasible_set import loading_axes, true_ratio
from mooring.model.load.micro_batches import micro_batches
from mooring.model.load.model import LoadModel
from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.placement.network_metrics import network_metrics
from mooring.model.placement.placement import Placement
from mooring.notebook import Cell, bars, data_frame, html_table, save_json

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class QueuedMetrics(msgspec.Struct, frozen=True):
    latency_queued_ms: dict[str, float | None] | UnsetType = UNSET
    qos_queued_met: float | UnsetType = UNSET


def queued_metrics(model: LoadModel, placement: Placement) -> QueuedMetrics:
    """Mean latency per query at the present rates, with queues or, for a project, with micro-batches, and the
    share of limits that it keeps; null where a site or link on the way is full. Only where the problem states
    what lies between its sites.
    """
    problem = placement.problem
    if not problem.queries or (problem.network.latency_ms is None and len(problem.sites) > 1):
        return QueuedMetrics()
    if (trigger_s := problem.network.trigger_s) > 0.0:
        query_s = micro_batches(problem, model, placement.site_of_fragment, trigger_s).query_s
    else:
        query_s = queued_latencies(problem, placement.site_of_operator.tolist()).query_s
    found = 1000.0 * query_s
    latency_ms = {
        query.name: float(found[q]) if math.isfinite(found[q]) else None
        for q, query in enumerate(problem.queries)
    }
    met = [
        found[q] <= query.max_latency_ms
        for q, query in enumerate(problem.queries)
        if query.max_latency_ms is not None
    ]
    return QueuedMetrics(latency_ms, float(np.mean(met)) if met else UNSET)


EASY_DIMENSIONS = 5
"""Up to here one net of the default size is within a thousandth of the exact volume (docs/decisions/0007)."""
RELATIVE_ERROR = 0.01
"""Beyond, directions are added until half the 95% interval is this part of the ratio ..."""
MOST_WORK = 2**32
"""... or until directions x sites x variables come to this: a second or two."""
SITES_PER_DRAW = 80
"""Drawing a direction takes as long as measuring it at so many sites."""


class Room(msgspec.Struct, frozen=True):
    factor: float | None
    """By which rates can grow before a site is full; None: without limit."""
    site: str | None
    """That is full then."""


class HeadroomMetric(msgspec.Struct, frozen=True):
    """How far the present rates are from overload, all together and each stream's alone."""

    factor: float | None
    site: str | None
    streams: dict[str, Room]

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def __repr__(self) -> str:
        room = "without limit" if self.factor is None else f"x {self.factor:.2f}, then {self.site} is full"
        return f"HeadroomMetric({room}; {len(self.streams)} streams)"

    def _repr_html_(self) -> str:
        return html_table("By what factor rates can grow, and the site that is full then", self._rows)

    def to_pandas(self) -> pandas.DataFrame:
        return data_frame(self._rows, "rates")

    def save(self, file: str | PathLike[str]) -> Path:
        return save_json(file, self.as_json())

    def figure(self) -> Figure:
        """Rates that can grow without limit have no bar."""
        factors = {
            name: float(row["factor"]) for name, row in self._rows.items() if row["factor"] is not None
        }
        return bars({"rates can grow by": factors})

    @property
    def _rows(self) -> dict[str, dict[str, Cell]]:
        rooms = {"all together": Room(self.factor, self.site), **self.streams}
        return {name: {"factor": room.factor, "site": room.site} for name, room in rooms.items()}


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """What a placement is worth. Readers of `--json` rely on the names and their order.

    `UNSET`: the problem lacks the figures for it. None: it has no finite value.
    """

    feasible_ratio: float | None
    """Of the ideal feasible set. None: too small for a number, see its logarithm."""
    feasible_ratio_error: float | None
    feasible_ratio_log10: float | UnsetType | None = UNSET
    """Over many variables only."""
    feasible_ratio_log10_error: float | UnsetType = UNSET
    true_feasible_ratio: float | UnsetType = UNSET
    """Of the rates that all sites together could carry, where joins bend the load."""
    true_feasible_ratio_error: float | UnsetType = UNSET
    feasible_ratio_below_max: float | UnsetType | None = UNSET
    feasible_ratio_below_max_error: float | UnsetType | None = UNSET
    feasible_ratio_below_max_log10: float | UnsetType | None = UNSET
    feasible_ratio_below_max_log10_error: float | UnsetType = UNSET
    plane_distance: float | None
    axis_distance: dict[str, float | None]
    headroom: HeadroomMetric
    survived_share: float | UnsetType = UNSET
    """Of the rates in the problem's history."""
    bandwidth: float | UnsetType = UNSET
    """Bytes per second between sites."""
    network_usage: float | UnsetType = UNSET
    """Bytes in flight."""
    latency_ms: dict[str, float] | UnsetType = UNSET
    delay_penalty: float | UnsetType = UNSET
    qos_met: float | UnsetType = UNSET
    latency_queued_ms: dict[str, float | None] | UnsetType = UNSET
    qos_queued_met: float | UnsetType = UNSET
    max_utilisation: float

    def __repr__(self) -> str:
        numbers = {name: value for name, value in structs.asdict(self).items() if isinstance(value, float)}
        return f"Metrics({', '.join(f'{name}={value:.3g}' for name, value in numbers.items())})"

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def evaluate_placement(
    model: LoadModel, placement: Placement, *, points: int | None = None, seed: int = 0
) -> Metrics:
    """All metrics that the problem has the figures for."""
    feasible = _feasible_metrics(model, placement, points, seed)
    history = placement.problem.history
    return Metrics(
        **feasible,
        headroom=headroom_metric(model, placement),
        survived_share=UNSET if history is None else survived_share(model, placement, history.rates),
        **structs.asdict(network_metrics(placement)),
        **structs.asdict(queued_metrics(model, placement)),
        max_utilisation=float(np.max(utilisation(model, placement))),
    )


def _feasible_metrics(
    model: LoadModel, placement: Placement, points: int | None, seed: int
) -> dict[str, Any]:
    sites = placement.site_of_fragment
    try:
        feasible_set = feasible_set_of(model, sites)
    except (
        InfeasibleError
    ):  # nothing could carry the fixed load or the minimum rates: an empty set is the verdict
        return {
            "feasible_ratio": 0.0,
            "feasible_ratio_error": 0.0,
            "plane_distance": None,
            "axis_distance": {},
        }
    metrics = _ratios(model, placement, feasible_set, points, seed)
    metrics["plane_distance"] = _finite(feasible_set.plane_distance)
    metrics["axis_distance"] = {
        name: _finite(distance)
        for name, distance in zip(feasible_set.variables, feasible_set.axis_distances, strict=True)
    }
    return metrics


def _ratios(
    model: LoadModel, placement: Placement, feasible_set: SomeFeasibleSet, points: int | None, seed: int
) -> dict[str, Any]:
    """How much of the feasible set there could be is there: linearised, true, and below the maximum rates."""
    sites, upper = placement.site_of_fragment, upper_bounds(placement.problem, model)
    visits = MOST_VISITS if points is None else MOST_VISITS * points // DEFAULT_POINTS
    in_logarithms = len(feasible_set.variables) > MANY_VARIABLES
    if isinstance(feasible_set, SparseFeasibleSet) or in_logarithms:
        metrics = _in_logarithms("feasible_ratio", feasible_set.log_ratio(seed, visits))
    else:
        ratio = _feasible_ratio(feasible_set, points, seed)
        metrics = {"feasible_ratio": ratio.value, "feasible_ratio_error": ratio.standard_error}
    if model.bends:
        metrics |= _true_metrics(model, placement, points, seed)
    if not np.isfinite(upper[model.active]).any():
        return metrics
    if in_logarithms:
        below = log_ratio_below(model, sites, upper, seed, visits)
        return metrics | _in_logarithms("feasible_ratio_below_max", below)
    share = ratio_below(model, sites, upper, points or DEFAULT_POINTS, seed)
    return metrics | {"feasible_ratio_below_max": share}


def _in_logarithms(name: str, ratio: LogEstimate) -> dict[str, Any]:
    """A ratio over many variables: often too small for a number (null), so its logarithm stands beside it."""
    return {
        name: ratio.number,
        f"{name}_error": ratio.number_error,
        f"{name}_log10": _finite(ratio.log10),
        f"{name}_log10_error": ratio.log10_error,
    }


def _feasible_ratio(feasible_set: FeasibleSet, points: int | None, seed: int) -> Estimate:
    sites, variables = feasible_set.weights.shape
    if points is not None:
        return feasible_set.ratio(points=points, seed=seed)
    if variables <= EASY_DIMENSIONS:
        return feasible_set.ratio(seed=seed)
    most_points = MOST_WORK // ((sites + SITES_PER_DRAW) * variables)
    sampled = feasible_set.ratio_within(RELATIVE_ERROR, seed, most_points=most_points)
    if sampled.half_width() <= RELATIVE_ERROR * sampled.value:
        return sampled
    # Few operators per stream: what directions hardly find, a walk does.
    walked = feasible_set.log_ratio(seed)
    if walked.number is None or walked.standard_error * sampled.value >= sampled.standard_error:
        return sampled
    return Estimate(walked.number, walked.number * walked.standard_error, WALKS - 1)


def _true_metrics(model: LoadModel, placement: Placement, points: int | None, seed: int) -> dict[str, Any]:
    """Nothing where the true set is unbounded, since a stream loads only by meeting others, which may be
    silent; nor over many streams, where directions do not find its volume."""
    if len(loading_axes(model)) > MANY_VARIABLES:
        return {}
    try:
        true = true_ratio(model, placement.site_of_fragment, points=points or DEFAULT_POINTS, seed=seed)
    except UnsupportedError:
        return {}
    return {"true_feasible_ratio": true.value, "true_feasible_ratio_error": true.standard_error}


def utilisation(model: LoadModel, placement: Placement) -> Floats:
    """Load over capacity of every site at the present rates."""
    loads = model.site_loads(placement.site_of_fragment, placement.problem.rates)
    return np.asarray(loads / model.capacity_cores)


def survived_share(model: LoadModel, placement: Placement, rates: Floats) -> float:
    """The share of given rate points (samples x streams) at which no site is overloaded."""
    loads = model.site_loads(placement.site_of_fragment, rates)
    return float(np.mean(np.all(loads <= model.capacity_cores * (1 + 1e-12), axis=1)))


def headroom_metric(model: LoadModel, placement: Placement) -> HeadroomMetric:
    """By what factor all rates, and each stream's alone, can grow before which site is full."""
    problem = placement.problem
    room = headroom(model, placement.site_of_fragment, problem.rates)

    def growth(value: Growth) -> Room:
        return Room(_finite(value.factor), None if value.site is None else problem.sites[value.site].name)

    together = growth(room.all)
    each = {s.name: growth(g) for s, g in zip(problem.streams, room.streams, strict=True)}
    return HeadroomMetric(together.factor, together.site, each)


def _finite(value: float) -> float | None:
    """JSON has no infinity: null says that there is no limit."""
    return float(value) if math.isfinite(value) else None
