"""Moves worth making at the rates measured now, and none while there is room enough.

A plan holds for many rate combinations, so nothing is proposed as long as the present ones are well inside
its feasible set: `enough` headroom. Below that, the move away from the fullest site that leaves most room at
both its ends is proposed, then the next, until there is enough everywhere; a move that gains less than
`least_gain` is not worth its pause. Where a single move does not make room enough, two fragments may change
places, or one may leave a third site so that another fits there; where nothing helps the fullest site, the
next one is looked at. Among moves that gain nearly the same, the one with the least state goes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar

import numpy as np

from mooring.algorithms.headroom.advice import what_else
from mooring.algorithms.headroom.chains import best_chain
from mooring.algorithms.headroom.swaps import best_swap, growth_factor, site_factors
from mooring.arrays import Floats, Ints
from mooring.contracts.decider import DeciderWish, Prediction, Proposal, ProposedMove
from mooring.contracts.picture import ROOM, Picture
from mooring.errors import InputError
from mooring.model.deployment.moves import Move
from mooring.model.load.feasible.headroom import growth_of_all
from mooring.model.problem.problem import Problem
from mooring.quantity import factor_words

_ALIKE = 0.98
_SHORTLIST = 16
"""Moves whose headroom is worked out exactly, where loads are not linear in what moves."""
_MOST_SITES = 20
"""Short of room that are looked at, the fullest first."""


@dataclass(frozen=True)
class HeadroomOptions:
    enough: float = ROOM
    """Headroom (the factor by which all rates could still grow) above which nothing is proposed."""
    least_gain: float = 1.05
    """Headroom of both sites after a move over that of the fuller one before it."""
    max_moves: int = 3
    """In one proposal; where there are many sites, one for every ten of them."""

    def __post_init__(self) -> None:
        if not (self.enough >= 1.0 and self.least_gain >= 0.0 and self.max_moves >= 1):
            raise InputError(
                f"found {self}, expected enough >= 1, least_gain >= 0 and max_moves >= 1", field="--adapt-set"
            )


class HeadroomDecider:
    """Proposes moves while the measured rates leave too little room before a site is full."""

    name: ClassVar[str] = "headroom"

    def __init__(self, options: HeadroomOptions | None = None) -> None:
        self._options = options or HeadroomOptions()

    def decide(self, picture: Picture) -> Proposal:
        """Nothing as long as there may be room enough, by how much the rates vary from look to look."""
        may_be = picture.low_headroom(picture.sites)
        if may_be >= self._options.enough:
            now = picture.predict(picture.sites, in_full=True)
            return Proposal(now, (), _enough(now, may_be, self._options))
        return replace(propose(picture, self._options), sure=True)


def relief(picture: Picture) -> Proposal:
    """What mends sites that are too full, for any decider whose own proposals do not."""
    return propose(picture, HeadroomOptions(max_moves=6))


def propose(picture: Picture, options: HeadroomOptions | None = None) -> Proposal:
    """What to move at the picture's rates, given where the fragments are."""
    chosen, sites, problem = options or HeadroomOptions(), picture.sites.copy(), picture.problem
    now = picture.predict(sites, in_full=True)
    moves: list[ProposedMove] = []
    plans: list[int] = []
    most = max(chosen.max_moves, len(problem.sites) // 10)
    while len(moves) < most and (steps := _next_steps(picture, sites, chosen, most - len(moves))):
        for fragment, to in steps:
            name, origin = problem.fragment_names[fragment], problem.sites[sites[fragment]].name
            sites[fragment] = to
            after = picture.predict(sites, in_full=True)
            moves.append(ProposedMove(Move(name, origin, problem.sites[to].name), after))
        plans.append(len(steps))
    kept = _best_end(now, moves, list(accumulate(plans)))
    worth = tuple(moves[:kept])
    plans = [size for size, end in zip(plans, accumulate(plans), strict=True) if end <= kept]
    left = picture.sites.copy()
    rows = {name: f for f, name in enumerate(problem.fragment_names)}
    for each in worth:
        left[rows[each.move.fragment]] = problem.site_index[each.move.to_site]
    reason = _reason(now, worth, chosen) + what_else(picture, left)
    violation = bool(len(picture.too_full(picture.sites)))
    return Proposal(now, worth, reason, plans=tuple(plans), violation=violation)


def _best_end(now: Prediction, moves: Sequence[ProposedMove], ends: Sequence[int]) -> int:
    """How many of the moves leave most headroom, the more the better: sites are compared by their CPU, and
    what a move does to batch times may undo what it gains. None, where all of them leave less than now.
    """
    best = max(ends, key=lambda end: (moves[end - 1].headroom, end), default=0)
    return best if best and moves[best - 1].headroom >= now.headroom else 0


Steps = list[tuple[int, int]]
"""Fragments and the sites they go to, in this order."""


def _next_steps(picture: Picture, sites: Ints, options: HeadroomOptions, allowed: int) -> Steps:
    """One move, or two that belong together, for the fullest site that something can be done for."""
    factors = site_factors(picture, sites)
    short = np.flatnonzero(factors < options.enough)
    for full in short[np.argsort(factors[short], kind="stable")][:_MOST_SITES].tolist():
        if steps := _steps_for(picture, sites, full, float(factors[full]), options, allowed):
            return steps
    return []


def _steps_for(
    picture: Picture, sites: Ints, full: int, factor: float, options: HeadroomOptions, allowed: int
) -> Steps:
    """For one site: a move where that makes room enough, else what makes most of it."""
    wanted, steps = options.least_gain * factor, Steps()
    if (one := _best_move(picture, sites, full, wanted)) is not None:
        best, steps = one[0], [one[1]]
        if best >= options.enough:
            return steps
        wanted = options.least_gain * best
    if allowed < 2:
        return steps
    if (two := best_swap(picture, sites, full, wanted)) is not None:
        best, (leaving, coming) = two
        steps, wanted = [(leaving, int(sites[coming])), (coming, full)], options.least_gain * best
        if best >= options.enough:
            return steps
    if (chain := best_chain(picture, sites, full, wanted)) is not None:
        _, (first, to, second) = chain
        steps = [(first, to), (second, int(sites[first]))]
    return steps


def _enough(now: Prediction, may_be: float, options: HeadroomOptions) -> str:
    if now.headroom >= options.enough:
        return _reason(now, (), options)
    return (
        f"the headroom at the measured rates is {factor_words(now.headroom)}, at {now.bottleneck}; within "
        f"their variation it may be {factor_words(may_be)}, which reaches the threshold x {options.enough:g}"
    )


def _reason(now: Prediction, moves: Sequence[ProposedMove], options: HeadroomOptions) -> str:
    if math.isinf(now.headroom):
        return "the measured rates load no site"
    room = f"the headroom at the measured rates is {factor_words(now.headroom)}"
    if not moves and now.headroom >= options.enough:
        return f"{room}, which reaches the threshold x {options.enough:g}"
    if not moves:
        return f"{room}, at {now.bottleneck}; no move raises it by {options.least_gain - 1:.0%} or more"
    what = ", ".join(f"{each.move.fragment} to {each.move.to_site}" for each in moves[:5])
    more = f" and {len(moves) - 5} more" if len(moves) > 5 else ""
    then = moves[-1].headroom
    gain = f"raises it to {factor_words(then)}"
    if then < 1.005 * now.headroom:
        gain = "leaves it as it is and gives other sites room"
    return f"{room}, at {now.bottleneck}; moving {what}{more} {gain}"


def _best_move(
    picture: Picture, sites: Ints, full: int, wanted: float
) -> tuple[float, tuple[int, int]] | None:
    """The move (fragment, to site) away from a site after which both ends have most room, as much as is
    wanted at least, and how much that is. Of near ties the one with least state goes
    first, then that whose target keeps most room.
    """
    leaving = np.flatnonzero(picture.movable & (sites == full))
    if not len(leaving):
        return None
    after, room_there = _rooms(picture, sites, full, leaving)
    rows, targets = np.nonzero((after >= wanted) & (after > 0.0))
    if not len(rows):
        return None
    found = after[rows, targets]
    if picture.model.definitions or picture.model.arcs.comm_us > 0.0:
        # Loads are not linear in what moves: of the likely ones, what each really does.
        likely = np.argsort(-found, kind="stable")[:_SHORTLIST]
        now = growth_of_all(picture.model, sites, picture.rates).factor
        exact = [_headroom_after(picture, sites, leaving[rows[i]], int(targets[i])) for i in likely]
        kept = [i for i, factor in zip(likely, exact, strict=True) if factor >= now]
        rows, targets, found = rows[kept], targets[kept], found[kept]
        if not len(rows):
            return None
    good = np.flatnonzero(found >= _ALIKE * found.max())
    state = [_state_bytes(picture.problem, int(leaving[rows[i]])) for i in good]
    there = [-float(room_there[rows[i], targets[i]]) for i in good]
    ranked = zip(state, (-found[good]).tolist(), there, rows[good].tolist(), good.tolist(), strict=True)
    best = min(ranked)[-1]
    return float(found[best]), (int(leaving[rows[best]]), int(targets[best]))


def _rooms(picture: Picture, sites: Ints, full: int, leaving: Ints) -> tuple[Floats, Floats]:
    """Fragments that could leave x sites: the factor by which rates can then grow at both ends, -inf where
    it is not allowed; and at the target by itself.
    """
    model, own = picture.model, picture.loads_cores
    growing = np.bincount(sites, own, model.site_count)
    room = model.site_capacity_left(sites)
    memory_mb = np.bincount(sites, model.memory_mb, model.site_count)
    source = growth_factor(room[full] + model.fixed_cores[leaving], growing[full] - own[leaving])
    target = growth_factor(
        room[None, :] - model.fixed_cores[leaving, None], growing[None, :] + own[leaving, None]
    )
    fits = memory_mb[None, :] + model.memory_mb[leaving, None] <= model.memory_limit_mb[None, :]
    allowed = fits & ~picture.lost[None, :]
    allowed[:, full] = False
    return np.where(allowed, np.minimum(source[:, None], target), -np.inf), target


def _headroom_after(picture: Picture, sites: Ints, fragment: int, to: int) -> float:
    moved = sites.copy()
    moved[fragment] = to
    return growth_of_all(picture.model, moved, picture.rates).factor


def _state_bytes(problem: Problem, fragment: int) -> float:
    return sum(problem.operators[j].state_bytes for j in problem.fragments[fragment])


def decider(wish: DeciderWish) -> HeadroomDecider:
    return HeadroomDecider(wish.options)
