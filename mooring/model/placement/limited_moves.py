"""Limited moves from a running placement: fragments that must stay, and the wanted moves with the largest
gain.

A new plan of any policy may move everything. From the running placement, `limit_moves` takes the wanted move
that helps most, then the next, until the allowance is used up: first what mends a broken rule, then by the
feasible set.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mooring.arrays import Ints
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.model import LoadModel
from mooring.model.placement.checker import violations
from mooring.model.placement.placement import Placement

POINTS = 2**10
MOST_CANDIDATES = 32
"""Moves tried per round, heaviest fragments first."""
MOST_ROUNDS = 100
"""Beyond this many moves, several are taken per round."""


def hold_immovable(model: LoadModel, current: Placement) -> LoadModel:
    """The same model with fragments that may not move once they run (`movable: false`) pinned."""
    problem = current.problem
    immovable = np.array([not all(problem.operators[j].movable for j in f) for f in problem.fragments])
    held = np.where(immovable & (model.pinned_site < 0), current.site_of_fragment, model.pinned_site)
    return replace(model, pinned_site=held)


def limit_moves(model: LoadModel, current: Placement, wanted: Placement, max_moves: int) -> Placement:
    """The wanted placement, or the best part of the way to it that moves at most `max_moves` fragments."""
    sites = current.site_of_fragment.copy()
    remaining = np.flatnonzero(sites != wanted.site_of_fragment)
    if len(remaining) <= max_moves:
        return wanted
    weight = np.asarray(model.coefficients @ (1.0 / np.where(model.totals > 0.0, model.totals, 1.0)))
    remaining = remaining[np.argsort(-weight[remaining], kind="stable")]
    per_round = -(-max_moves // MOST_ROUNDS)
    left = max_moves
    while left > 0:
        scores = [
            _score(model, wanted, _moved(sites, fragment, wanted))
            for fragment in remaining[:MOST_CANDIDATES].tolist()
        ]
        best_first = sorted(range(len(scores)), key=lambda i: scores[i], reverse=True)
        taken = remaining[best_first[: min(per_round, left)]]
        sites[taken] = wanted.site_of_fragment[taken]
        remaining = remaining[~np.isin(remaining, taken)]
        left -= len(taken)
    return Placement(current.problem, sites)


def _moved(sites: Ints, fragment: int, wanted: Placement) -> Ints:
    result = sites.copy()
    result[fragment] = wanted.site_of_fragment[fragment]
    return result


def _score(model: LoadModel, wanted: Placement, sites: Ints) -> tuple[int, float, float]:
    broken = len(violations(wanted.problem, model, Placement(wanted.problem, sites)))
    feasible_set = FeasibleSet.of(model, sites)
    return -broken, feasible_set.comparable_ratio(POINTS), feasible_set.plane_distance
