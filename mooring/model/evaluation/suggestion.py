"""A change to a placement or its sites that would help most, and by how much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import msgspec
import numpy as np
from scipy.sparse import csr_array, diags_array

from mooring.arrays import Bools, Floats, Ints
from mooring.model.load.feasible.directions import MANY_VARIABLES, Directions
from mooring.model.load.feasible.sparse_feasible_set import SparseFeasibleSet, feasible_set_of
from mooring.model.load.model import LoadModel
from mooring.model.placement.checker import violations
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.quantity import decimal

SEARCH_POINTS = 2**10
"""Directions while candidates are compared; the winner is checked again with more."""
FEW_SEARCH_POINTS = 2**8
"""The same over many variables, where a direction takes as long as several."""
MOST_CANDIDATES = 300
MOST_WORK = 3_000_000
"""Candidates times fragments: measuring one takes time in proportion to the fragments."""
MOST_CELLS = 2_000_000_000
"""Candidates times directions, sites and variables, likewise."""
LEAST_CANDIDATES = 20
WORTHWHILE = 1e-3
"""Relative gain below which a change is not worth a sentence."""

Measure = Literal["set", "reach"]
"""What grows: the feasible set or, over many variables, how far mixed rates go on average before a site is
full."""


class Suggestion(Protocol):
    """A change to the placement or the sites; `gain` is the relative growth of what is measured."""

    @property
    def gain(self) -> float: ...

    def apply(self, placement: Placement) -> Placement: ...

    def sentence(self, problem: Problem) -> str: ...


@dataclass(frozen=True)
class Relocation:
    """Fragments that go to other sites: one that moves, or two that change places."""

    sites: tuple[tuple[int, int], ...]
    """(fragment, new site)"""
    gain: float
    measure: Measure = "set"

    def apply(self, placement: Placement) -> Placement:
        changed = placement.site_of_fragment.copy()
        for fragment, site in self.sites:
            changed[fragment] = site
        return Placement(placement.problem, changed)

    def sentence(self, problem: Problem) -> str:
        steps = " and ".join(f"{problem.fragment_names[f]} to {problem.sites[s].name}" for f, s in self.sites)
        return f"Moving {steps} would {_effect(self.gain, self.measure)}."


@dataclass(frozen=True)
class MoreCapacity:
    site: int
    cores: float
    gain: float
    measure: Measure = "set"

    def apply(self, placement: Placement) -> Placement:
        problem = placement.problem
        grown = msgspec.structs.replace(
            problem.sites[self.site], capacity=problem.sites[self.site].capacity + self.cores
        )
        sites = (*problem.sites[: self.site], grown, *problem.sites[self.site + 1 :])
        return Placement(replace(problem, sites=sites), placement.site_of_fragment)

    def sentence(self, problem: Problem) -> str:
        name = problem.sites[self.site].name
        return (
            f"No single move or swap improves the placement; {decimal(self.cores, 2)} more cores at "
            f"{name} would {_effect(self.gain, self.measure)}."
        )


def _effect(gain: float, measure: Measure) -> str:
    if math.isinf(gain):
        return "make some rates feasible (now none are)"
    if measure == "reach":
        return f"let mixed rates grow {gain:.1%} further"
    return f"enlarge the feasible set by {gain:.1%}"


def measure_for(variables: int) -> Measure:
    return "set" if variables <= MANY_VARIABLES else "reach"


def search_points(variables: int) -> int:
    return SEARCH_POINTS if measure_for(variables) == "set" else FEW_SEARCH_POINTS


@dataclass(frozen=True, eq=False)
class Yardstick:
    """What changes are measured by, along the same directions."""

    directions: Directions

    @classmethod
    def draw(cls, model: LoadModel, seed: int, finer: int = 1) -> Yardstick:
        variables = len(model.active)
        return cls(Directions.draw(variables, finer * search_points(variables), seed))

    @property
    def measure(self) -> Measure:
        return measure_for(self.directions.dimensions)

    def log_size(self, model: LoadModel, placement: Placement) -> float:
        """Up to a term that neither placement nor capacity changes; minus infinity where nothing is
        feasible."""
        feasible_set = feasible_set_of(model, placement.site_of_fragment)
        left = model.capacity_left_cores - float(model.totals @ model.lower)
        if feasible_set.is_empty or left <= 0.0:
            return -math.inf
        if isinstance(feasible_set, SparseFeasibleSet) or self.measure == "reach":
            return math.log(feasible_set.mean_reach(self.directions)) + math.log(left)
        ratio = feasible_set.ratio(directions=self.directions).value
        return math.log(ratio) + len(model.active) * math.log(left) if ratio > 0.0 else -math.inf


class ReachOfMoves:
    """How far mixed rates go once some fragments are elsewhere, by the sites that this changes alone."""

    def __init__(self, model: LoadModel, sites: Ints, directions: Directions) -> None:
        self._model, self._sites, self._directions = model, sites, directions.values
        self._left = model.capacity_left_cores - float(model.totals @ model.lower)
        loads, empty = self._rows(sites, np.arange(model.site_count))
        self._loads, self._empty = loads, empty
        """Sites x directions; and which sites the lower bounds overload."""

    def log_size(self, moves: Sequence[tuple[int, int]]) -> float:
        """As `Yardstick.log_size` of the placement with these moves made."""
        after, moved = self._sites.copy(), [fragment for fragment, _ in moves]
        after[moved] = [site for _, site in moves]
        changed = np.unique(np.concatenate([self._sites[moved], after[moved], self._beside(moved, after)]))
        before, full = self._loads[changed], self._empty[changed]
        self._loads[changed], self._empty[changed] = self._rows(after, changed)
        is_empty, most = bool(self._empty.any()), self._loads.max(axis=0)
        self._loads[changed], self._empty[changed] = before, full
        if is_empty or self._left <= 0.0:
            return -math.inf
        return math.log(float(np.mean(1.0 / np.maximum(most, 1.0)))) + math.log(self._left)

    def _beside(self, moved: Sequence[int], after: Ints) -> Ints:
        """Sites that send to the moved or receive from them, where that costs CPU."""
        arcs = self._model.arcs
        if arcs.comm_us <= 0.0 or not len(arcs.source_site):
            return np.empty(0, dtype=np.int64)
        own = np.isin(arcs.source_fragment, moved) | np.isin(arcs.target_fragment, moved)
        ends = np.concatenate([end[own] for end in arcs.ends(after)])
        return np.asarray(ends[ends >= 0])

    def _rows(self, sites: Ints, wanted: Ints) -> tuple[Floats, Bools]:
        """Loads of some sites along the directions, in units of the ideal plane, and which of them are full
        at the lower bounds."""
        model, left = self._model, self._model.capacity_left_cores
        active = model.active
        parts = model.some_site_coefficients(sites, wanted)[:, active] * (1.0 / model.totals[active])
        capacity = model.site_capacity_left(sites)[wanted] / left
        lower = model.lower[active] * model.totals[active] / left
        parts = csr_array(parts)
        has_load = np.diff(parts.indptr) > 0
        overloaded = (capacity < 0) | ((capacity == 0) & has_load)
        rows = diags_array(np.divide(1.0, capacity, out=np.zeros_like(capacity), where=capacity > 0)) @ parts
        room = 1.0 - rows @ lower
        full = np.asarray(overloaded | (room <= 0.0))
        scale = np.where(full, 0.0, (1.0 - lower.sum()) / np.where(full, 1.0, room))
        return np.asarray(diags_array(scale) @ (rows @ self._directions)), full


def suggest(model: LoadModel, placement: Placement, bottleneck: int, seed: int = 0) -> Suggestion | None:
    """The move or swap off the bottleneck that helps most; where none does, more capacity there."""
    if len(model.active) == 0:
        return None
    yardstick = Yardstick.draw(model, seed)
    best: tuple[float, tuple[tuple[int, int], ...]] | None = None
    moves = None
    if yardstick.measure == "reach":
        moves = ReachOfMoves(model, placement.site_of_fragment, yardstick.directions)
    for sites in _candidates(model, placement, bottleneck, yardstick.directions.points):
        candidate = Relocation(sites, 0.0).apply(placement)
        if violations(placement.problem, model, candidate):
            continue
        after = yardstick.log_size(model, candidate) if moves is None else moves.log_size(sites)
        if best is None or after > best[0]:
            best = (after, sites)
    if best is not None and best[0] > yardstick.log_size(model, placement) + math.log1p(WORTHWHILE):
        gain = _checked_gain(model, placement, Relocation(best[1], 0.0).apply(placement), seed)
        if gain > WORTHWHILE:
            return Relocation(best[1], gain, yardstick.measure)
    return _more_capacity(model, placement, bottleneck, seed)


def _checked_gain(model: LoadModel, before: Placement, after: Placement, seed: int) -> float:
    """Relative growth of what is measured, with finer directions than the search used."""
    changed = model
    if after.problem is not before.problem:  # more capacity
        changed = replace(model, capacity_cores=after.problem.capacity_cores)
    finer = 8 if measure_for(len(model.active)) == "set" else 2  # a mean settles sooner than a volume
    yardstick = Yardstick.draw(model, seed, finer)
    old, new = yardstick.log_size(model, before), yardstick.log_size(changed, after)
    if math.isinf(old):
        return 0.0 if math.isinf(new) else math.inf
    return math.expm1(new - old) if new - old < 700.0 else math.inf


def _candidates(
    model: LoadModel, placement: Placement, bottleneck: int, points: int
) -> list[tuple[tuple[int, int], ...]]:
    """Moves of the heaviest free fragments off the bottleneck, and their swaps with those of other sites."""
    weight = _fragment_weights(model)
    sites = placement.site_of_fragment
    free = model.pinned_site < 0
    mine = np.flatnonzero(free & (sites == bottleneck))
    mine = mine[np.argsort(-weight[mine], kind="stable")][:12]
    load = np.bincount(sites, weight, model.site_count) / model.capacity_cores
    others = [int(s) for s in np.argsort(load, kind="stable") if s != bottleneck][:8]
    moves: list[tuple[tuple[int, int], ...]] = [((int(f), s),) for s in others for f in mine]
    for s in others:
        theirs = np.flatnonzero(free & (sites == s))
        theirs = theirs[np.argsort(-weight[theirs], kind="stable")][:6]
        moves += [((int(f), s), (int(g), bottleneck)) for f in mine[:6] for g in theirs]
    cells = points * model.site_count * len(model.active)
    affordable = min(MOST_CANDIDATES, MOST_WORK // model.fragment_count, MOST_CELLS // cells)
    return moves[: max(LEAST_CANDIDATES, affordable)]


def _fragment_weights(model: LoadModel) -> Floats:
    """Each fragment's part of all variables together, so that no unit of rate matters."""
    totals = np.where(model.totals > 0.0, model.totals, 1.0)
    return np.asarray(model.coefficients @ (1.0 / totals)).ravel()


def _more_capacity(model: LoadModel, placement: Placement, site: int, seed: int) -> Suggestion | None:
    cores = 0.1 * float(model.capacity_cores[site])
    gain = _checked_gain(model, placement, MoreCapacity(site, cores, 0.0).apply(placement), seed)
    if gain <= WORTHWHILE:
        return None
    return MoreCapacity(site, cores, gain, measure_for(len(model.active)))
