"""Which sites an operator may use: its own alone, as in Flux, or fixed sets that overlap (section 5.1)."""

from __future__ import annotations

import numpy as np

from mooring.arrays import Bools
from mooring.chunks.model import ChunkProblem
from mooring.errors import InfeasibleError


def dedicated_sets(problem: ChunkProblem) -> Bools:
    """Every site serves one operator. All operators are taken to be alike, as before anything is known: the
    fastest sites are dealt out one by one, each to the operator that has least.
    """
    _check(problem, "a site of its own")
    allowed = np.zeros((len(problem.operators), len(problem.sites)), dtype=np.bool_)
    has = np.zeros(len(problem.operators))
    for site in _fastest_first(problem):
        operator = int(np.argmin(has))
        allowed[operator, site] = True
        has[operator] += problem.sites[site].cycles_per_s_left(0.0)
    return allowed


def shared_sets(problem: ChunkProblem) -> Bools:
    """The fastest sites are dealt out, one to each operator; every other one serves two operators, which are
    neighbours in the order of the operators. With three fast and three slow sites and three operators, each
    has one fast and two slow ones, as in the paper.
    """
    _check(problem, "a fast site of its own")
    operators = len(problem.operators)
    allowed = np.zeros((operators, len(problem.sites)), dtype=np.bool_)
    for place, site in enumerate(_fastest_first(problem)):
        allowed[place % operators, site] = True
        if place >= operators:
            allowed[(place + 1) % operators, site] = True
    return allowed


def _fastest_first(problem: ChunkProblem) -> list[int]:
    speeds = [site.cycles_per_s_left(0.0) for site in problem.sites]
    return sorted(range(len(speeds)), key=lambda site: (-speeds[site], site))


def _check(problem: ChunkProblem, wanted: str) -> None:
    if len(problem.sites) < len(problem.operators):
        raise InfeasibleError(
            f"found {len(problem.sites)} sites for {len(problem.operators)} operators, "
            f"expected {wanted} for each",
            remedy="add sites, or let all operators use all sites",
        )
