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
from mooring.controller.deciding.decider import Observation, Prediction, Proposal, ProposedMove
from mooring.deployment.moves import Move
from mooring.load.build import build_load_model
from mooring.load.feasible.headroom import headroom
from mooring.load.model import LoadModel
from mooring.placement.placement import Placement
from mooring.problem.problem import Problem


@dataclass(frozen=True)
class HeadroomOptions:
    enough: float = 1.25
    """Headroom (the factor by which all rates could still grow) above which nothing is proposed."""
    least_gain: float = 1.1
    """Headroom after a move over headroom before it."""
    max_moves: int = 3


class HeadroomDecider:
    """Proposes moves while the measured rates leave too little room before a site is full."""

    name: ClassVar[str] = "headroom"

    def __init__(self, problem: Problem, options: HeadroomOptions | None = None) -> None:
        self._problem, self._model = problem, build_load_model(problem)
        self._options = options or HeadroomOptions()

    def decide(self, observation: Observation) -> Proposal | None:
        """None unless everything runs and every stream is measured: the headroom of a part tells nothing."""
        problem, rates = self._problem, observation.stream_rates
        whole = set(observation.sites) == set(problem.fragment_names) and not observation.troubles
        if not whole or set(rates) != set(problem.stream_index):
            return None
        sites = Placement.from_fragments(problem, observation.sites).site_of_fragment
        measured = np.array([rates[stream.name] for stream in problem.streams])
        return propose(problem, self._model, sites, measured, self._options)


def propose(
    problem: Problem,
    model: LoadModel,
    site_of_fragment: Ints,
    rates: Floats,
    options: HeadroomOptions | None = None,
) -> Proposal:
    """What to move at these stream rates, given where the fragments are."""
    chosen, sites = options or HeadroomOptions(), np.array(site_of_fragment, dtype=np.int64)
    now = _predicted(problem, model, sites, rates)
    moves: list[ProposedMove] = []
    reached = now.headroom
    while reached < chosen.enough and len(moves) < chosen.max_moves:
        best = _best_move(problem, model, sites, rates)
        if best is None or best[0] < chosen.least_gain * reached or best[0] <= 0.0:
            break
        reached, fragment, to = best
        origin, target = (problem.sites[site].name for site in (int(sites[fragment]), to))
        sites[fragment] = to
        moves.append(
            ProposedMove(
                Move(problem.fragment_names[fragment], origin, target),
                _predicted(problem, model, sites, rates),
            )
        )
    return Proposal(now, tuple(moves), _reason(now, moves, chosen))


def _predicted(problem: Problem, model: LoadModel, sites: Ints, rates: Floats) -> Prediction:
    growth = headroom(model, sites, rates).all
    loads = model.site_loads(sites, rates)
    return Prediction(
        growth.factor,
        None if growth.site is None else problem.sites[growth.site].name,
        {site.name: float(load) for site, load in zip(problem.sites, loads, strict=True)},
    )


def _reason(now: Prediction, moves: Sequence[ProposedMove], options: HeadroomOptions) -> str:
    if math.isinf(now.headroom):
        return "at the measured rates nothing loads any site"
    room = f"the headroom at the measured rates is x {now.headroom:.2f}"
    if now.headroom >= options.enough:
        return f"{room}, which is enough (x {options.enough:g})"
    if not moves:
        return f"{room}, at {now.bottleneck}, and no move would raise it by {options.least_gain - 1:.0%}"
    what = ", ".join(f"{each.move.fragment} to {each.move.to_site}" for each in moves)
    return f"{room}, at {now.bottleneck}; moving {what} makes it x {moves[-1].headroom:.2f}"


_ALIKE = 0.98


def _best_move(
    problem: Problem, model: LoadModel, sites: Ints, rates: Floats
) -> tuple[float, int, int] | None:
    """(headroom, fragment, to site) of the move that raises it most; little state decides near ties."""
    full = headroom(model, sites, rates).all.site
    found: list[tuple[float, float, int, int]] = []
    for fragment in map(int, np.flatnonzero((model.pinned_site < 0) & (sites == full))):
        if not _movable(problem, fragment):
            continue
        for to in range(model.site_count):
            if to != sites[fragment]:
                moved = sites.copy()
                moved[fragment] = to
                factor = headroom(model, moved, rates).all.factor
                found.append((factor, _state_bytes(problem, fragment), fragment, to))
    if not found:
        return None
    most = max(factor for factor, *_ in found)
    factor, _, fragment, to = min(
        (item for item in found if item[0] >= _ALIKE * most), key=lambda item: (item[1], -item[0], item[2:])
    )
    return factor, fragment, to


def _movable(problem: Problem, fragment: int) -> bool:
    return all(problem.operators[j].movable for j in problem.fragments[fragment])


def _state_bytes(problem: Problem, fragment: int) -> float:
    return sum(problem.operators[j].state_bytes for j in problem.fragments[fragment])
