"""From one placement to another: which fragment moves when, what that does, and how long each stands still.

Moves are carried out one by one, so every placement in between is a real one and has to be allowed. The order
takes, at each step, the move after which the fullest site is least full, so that moves which make room come
before those that need it; where an order runs into a site's memory or fixed load, another is tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mooring.errors import InfeasibleError, InputError
from mooring.model.deployment.move import Move as Move
from mooring.model.deployment.move import apply_moves as apply_moves
from mooring.model.deployment.move import moves_fingerprint as moves_fingerprint
from mooring.model.deployment.move_times import MoveTimes, Pause
from mooring.model.evaluation.metrics import evaluate_placement, utilisation
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.batch_time import growth_by_batch_time
from mooring.model.load.feasible.memory import StateMemory, growth_by_memory
from mooring.model.load.micro_batches import BatchTimes
from mooring.model.load.model import LoadModel
from mooring.model.placement.checker import violations
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem

_POINTS = 2**12
_MOST_TRIES = 2000
"""Placements looked at before giving up on an order; dead ends are rare, so this is far beyond need."""


@dataclass(frozen=True)
class Effect:
    """What a placement is good for; `None` where the problem lacks the figures."""

    feasible_ratio: float | None
    headroom: float | None
    max_utilisation: float


@dataclass(frozen=True)
class PlannedMove:
    move: Move
    state_bytes: float
    pause: Pause
    """Predicted."""
    after: Effect


@dataclass(frozen=True)
class MoveList:
    """Ordered moves from where things are to where they should be."""

    old: FragmentSites
    new: FragmentSites
    steps: tuple[PlannedMove, ...]
    before: Effect

    @property
    def moves(self) -> tuple[Move, ...]:
        return tuple(step.move for step in self.steps)

    @property
    def fingerprint(self) -> str:
        return moves_fingerprint(self.old, self.moves)

    def as_json(self) -> dict[str, object]:
        return {
            "id": self.fingerprint,
            "from": dict(self.old),
            "to": dict(self.new),
            "before": _effect_json(self.before),
            "moves": [
                {
                    "fragment": step.move.fragment,
                    "from": step.move.from_site,
                    "to": step.move.to_site,
                    "state_bytes": step.state_bytes,
                    "pause_s": step.pause.likely_s,
                    "pause_low_s": step.pause.low_s,
                    "pause_high_s": step.pause.high_s,
                    "after": _effect_json(step.after),
                }
                for step in self.steps
            ],
        }


@dataclass(frozen=True)
class Figures:
    """What predictions are made from."""

    times: MoveTimes = field(default_factory=MoveTimes)
    batches: BatchTimes | None = None
    """How long batches take, held against the model; None: not measured."""
    memory: StateMemory | None = None
    """What sites hold, and how much of it is state; None: not measured."""
    quota_cores: Mapping[str, float] = field(default_factory=dict)
    """Site -> what it may use. It may count with less now, since neighbours are busy or it falls behind; that
    makes a move look worse, and forbids none.
    """

    def limits(self, problem: Problem) -> Problem:
        """The problem by which it is judged what is allowed."""
        cores = [max(site.capacity, self.quota_cores.get(site.name, 0.0)) for site in problem.sites]
        return problem.in_circumstances(
            rates=problem.rates, capacity_cores=cores, latency_ms=problem.network.latency_ms
        )


def ordered_moves(
    problem: Problem, old: FragmentSites, new: FragmentSites, figures: Figures | None = None
) -> MoveList:
    """The moves that lead from `old` to `new`, each placement in between allowed.

    >>> problem = Problem.from_dict({
    ...     "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
    ...     "streams": {"x": {"rate": 100}},
    ...     "operators": {"f": {"inputs": ["x"], "cost_us": 50}, "g": {"inputs": ["x"], "cost_us": 70}},
    ... })
    >>> [m.fragment for m in ordered_moves(problem, {"f": "a", "g": "a"}, {"f": "a", "g": "b"}).moves]
    ['g']
    """
    limits = (figures or Figures()).limits(problem)
    model = build_load_model(limits)
    start, goal = Placement.from_fragments(limits, old), Placement.from_fragments(limits, new)
    _refuse_immovable(limits, start, goal)
    wrong = violations(limits, model, goal)
    if wrong:
        raise InfeasibleError(f"the target placement violates the problem: {wrong[0]}")
    moves = [
        Move(problem.fragment_names[f], _site(problem, start, f), _site(problem, goal, f))
        for f in _order(limits, model, start, goal)
    ]
    return described_moves(problem, old, moves, figures)


def described_moves(
    problem: Problem,
    old: FragmentSites,
    moves: Sequence[Move],
    figures: Figures | None = None,
    *,
    within_limits: bool = True,
) -> MoveList:
    """Given moves, in the given order, with what each does; refused as `check_moves` does."""
    model, chosen = build_load_model(problem), figures or Figures()
    check_moves(chosen.limits(problem), old, moves, within_limits=within_limits)
    steps: list[PlannedMove] = []
    for upto, move in enumerate(moves, start=1):
        reached = Placement.from_fragments(problem, apply_moves(old, moves[:upto]))
        fragment, times = problem.fragment_names.index(move.fragment), chosen.times
        steps.append(
            PlannedMove(
                move,
                times.state_of(problem, fragment),
                times.of_fragment(problem, fragment, move.to_site),
                _effect(model, reached, chosen),
            )
        )
    before = _effect(model, Placement.from_fragments(problem, old), chosen)
    return MoveList(old, apply_moves(old, moves), tuple(steps), before)


def check_moves(
    problem: Problem, old: FragmentSites, moves: Sequence[Move], *, within_limits: bool = True
) -> None:
    """Refuse moves that do not fit `old`, move what may not move, or (unless they lead back to where things
    were) overfill a site on the way.
    """
    model = build_load_model(problem)
    at = start = Placement.from_fragments(problem, old)
    allowed = len(violations(problem, model, start))
    for upto, move in enumerate(moves, start=1):
        if move.from_site == move.to_site:
            raise InputError(f"found {move.fragment!r} moved to {move.to_site!r}, where it is already")
        then = Placement.from_fragments(problem, apply_moves(old, moves[:upto]))
        _refuse_immovable(problem, at, then)
        wrong = violations(problem, model, then)
        if within_limits and len(wrong) > (allowed if upto < len(moves) else 0):
            raise InfeasibleError(f"after move {upto} the placement violates the problem: {wrong[0]}")
        at = then


def _refuse_immovable(problem: Problem, start: Placement, goal: Placement) -> None:
    for f in np.flatnonzero(start.site_of_fragment != goal.site_of_fragment).tolist():
        members = [problem.operators[j] for j in problem.fragments[f]]
        name, site = problem.fragment_names[f], _site(problem, goal, f)
        pin = next((o.site for o in members if o.site is not None), None)
        if pin is not None and pin != site:
            raise InfeasibleError(f"the fragment {name!r} is pinned to {pin!r} and cannot move to {site!r}")
        if not all(operator.movable for operator in members):
            raise InfeasibleError(f"the fragment {name!r} is `movable: false` and cannot move to {site!r}")


def _order(problem: Problem, model: LoadModel, start: Placement, goal: Placement) -> list[int]:
    """Depth first, the most relieving move first; the first complete order wins."""
    allowed = len(violations(problem, model, start))
    tries = 0
    dead: set[bytes] = set()

    def ranked(at: Placement) -> list[tuple[float, float, int, Placement]]:
        left = np.flatnonzero(at.site_of_fragment != goal.site_of_fragment).tolist()
        now = utilisation(model, at)
        found = []
        for f in left:
            then = _moved(at, goal, f)
            peak = round(float(np.max(utilisation(model, then))), 9)
            found.append((peak, -round(float(now[at.site_of_fragment[f]]), 9), f, then))
        return sorted(found, key=lambda item: item[:3])

    # Each level: the moves left to try there, and the one taken to reach the level below.
    levels = [iter(ranked(start))]
    path: list[int] = []
    length = int(np.sum(start.site_of_fragment != goal.site_of_fragment))
    while len(path) < length:
        step = next(levels[-1], None)
        if step is None:
            levels.pop()
            if not levels:
                break
            path.pop()
            continue
        _, _, f, then = step
        key = then.site_of_fragment.tobytes()
        tries += 1
        if key in dead or tries > _MOST_TRIES + length * length:
            continue
        dead.add(key)
        if len(violations(problem, model, then)) <= allowed:
            path.append(f)
            levels.append(iter(ranked(then)))
    if len(path) < length:
        raise InfeasibleError(
            f"every order of the {length} moves exceeds the memory or fixed load of a site on the way",
            remedy="move through a site with room, or stop the pipeline and run the plan with --placement",
        )
    return path


def _moved(at: Placement, goal: Placement, fragment: int) -> Placement:
    sites = at.site_of_fragment.copy()
    sites[fragment] = goal.site_of_fragment[fragment]
    return Placement(at.problem, sites)


def _effect(model: LoadModel, placement: Placement, figures: Figures) -> Effect:
    metrics = evaluate_placement(model, placement, points=_POINTS)
    rates, sites = model.present[: model.stream_count], placement.site_of_fragment
    factors = [np.inf if metrics.headroom.factor is None else metrics.headroom.factor]
    if figures.batches is not None:
        factors.append(float(growth_by_batch_time(model, sites, rates, figures.batches).min()))
    if figures.memory is not None:
        factors.append(float(growth_by_memory(model, sites, figures.memory).min()))
    factor = min(factors) if np.isfinite(min(factors)) else None
    return Effect(metrics.feasible_ratio, factor, metrics.max_utilisation)


def _site(problem: Problem, placement: Placement, fragment: int) -> str:
    return str(problem.sites[placement.site_of_fragment[fragment]].name)


def _effect_json(effect: Effect) -> dict[str, object]:
    return {
        "feasible_ratio": effect.feasible_ratio,
        "headroom": effect.headroom,
        "max_utilisation": effect.max_utilisation,
    }
