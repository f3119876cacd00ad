"""Moves worth making at the rates measured now, and none while there is room enough.

A plan holds for many rate combinations, so nothing is proposed as long as the present ones are well inside
its feasible set: `enough` headroom. Below that, the single move that raises the headroom most is proposed,
then the next, until there is enough again; a move that gains less than `least_gain` is not worth its pause.
Among moves that gain nearly the same, the one with the least state goes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.load.feasible.headroom import headroom
from mooring.load.model import Floats, Ints, LoadModel
from mooring.problem.problem import Problem


@dataclass(frozen=True)
class ProposalOptions:
    enough: float = 1.25
    """Headroom (the factor by which all rates could still grow) above which nothing is proposed."""
    least_gain: float = 1.1
    """Headroom after a move over headroom before it."""
    max_moves: int = 3


@dataclass(frozen=True)
class ProposedMove:
    fragment: str
    from_site: str
    to_site: str
    headroom: float
    """After this move and those before it."""


@dataclass(frozen=True)
class Proposal:
    headroom: float
    """As it is now."""
    bottleneck: str | None
    """The site that limits it."""
    moves: tuple[ProposedMove, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "headroom": self.headroom,
            "bottleneck": self.bottleneck,
            "moves": [
                {"fragment": m.fragment, "from": m.from_site, "to": m.to_site, "headroom": m.headroom}
                for m in self.moves
            ],
        }


def propose(
    problem: Problem,
    model: LoadModel,
    site_of_fragment: Ints,
    rates: Floats,
    options: ProposalOptions | None = None,
) -> Proposal:
    """What to move at these stream rates, given where the fragments are."""
    chosen, sites = options or ProposalOptions(), np.array(site_of_fragment, dtype=np.int64)
    now = headroom(model, sites, rates).all
    moves: list[ProposedMove] = []
    reached = now.factor
    while reached < chosen.enough and len(moves) < chosen.max_moves:
        best = _best_move(problem, model, sites, rates)
        if best is None or best[0] < chosen.least_gain * reached or best[0] <= 0.0:
            break
        reached, fragment, to = best
        origin, target = (problem.sites[site].name for site in (int(sites[fragment]), to))
        moves.append(ProposedMove(problem.fragment_names[fragment], origin, target, reached))
        sites[fragment] = to
    site = None if now.site is None else problem.sites[now.site].name
    return Proposal(now.factor, site, tuple(moves))


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
