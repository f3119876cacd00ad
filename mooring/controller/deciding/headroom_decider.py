"""Moves worth making at the rates measured now, and none while there is room enough.

A plan holds for many rate combinations, so nothing is proposed as long as the present ones are well inside
its feasible set: `enough` headroom. Below that, the single move that raises the headroom most is proposed,
then the next, until there is enough again; a move that gains less than `least_gain` is not worth its pause.
Among moves that gain nearly the same, the one with the least state goes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.controller.deciding.decider import Prediction, Proposal, ProposedMove
from mooring.controller.deciding.picture import ROOM, Picture
from mooring.deployment.moves import Move
from mooring.load.feasible.headroom import growth_of_all
from mooring.problem.problem import Problem

_ALIKE = 0.98
_SHORTLIST = 16
"""Moves whose headroom is worked out exactly, where loads are not linear in what moves."""


@dataclass(frozen=True)
class HeadroomOptions:
    enough: float = ROOM
    """Headroom (the factor by which all rates could still grow) above which nothing is proposed."""
    least_gain: float = 1.1
    """Headroom after a move over headroom before it."""
    max_moves: int = 3


class HeadroomDecider:
    """Proposes moves while the measured rates leave too little room before a site is full."""

    name: ClassVar[str] = "headroom"

    def __init__(self, options: HeadroomOptions | None = None) -> None:
        self._options = options or HeadroomOptions()

    def decide(self, picture: Picture) -> Proposal:
        """Nothing as long as there may be room enough, by how much the rates vary from look to look."""
        if picture.low_headroom(picture.sites) >= self._options.enough:
            now = picture.predict(picture.sites, in_full=True)
            return Proposal(now, (), _reason(now, (), self._options))
        return propose(picture, self._options)


def propose(picture: Picture, options: HeadroomOptions | None = None) -> Proposal:
    """What to move at the picture's rates, given where the fragments are."""
    chosen, sites, problem = options or HeadroomOptions(), picture.sites.copy(), picture.problem
    now = picture.predict(sites, in_full=True)
    moves: list[ProposedMove] = []
    reached = now.headroom
    while reached < chosen.enough and len(moves) < chosen.max_moves:
        best = _best_move(picture, sites)
        if best is None:
            break
        fragment, to = best
        origin, target = (problem.sites[site].name for site in (int(sites[fragment]), to))
        sites[fragment] = to
        after = picture.predict(sites, in_full=True)
        if after.headroom < chosen.least_gain * reached or after.headroom <= 0.0:
            break
        reached = after.headroom
        moves.append(ProposedMove(Move(problem.fragment_names[fragment], origin, target), after))
    return Proposal(now, tuple(moves), _reason(now, moves, chosen))


def _reason(now: Prediction, moves: Sequence[ProposedMove], options: HeadroomOptions) -> str:
    if math.isinf(now.headroom):
        return "at the measured rates nothing loads any site"
    room = f"the headroom at the measured rates is x {now.headroom:.2f}"
    if not moves and now.headroom >= options.enough:
        return f"{room}, which is enough (x {options.enough:g})"
    if not moves:
        return f"{room}, at {now.bottleneck}, and no move would raise it by {options.least_gain - 1:.0%}"
    what = ", ".join(f"{each.move.fragment} to {each.move.to_site}" for each in moves)
    return f"{room}, at {now.bottleneck}; moving {what} makes it x {moves[-1].headroom:.2f}"


def _best_move(picture: Picture, sites: Ints) -> tuple[int, int] | None:
    """(fragment, to site) of the move that raises the headroom most. Of near ties the one with least state
    goes first, then the one whose target keeps the most room.
    """
    full = growth_of_all(picture.model, sites, picture.rates).site
    if full is None:
        return None
    leaving = np.flatnonzero(picture.movable & (sites == full))
    if not len(leaving):
        return None
    after, room_there = _headrooms(picture, sites, full, leaving)
    rows, targets = np.nonzero(after > -np.inf)
    if not len(rows):
        return None
    found = after[rows, targets]
    linear = not picture.model.definitions and picture.model.arcs.comm_us == 0.0
    if not linear:
        likely = np.argsort(-found, kind="stable")[:_SHORTLIST]
        rows, targets = rows[likely], targets[likely]
        found = np.array(
            [
                _headroom_after(picture, sites, leaving[r], t)
                for r, t in zip(rows, targets.tolist(), strict=True)
            ]
        )
    good = np.flatnonzero(found >= _ALIKE * found.max())
    state = [_state_bytes(picture.problem, int(leaving[rows[i]])) for i in good]
    there = [-float(room_there[rows[i], targets[i]]) for i in good]
    ranked = zip(state, (-found[good]).tolist(), there, rows[good].tolist(), good.tolist(), strict=True)
    best = min(ranked)[-1]
    return int(leaving[rows[best]]), int(targets[best])


def _headrooms(picture: Picture, sites: Ints, full: int, leaving: Ints) -> tuple[Floats, Floats]:
    """Fragments that could leave x sites: the headroom after that move alone, exactly where loads are linear
    and crossings free, -inf where it is not allowed; and that of the target by itself.
    """
    model, own = picture.model, picture.loads_cores
    growing = np.bincount(sites, own, model.site_count)
    room = model.site_capacity_left(sites)
    memory_mb = np.bincount(sites, model.memory_mb, model.site_count)
    with np.errstate(divide="ignore", invalid="ignore"):
        here = np.where(room < 0.0, 0.0, np.where(growing > 0.0, room / growing, np.inf))
        left = growing[full] - own[leaving]
        source = np.where(left > 1e-15, (room[full] + model.fixed_cores[leaving]) / left, np.inf)
        target_room = room[None, :] - model.fixed_cores[leaving, None]
        target_load = growing[None, :] + own[leaving, None]
        target = np.where(target_load > 0.0, target_room / target_load, np.inf)
    target = np.where(target_room < 0.0, 0.0, target)
    source = np.where(room[full] + model.fixed_cores[leaving] < 0.0, 0.0, source)
    after = np.minimum(source[:, None], np.minimum(target, _least_of_others(here, full)[None, :]))
    fits = memory_mb[None, :] + model.memory_mb[leaving, None] <= model.memory_limit_mb[None, :]
    allowed = fits & ~picture.lost[None, :]
    allowed[:, full] = False
    return np.where(allowed, after, -np.inf), target


def _least_of_others(values: Floats, full: int) -> Floats:
    """Per site: the least of all sites but that one and the full one."""
    others = values.copy()
    others[full] = np.inf
    if len(others) < 2:
        return np.full_like(others, np.inf)
    order = np.argsort(others, kind="stable")
    least = np.full(len(others), others[order[0]])
    least[order[0]] = others[order[1]]
    return least


def _headroom_after(picture: Picture, sites: Ints, fragment: int, to: int) -> float:
    moved = sites.copy()
    moved[fragment] = to
    return growth_of_all(picture.model, moved, picture.rates).factor


def _state_bytes(problem: Problem, fragment: int) -> float:
    return sum(problem.operators[j].state_bytes for j in problem.fragments[fragment])
