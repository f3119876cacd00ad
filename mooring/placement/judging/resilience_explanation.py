"""Why a placement is as good as it is: the bottleneck, what presses on it, and a change that would help."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
import numpy as np

from mooring.arrays import Floats
from mooring.load.build import build_load_model
from mooring.load.feasible.directions import Directions
from mooring.load.feasible.feasible_set import FeasibleSet
from mooring.load.feasible.true_feasible_set import loading_streams
from mooring.load.model import LoadModel
from mooring.placement.checker import violations
from mooring.placement.placement import Placement
from mooring.problem.problem import Problem

SEARCH_POINTS = 2**10
"""Directions while candidates are compared; the winner is checked again with more."""
MOST_CANDIDATES = 300
MOST_WORK = 3_000_000
"""Candidates times fragments: measuring one takes time in proportion to the fragments."""
WORTHWHILE = 1e-3
"""Relative gain below which a change is not worth a sentence."""


class Suggestion(Protocol):
    """A change to the placement or the sites; `gain` is the relative growth of the feasible set."""

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

    def apply(self, placement: Placement) -> Placement:
        changed = placement.site_of_fragment.copy()
        for fragment, site in self.sites:
            changed[fragment] = site
        return Placement(placement.problem, changed)

    def sentence(self, problem: Problem) -> str:
        steps = " and ".join(f"{problem.fragment_names[f]} to {problem.sites[s].name}" for f, s in self.sites)
        return f"Moving {steps} would enlarge the feasible set by {self.gain:.1%}."


@dataclass(frozen=True)
class MoreCapacity:
    site: int
    cores: float
    gain: float

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
            f"No single move or swap helps; {self.cores:.2g} more cores at {name} would enlarge "
            f"the feasible set by {self.gain:.1%}."
        )


@dataclass(frozen=True)
class Explanation:
    bottleneck: int
    """The site that saturates first in the largest share of rate directions."""
    bottleneck_share: float
    pressing: tuple[tuple[str, float], ...]
    """Variables with their weight on the bottleneck, heaviest first; a weight of 1 is its fair share."""
    suggestion: Suggestion | None
    sentences: tuple[str, ...]


def explain(model: LoadModel, placement: Placement, metrics: dict[str, object], seed: int = 0) -> Explanation:
    problem = placement.problem
    feasible_set = FeasibleSet.of(model, placement.site_of_fragment)
    shares = feasible_set.binding_shares(SEARCH_POINTS, seed)
    bottleneck = int(np.argmax(shares))
    order = np.argsort(-feasible_set.weights[bottleneck], kind="stable")[:3]
    pressing = tuple(
        (feasible_set.variables[k], float(feasible_set.weights[bottleneck, k]))
        for k in order
        if feasible_set.weights[bottleneck, k] > 0.0
    )
    suggestion = suggest(model, placement, bottleneck, seed)
    sentences = _sentences(model, problem, metrics, bottleneck, float(shares[bottleneck]), pressing)
    if suggestion is not None:
        sentences.append(suggestion.sentence(problem))
    return Explanation(bottleneck, float(shares[bottleneck]), pressing, suggestion, tuple(sentences))


def feasible_volume(model: LoadModel, placement: Placement, directions: Directions) -> float:
    """The feasible set's size up to a factor that placement and capacity do not change."""
    ratio = FeasibleSet.of(model, placement.site_of_fragment).ratio(directions=directions).value
    left = model.capacity_left_cores - float(model.totals @ model.lower)
    return ratio * max(left, 0.0) ** len(model.active)


def suggest(model: LoadModel, placement: Placement, bottleneck: int, seed: int = 0) -> Suggestion | None:
    """The move or swap off the bottleneck that helps most; where none does, more capacity there."""
    if len(model.active) == 0:
        return None
    directions = Directions.draw(len(model.active), SEARCH_POINTS, seed)
    before = feasible_volume(model, placement, directions)
    best: tuple[float, tuple[tuple[int, int], ...]] | None = None
    for sites in _candidates(model, placement, bottleneck):
        candidate = Relocation(sites, 0.0).apply(placement)
        if violations(placement.problem, model, candidate):
            continue
        after = feasible_volume(model, candidate, directions)
        if best is None or after > best[0]:
            best = (after, sites)
    if best is not None and best[0] > before * (1 + WORTHWHILE):
        gain = _checked_gain(model, placement, Relocation(best[1], 0.0).apply(placement), seed)
        if gain > WORTHWHILE:
            return Relocation(best[1], gain)
    return _more_capacity(model, placement, bottleneck, seed)


def _checked_gain(model: LoadModel, before: Placement, after: Placement, seed: int) -> float:
    """Relative growth of the feasible set, with finer directions than the search used."""
    changed = model if after.problem is before.problem else build_load_model(after.problem)
    directions = Directions.draw(len(model.active), 8 * SEARCH_POINTS, seed)
    old = feasible_volume(model, before, directions)
    new = feasible_volume(changed, after, directions)
    return math.inf if old == 0.0 and new > 0.0 else 0.0 if old == 0.0 else new / old - 1.0


def _candidates(model: LoadModel, placement: Placement, bottleneck: int) -> list[tuple[tuple[int, int], ...]]:
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
    return moves[: max(20, min(MOST_CANDIDATES, MOST_WORK // model.fragment_count))]


def _fragment_weights(model: LoadModel) -> Floats:
    """Each fragment's part of all variables together, so that no unit of rate matters."""
    totals = np.where(model.totals > 0.0, model.totals, 1.0)
    return np.asarray(model.coefficients @ (1.0 / totals)).ravel()


def _more_capacity(model: LoadModel, placement: Placement, site: int, seed: int) -> Suggestion | None:
    cores = 0.1 * float(model.capacity_cores[site])
    gain = _checked_gain(model, placement, MoreCapacity(site, cores, 0.0).apply(placement), seed)
    return MoreCapacity(site, cores, gain) if gain > WORTHWHILE else None


def _sentences(
    model: LoadModel,
    problem: Problem,
    metrics: dict[str, object],
    bottleneck: int,
    share: float,
    pressing: tuple[tuple[str, float], ...],
) -> list[str]:
    name = problem.sites[bottleneck].name
    result = [
        f"The placement survives {metrics['feasible_ratio']:.1%} of the rate combinations "
        "that all sites together could carry if load could be cut at will."
    ]
    pressed = " and ".join(f"{variable} (weight {weight:.2f})" for variable, weight in pressing)
    result.append(
        f"Site {name} is the bottleneck: it saturates first in {share:.0%} of rate directions"
        + (f", pressed by {pressed}; a weight of 1 would be its fair share." if pressed else ".")
    )
    room = metrics["headroom"]
    assert isinstance(room, dict)
    if room["factor"] is not None:
        verb = "can grow" if room["factor"] >= 1.0 else "are too high and must shrink"
        result.append(
            f"All rates together {verb} to {room['factor']:.2f} times the present; "
            f"then {room['site']} is full."
        )
    loading = set(loading_streams(model).tolist())
    idle = [stream.name for k, stream in enumerate(problem.streams) if k not in loading]
    if idle:
        result.append(f"Left out of the feasible set, since they load nothing: {', '.join(idle[:8])}.")
    return result
