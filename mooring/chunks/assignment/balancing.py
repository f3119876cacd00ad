"""Balancing chunks over sites by incremental bin packing, in one of three scopes (section 3.1).

Sites are sorted by how long they need for the chunks that they have. The k-th most burdened gives the k-th
least burdened the largest chunk of an operator that lowers the larger burden of the two. Each pair moves at
most one chunk per operator and round. What differs is which chunks count as a site's burden: those of all
operators (Global), of the operator alone (Local), or of all operators of its tier (Tiered), tiers being
counted, and taken in turn, from the outputs.

Departures: burdens are seconds at the speed that a site's external load leaves; a site with several cores is
one bin that is as much faster; equal sites stay in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mooring.arrays import Bools, Floats, Ints
from mooring.chunks.assignment.balancing_kernels import balance_round, balance_until_settled
from mooring.chunks.model import ChunkProblem

MOST_ROUNDS = 1000
"""Far more than a round per chunk and pair would need: every round lowers some burden for good."""


class Scope(StrEnum):
    """Whose chunks burden a site while an operator's are balanced."""

    GLOBAL = "global"
    LOCAL = "local"
    TIERED = "tiered"


@dataclass(frozen=True, eq=False)
class Balancer:
    """Moves chunks between the sites that their operators may use; made once for a problem and a scope."""

    scope: Ints
    """Per operator, a number that it shares with those whose chunks count."""
    turn: Ints
    """The operators in the order in which a round takes them."""
    seconds_per_cycle: Floats
    allowed: Bools
    """Per operator and site."""

    @classmethod
    def of(
        cls, problem: ChunkProblem, scope: Scope, allowed: Bools | None = None, at_s: float = 0.0
    ) -> Balancer:
        """With sites as fast as their external load leaves them at a moment."""
        count = len(problem.operators)
        tiers = np.array(problem.tiers, dtype=np.int64)
        scopes = {
            Scope.GLOBAL: np.zeros(count, dtype=np.int64),
            Scope.LOCAL: np.arange(count),
            Scope.TIERED: tiers,
        }
        turn = np.argsort(tiers, kind="stable") if scope is Scope.TIERED else np.arange(count)
        everywhere = np.ones((count, len(problem.sites)), dtype=np.bool_)
        return cls(
            scopes[scope],
            turn,
            np.array([1 / site.cycles_per_s_left(at_s) for site in problem.sites]),
            everywhere if allowed is None else allowed,
        )

    def round_robin(self, first: Ints) -> Ints:
        """A first assignment: each operator's chunks over its sites in turn."""
        site_of = np.empty(first[-1], dtype=np.int64)
        for operator, own in enumerate(self.allowed):
            chunks = np.arange(first[operator + 1] - first[operator])
            sites = np.flatnonzero(own)
            site_of[first[operator] : first[operator + 1]] = sites[chunks % len(sites)]
        return site_of

    def round(self, cycles: Floats, first: Ints, site_of: Ints) -> int:
        """One round; `site_of` changes in place. Returns how many chunks moved."""
        moves: int = balance_round(
            cycles, first, site_of, self.seconds_per_cycle, self.allowed, self.scope, self.turn
        )
        return moves

    def settle(self, cycles: Floats, first: Ints, site_of: Ints) -> int:
        """Rounds until nothing moves; `site_of` changes in place. Returns how many rounds moved something."""
        rounds: int = balance_until_settled(
            cycles, first, site_of, self.seconds_per_cycle, self.allowed, self.scope, self.turn, MOST_ROUNDS
        )
        return rounds
