"""Replans by any policy after a change, and approaches the new plan a few moves at a time.

A policy is asked again when the rates, a capacity, a latency, or what runs differ from what the last plan was
made for by more than they vary anyway: noise alone changes nothing. From where things are, the moves towards
the new plan that leave the fewest tuples under way come first; a move that does not help is left out,
although the plan has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mooring.algorithms.headroom.swaps import site_factors
from mooring.arrays import Bools, Floats, Ints
from mooring.contracts.decider import DeciderWish, Proposal, ProposedMove
from mooring.contracts.picture import ROOM, Picture
from mooring.contracts.policy import Policy, place
from mooring.errors import MooringError
from mooring.model.deployment.moves import Move
from mooring.model.problem.latencies import Coordinates, Latencies, same_latencies

_ROUNDS = 2
UNSURE = 3.0
"""Times the errors of two rates by which they have to differ: dozens of streams are compared at every look,
and one in ten thousand comparisons must not pass by chance."""


@dataclass(frozen=True)
class ReplanOptions:
    seed: int = 0
    changed: float = 0.2
    """A rate that differs by this share from what the last plan was made for counts as changed, unless its
    looks differ as much among themselves; so does a capacity or a latency."""
    max_moves: int = 3
    """In one proposal; where there are many sites, one for every ten of them."""
    most_tried: int = 32
    """Moves looked at in one round, those away from the fullest sites first."""
    saves_bytes: bool = False
    """Whether bytes in flight count as well as tuples under way, each as a share of what there is."""
    plans_first: bool = False
    """Whether to plan at the first look, and not only after a change or where there is too little room."""


@dataclass(frozen=True, eq=False)
class SeenWorld:
    """What a plan depends on, as far as it was observed."""

    rates: Floats
    errors: Floats
    """How far each rate may be off."""
    capacity_cores: Floats
    latency_ms: Latencies
    running: Bools

    @classmethod
    def of(cls, picture: Picture) -> SeenWorld:
        latency_ms = picture.problem.network.latency_ms
        return cls(
            picture.rates.copy(),
            np.zeros_like(picture.rates) if picture.rate_errors is None else picture.rate_errors,
            picture.problem.capacity_cores,
            np.zeros(0) if latency_ms is None else latency_ms,
            picture.running,
        )

    def differs(self, other: SeenWorld, share: float) -> bool:
        """Whether the other is another world and not this one seen again."""
        if not np.array_equal(self.running, other.running):
            return True
        unsure = UNSURE * (self.errors + other.errors)
        if np.any(np.abs(self.rates - other.rates) > np.maximum(share * self.rates, unsure) + 1e-9):
            return True
        if _apart(self.capacity_cores, other.capacity_cores, share):
            return True
        if isinstance(self.latency_ms, Coordinates) or isinstance(other.latency_ms, Coordinates):
            return not same_latencies(self.latency_ms, other.latency_ms)
        return _apart(self.latency_ms, other.latency_ms, share)


def _apart(ours: Floats, theirs: Floats, share: float) -> bool:
    if ours.shape != theirs.shape:  # a site has joined
        return True
    return bool(np.any(np.abs(ours - theirs) > share * np.maximum(ours, theirs)))


class ReplanDecider:
    name: ClassVar[str] = "replan"

    def __init__(self, policy: Policy, options: ReplanOptions | None = None) -> None:
        self._policy, self._options = policy, options or ReplanOptions()
        self._planned_for: SeenWorld | None = None
        self._goal: Ints | None = None
        self._failure = ""

    def decide(self, picture: Picture) -> Proposal:
        world = SeenWorld.of(picture)
        now = picture.predict(picture.sites, in_full=True)
        began, short = self._planned_for is None, picture.low_headroom(picture.sites) < ROOM
        if self._planned_for is None:  # it began with a plan for this, unless there is no room
            self._planned_for = world
        at_first = began and (short or self._options.plans_first)
        if self._planned_for.differs(world, self._options.changed) or at_first:
            self._planned_for, self._goal = world, self._plan(picture)
        if self._goal is None:
            return Proposal(now, (), self._failure or "nothing has changed since the last plan")
        moves = self._moves_to(self._goal, picture)
        if not moves:
            return Proposal(
                now, (), f"no move towards the plan of {self._policy.name} improves the placement"
            )
        what = ", ".join(f"{each.move.fragment} to {each.move.to_site}" for each in moves)
        reason = f"{self._policy.name} replans after a change: {what}"
        return Proposal(now, tuple(moves), reason, sure=True)

    def _plan(self, picture: Picture) -> Ints | None:
        self._failure = ""
        try:
            placement, _ = place(
                self._policy, picture.problem, seed=self._options.seed, current=picture.placement
            )
        except MooringError as failure:
            self._failure = f"{self._policy.name} found no plan: {failure}"
            return None
        return placement.site_of_fragment

    def _moves_to(self, goal: Ints, picture: Picture) -> list[ProposedMove]:
        """In rounds: moves are ranked by what each leads to alone, and made in that order while they help. A
        round may make the room that the next one needs.
        """
        sites, moves, problem = picture.sites.copy(), list[ProposedMove](), picture.problem
        cost = _Cost(picture, self._options.saves_bytes)
        under_way = cost.of(sites)
        left = np.flatnonzero((sites != goal) & picture.movable & ~picture.lost[goal])
        most = max(self._options.max_moves, len(problem.sites) // 10)
        for _ in range(_ROUNDS):
            tried = _fullest_first(picture, sites, left)[: self._options.most_tried].tolist()
            ranked = sorted((_after(cost, sites, f, goal), f) for f in tried)
            helping = [f for least, f in ranked if least < under_way]
            for fragment in helping:
                least = _after(cost, sites, fragment, goal)
                if least >= under_way or len(moves) >= most:
                    continue
                ends = problem.sites[sites[fragment]].name, problem.sites[goal[fragment]].name
                sites[fragment], under_way = goal[fragment], least
                left = left[left != fragment]
                after = picture.predict(sites, in_full=True)
                moves.append(ProposedMove(Move(problem.fragment_names[fragment], *ends), after))
            if not helping or len(moves) >= most:
                break
        return moves


def _fullest_first(picture: Picture, sites: Ints, fragments: Ints) -> Ints:
    """What leaves the fullest sites first, and of one site the largest load."""
    room = site_factors(picture, sites)[sites[fragments]]
    return fragments[np.lexsort((-picture.loads_cores[fragments], room))]


class _Cost:
    """What a placement has under way: tuples, or shares of the tuples and bytes that there are now."""

    def __init__(self, picture: Picture, saves_bytes: bool) -> None:
        self.picture = picture
        self._tuples = max(picture.tuples_under_way(picture.sites), 1e-300)
        self._bytes = picture.bytes_in_flight(picture.sites) if saves_bytes else None

    def of(self, sites: Ints) -> float:
        cost = self.picture.tuples_under_way(sites) / self._tuples
        if self._bytes:
            cost += (self.picture.bytes_in_flight(sites) or 0.0) / self._bytes
        return cost


def _after(cost: _Cost, sites: Ints, fragment: int, goal: Ints) -> float:
    """What is under way once a fragment is where the plan has it; infinite where it does not fit yet."""
    moved = sites.copy()
    moved[fragment] = goal[fragment]
    model, to = cost.picture.model, int(goal[fragment])
    here = moved == to
    if float(model.memory_mb[here].sum()) > model.memory_limit_mb[to]:
        return float("inf")
    return cost.of(moved)


def decider(wish: DeciderWish) -> ReplanDecider:
    return ReplanDecider(wish.policy(), replace(wish.options or ReplanOptions(), seed=wish.seed))
