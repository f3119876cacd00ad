"""A walk over the tree of partial placements, in stretches: it keeps a deadline, says how far it has come,
and gives up early where there is no hope of an end.

How far it has come is guessed from where it stands: if every site that is followed down from a level leads to
an equal share of the tree, and as many of the sites still to be tried are followed as of those that were, the
shares that are done with add up to a part of the whole. On random problems of 2 to 10 sites the nodes so
predicted were half to all of those that the tree turned out to have, and never above 1.6 times as many: the
guess gives too much hope rather than too little.

On larger problems it gives far too much. So there is a second guess, from ways followed at random (Knuth
1975), whose expectation is the tree's size: it exceeds that a hundredfold with a chance of at most 1%.
"""

from __future__ import annotations

import numpy as np

from mooring.algorithms.exact import optimal_kernels
from mooring.algorithms.exact.optimal_kernels import LEVEL, NODES, POOLED, Tree, Walk
from mooring.arrays import Floats, Ints
from mooring.contracts.deadline import NO_DEADLINE, Deadline
from mooring.errors import UnsupportedError
from mooring.progress import Report, silent

STRETCH_NODES = 50_000
"""Between two looks at the deadline: some tenths of a second."""
POOL = 1024
"""Complete placements kept; those given up were worse."""
HOPELESS = 4
"""Node budgets: a tree that would take more, by the guess, is given up."""
BEYOND_REACH = 100
"""Node budgets: a tree that takes more by the second guess is not walked."""
WAYS = 200
"""Of the second guess."""
LEAST_NODES = 4 * STRETCH_NODES
"""Before a guess is made."""


class TreeWalk:
    """One search, from its beginning to its end."""

    def __init__(self, tree: Tree, incumbent: float, tolerance: float) -> None:
        """`incumbent`: a feasible ratio that is known to be within reach."""
        self._tree, self._tolerance = tree, tolerance
        self._walk = _at_the_root(tree, incumbent)
        optimal_kernels.enter(tree, self._walk, 0)

    @property
    def nodes(self) -> int:
        """Partial placements looked at."""
        return int(self._walk.counts[NODES])

    @property
    def share_done(self) -> float:
        """The part of the tree that the walk has dealt with, 0 to 1, by a rough guess."""
        walk, level = self._walk, int(self._walk.counts[LEVEL])
        done, below = 0.0, 1.0
        for at in range(min(level + 1, len(self._tree.order))):
            if not walk.followed[at]:
                break
            to_follow = float(walk.followed[at] * walk.open_sites[at] / walk.tried[at])
            below /= to_follow
            done += below * float(walk.followed[at] - (at < level))
        return done

    def run(
        self,
        node_budget: int,
        deadline: Deadline = NO_DEADLINE,
        progress: Report = silent,
    ) -> None:
        """To the end; `UnsupportedError` where the budget or the time does not suffice."""
        guessed = 0.0
        while not self._go_on(min(self.nodes + STRETCH_NODES, node_budget)):
            if self.nodes >= node_budget:
                raise self._too_large("without completing")
            if deadline.expired:
                raise self._too_large("without completing within the time limit", "allow more time")
            if self.nodes >= LEAST_NODES and not guessed:
                guessed = self.guessed_nodes()
                if guessed > BEYOND_REACH * node_budget:
                    raise self._too_large(
                        f"and the whole tree has about {guessed:.1g}, "
                        f"far more than the node_budget of {node_budget:,}"
                    )
            if self.nodes >= LEAST_NODES and self.share_done * HOPELESS * node_budget < self.nodes:
                far_more = f"{HOPELESS} times the node_budget of {node_budget:,}"
                raise self._too_large(f"and would hardly complete with {far_more}")
            part = max(deadline.share_spent, self.nodes / node_budget, self.share_done)
            progress(part, f"the search tried {self.nodes:,} partial placements")

    @property
    def best(self) -> float:
        """The largest feasible ratio that is known to be within reach."""
        return float(self._walk.best[0])

    def guessed_nodes(self, ways: int = WAYS) -> float:
        """Of the whole tree, as far as it is not worse than what is known by now."""
        draws = np.random.default_rng(0).random((ways, len(self._tree.order)))
        begun = _at_the_root(self._tree, self.best)
        return float(optimal_kernels.guessed_nodes(self._tree, begun, self._tolerance, draws))

    def close_to_best(self) -> list[Ints]:
        """The complete placements within the tolerance of the best."""
        pooled = int(self._walk.counts[POOLED])
        values = self._walk.pool_values[:pooled]
        is_close = values >= values.max(initial=0.0) * (1.0 - self._tolerance)
        return list(self._walk.pool_sites[:pooled][is_close])

    def _go_on(self, most_nodes: int) -> bool:
        return bool(optimal_kernels.search(self._tree, self._walk, self._tolerance, most_nodes))

    def _too_large(self, how_it_went: str, instead: str = "raise node_budget") -> UnsupportedError:
        return UnsupportedError(
            f"the search tried {self.nodes:,} partial placements of {len(self._tree.order)} fragments on "
            f"{len(self._tree.room)} sites {how_it_went}",
            remedy=f"{instead}, or use a heuristic such as rod",
        )


def _at_the_root(tree: Tree, incumbent: float) -> Walk:
    fragments, directions = tree.fragment_load.shape
    sites = len(tree.room)
    levels = fragments + 1
    margin: Floats = np.zeros((levels, sites))
    margin[0] = tree.room
    return Walk(
        load=np.zeros((levels, sites, directions)),
        margin=margin,
        reach=np.ones((levels, directions)),
        room_left=tree.room.copy(),
        memory_left=tree.memory_limit_mb.copy(),
        held=np.zeros(sites, np.int64),
        changed=np.zeros(sites, np.bool_),
        site_of=np.full(fragments, -1, np.int64),
        next_site=np.zeros(levels, np.int64),
        open_sites=np.zeros(levels, np.int64),
        tried=np.zeros(levels, np.int64),
        followed=np.zeros(levels, np.int64),
        pool_sites=np.empty((POOL, fragments), np.int64),
        pool_values=np.zeros(POOL),
        best=np.array([incumbent]),
        counts=np.zeros(3, np.int64),
    )
