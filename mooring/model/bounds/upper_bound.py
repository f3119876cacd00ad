"""An upper bound of all plans on the feasible ratio, which shows how much could be gained.

Along one direction u, a site that holds some fragments saturates no later than their load says, so any
statement of the kind "some site must hold at least this" bounds how far every plan reaches along u:

- some site holds the largest fragment, and those pinned to a site are all there;
- of the j n + 1 largest fragments some site holds j + 1 (pigeonhole);
- of one variable's load, which comes in indivisible parts, some site gets more than its share by at least
  the least that subsets of those parts can be off (`coarseness`): the bound is below 1 whenever a variable
  with few fragments cannot be balanced. That site is then crowded along all directions (`crowded_site`),
  and so are the j sites with the j largest fragments of a variable.

The mean over directions of the reach so bounded, to the power of the variables, is the `root_bound`. Since
it lets every direction have a plan of its own, `upper_bound` goes on to place the heaviest fragments in all
ways, best first, as far as its allowance of nodes goes; small problems are closed altogether. Communication
and memory are left out, which only raises the bound.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.model.bounds.crowded_site import crowded_bound
from mooring.model.bounds.upper_bound_kernels import best_first
from mooring.model.load.feasible.directions import Directions
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.model import LoadModel

POINTS = 1024
NODES = 20_000
SAMPLING_ERROR = 0.01
"""Relative, on top of the error seen at the plan given: what the directions may differ by between plans."""
MOST_EXACT_PARTS = 16
"""Fragments of one variable up to which all subsets are looked at; with more, some subset is close enough."""
MOST_CELLS = 40_000_000
MOST_LOADS = 4_000_000
"""Fragments x directions that are looked at together."""
MOST_GROUPS = 32
"""Numbers of sites for which the largest fragments of a variable are looked at."""


def upper_bound(model: LoadModel, site_of_fragment: Ints, nodes: int = NODES) -> float:
    """No plan has a larger feasible ratio. Needs a plan, the better the quicker; never below its ratio."""
    feasible = FeasibleSet.of(model, site_of_fragment)
    ratio = feasible.ratio().value
    active = model.active
    if not len(active) or model.capacity_left_cores <= 0.0 or model.site_count == 1:
        return max(ratio, 0.0)
    directions = _directions(len(active))
    least = least_levels(model, directions)
    exponent = len(active)
    bound = float(np.mean(least ** -float(exponent)))
    known = 0.0
    if not feasible.is_empty:
        known = float(
            np.mean(
                np.maximum((feasible.weights_above_lower() @ directions).max(axis=0), 1.0) ** -float(exponent)
            )
        )
    if model.fragment_count * POINTS <= MOST_CELLS and known < bound and exponent <= 64:
        bound = max(known, _branched(model, directions, least, known, nodes))
    # The directions see a plan's ratio with some error, and that of a better plan with much the same one.
    error = 2.0 * abs(ratio - known) + SAMPLING_ERROR * bound
    sampled = max(bound, ratio + bound - known) + error
    return float(max(min(sampled, axis_bound(model)), ratio))


def axis_bound(model: LoadModel) -> float:
    """The bound that the coarseness of single variables gives, exactly."""
    if model.fixed_cores.any():
        return 1.0
    excess = coarseness(model)
    bound = corner_bound(model, excess)
    if model.lower.any():
        return bound
    shares = model.capacity_cores / model.capacity_cores.sum()
    bound = min(bound, crowded_bound(float(excess.max(initial=0.0)), float(shares.min()), len(excess)))
    if np.ptp(shares) == 0.0:
        for sites, held in _largest_together(model).items():
            share = sites / model.site_count
            bound = min(bound, crowded_bound(held / share - 1.0, share, len(excess)))
    return bound


def _largest_together(model: LoadModel) -> dict[int, float]:
    """The part of some variable that so many sites have, whatever the plan: that of as many fragments, the
    largest."""
    columns = model.coefficients.tocsc()[:, model.active]
    sites = np.unique(np.geomspace(1, max(model.site_count - 1, 1), MOST_GROUPS).astype(int))
    most = np.zeros(len(sites))
    for begin, end in pairwise(columns.indptr):
        held = np.cumsum(np.sort(columns.data[begin:end])[::-1])
        most = np.maximum(most, held[np.minimum(sites, len(held)) - 1] / held[-1])
    return dict(zip(sites.tolist(), most.tolist(), strict=True))


def corner_bound(model: LoadModel, excess: Floats) -> float:
    """The ideal set less its corners.

    Some site exceeds its share of variable k by a part e, so beyond 1 / (1 + e) of the ideal set's reach
    along axis k no plan is feasible, whatever the other rates: a corner of (1 - a)^K of the set lies beyond
    a.
    """
    active = model.active
    lower = model.lower[active] * model.totals[active] / model.capacity_left_cores
    reach = (1.0 / (1.0 + excess) - lower) / (1.0 - lower.sum())
    corners = (1.0 - np.clip(reach, 0.0, 1.0)) ** len(active)
    # Corners that begin before the middle may overlap.
    return float(1.0 - (corners.sum() if reach.min() >= 0.5 else corners.max()))


def root_bound(model: LoadModel) -> float:
    """The part of the bound that costs next to nothing."""
    if not len(model.active) or model.capacity_left_cores <= 0.0:
        return 1.0
    least = least_levels(model, _directions(len(model.active)))
    return min(float(np.mean(least ** -float(len(model.active)))), axis_bound(model))


def least_levels(model: LoadModel, directions: Floats) -> Floats:
    """Per direction (variables x directions), the least 1/level that any plan has there."""
    at_a_time = max(MOST_LOADS // model.fragment_count, 1)
    blocks = np.array_split(directions, range(at_a_time, directions.shape[1], at_a_time), axis=1)
    return np.concatenate([_least_levels(model, block) for block in blocks])


def pinned_fragments(model: LoadModel) -> dict[int, Ints]:
    """Site -> those that can be nowhere else; of sites that have any."""
    order = np.argsort(model.pinned_site, kind="stable")
    held = order[model.pinned_site[order] >= 0]
    sites, begin = np.unique(model.pinned_site[held], return_index=True)
    return dict(zip(sites.tolist(), np.split(held, begin[1:]), strict=True)) if len(sites) else {}


def _least_levels(model: LoadModel, directions: Floats) -> Floats:
    loads, base, capacity = _direction_loads(model, directions)
    widest = float(capacity.max())
    result = np.ones(loads.shape[1])
    for i, held in pinned_fragments(model).items():
        room = float(capacity[i] - base[held].sum())
        if room > 0.0:
            result = np.maximum(result, loads[held].sum(axis=0) / room)
    free = np.flatnonzero(model.pinned_site < 0)
    if len(free):
        room_beside = np.maximum(widest - base[free], 1e-300)
        result = np.maximum(result, (loads[free] / room_beside[:, None]).max(axis=0))
        result = np.maximum(result, _pigeonhole(loads[free], model.site_count) / widest)
    if not model.fixed_cores.any():
        result = np.maximum(result, _axis_levels(model, directions))
    return result


def _pigeonhole(loads: Floats, sites: int) -> Floats:
    """Per direction, a load that some site must have: j + 1 fragments of the j n + 1 largest are together."""
    fragments = len(loads)
    best = np.zeros(loads.shape[1])
    most = (fragments - 1) // sites
    if most < 1:
        return best
    largest_first = -np.sort(-loads, axis=0)
    added = np.vstack([np.zeros((1, loads.shape[1])), np.cumsum(largest_first, axis=0)])
    for j in range(1, most + 1):
        best = np.maximum(best, added[j * sites + 1] - added[j * (sites - 1)])
    return best


def _axis_levels(model: LoadModel, directions: Floats) -> Floats:
    active = model.active
    lower = model.lower[active] * model.totals[active] / model.capacity_left_cores
    room = 1.0 - lower.sum()
    excess = 1.0 + coarseness(model)
    # A site with (1 + e) of its share of variable k has that at level zero too.
    beside = np.maximum(1.0 - excess * lower, 1e-300)
    return np.asarray((room * directions * (excess / beside)[:, None]).max(axis=0))


def coarseness(model: LoadModel, most_exact_parts: int = MOST_EXACT_PARTS) -> Floats:
    """Per active variable: by what part of its share some site must exceed it, whatever the plan."""
    columns = model.coefficients.tocsc()[:, model.active]
    shares = model.capacity_cores / model.capacity_cores.sum()
    result = np.zeros(len(model.active))
    for k in range(len(result)):
        parts = columns.data[columns.indptr[k] : columns.indptr[k + 1]]
        parts = np.sort(parts[parts > 0.0] / parts.sum())[::-1]
        result[k] = _excess_by_counting(parts, shares)
        if len(parts) <= most_exact_parts:
            result[k] = max(result[k], _least_excess(parts, shares))
    return result


def _excess_by_counting(parts: Floats, shares: Floats) -> float:
    """By the largest part, and by the pigeonhole."""
    held = max(float(parts[0]), float(_pigeonhole(parts[:, None], len(shares))[0]))
    excess = held / float(shares.max()) - 1.0
    return excess if excess > 1e-12 else 0.0


def _least_excess(parts: Floats, shares: Floats) -> float:
    """The least e such that every site could get a subset between c - e (1 - c) and c (1 + e)."""
    sums = np.zeros(1)
    for part in parts:
        sums = np.concatenate([sums, sums + part])
    sums = np.sort(sums)
    wanted = np.unique(shares)
    above = np.searchsorted(sums, wanted)  # the first subset that is as much or more, if there is one
    more = np.where(above < len(sums), sums[np.minimum(above, len(sums) - 1)] - wanted, np.inf) / wanted
    less = (wanted - sums[np.maximum(above - 1, 0)]) / np.maximum(1.0 - wanted, 1e-300)
    excess = float(np.minimum(more, np.where(above > 0, less, np.inf)).max(initial=0.0))
    return excess if excess > 1e-12 else 0.0


def _branched(model: LoadModel, directions: Floats, least: Floats, known: float, nodes: int) -> float:
    loads, base, capacity = _direction_loads(model, directions)
    rows = np.ascontiguousarray(loads, dtype=np.float32)
    order = np.argsort(-np.linalg.norm(loads, axis=1), kind="stable")
    alike = bool(np.all(capacity == capacity[0]) and np.all(model.pinned_site < 0))
    weights = np.full(loads.shape[1], 1.0 / loads.shape[1], dtype=np.float32)
    return float(
        best_first(
            rows,
            base,
            capacity,
            weights,
            len(model.active),
            least.astype(np.float32),
            order,
            model.pinned_site,
            alike,
            max(nodes, model.site_count + 2),
            known,
        )
    )


def _direction_loads(model: LoadModel, directions: Floats) -> tuple[Floats, Floats, Floats]:
    """Load of every fragment per level along each direction, its load at level zero, and the sites'
    capacity."""
    active, left = model.active, model.capacity_left_cores
    room = 1.0 - float((model.lower[active] * model.totals[active]).sum() / left)
    loads = model.coefficients[:, active] @ (room * directions / model.totals[active][:, None])
    base = (model.coefficients @ model.lower + model.fixed_cores) / left
    return np.asarray(loads), np.asarray(base), np.asarray(model.capacity_cores / left)


@lru_cache(maxsize=4)
def _directions(dimensions: int) -> Floats:
    return Directions.draw(dimensions, POINTS, 0).values
