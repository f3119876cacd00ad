"""The sites with the fewest bytes in flight for fragments whose links form trees, if sites were not limited.

The cost is then a sum over links, and dynamic programming over the trees is exact in sites^2 per link,
however many trees there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mooring.arrays import Floats, Ints


class Trees(NamedTuple):
    sites: Ints
    """The optimum if sites were not limited."""
    root: Ints
    """Per fragment: the root of its tree."""
    cost: Floats
    """Per root: its tree's least cost."""


class TreeCosts:
    """What it costs to have fragments at sites: each by itself, and two that are linked."""

    def __init__(self, latency_ms: Floats, pinned_site: Ints) -> None:
        self._latency_ms, self._pinned_site = latency_ms, pinned_site
        self.own = np.zeros((len(pinned_site), len(latency_ms)))
        """Per fragment and site; once placed, with the least that what hangs on the fragment adds."""
        self._edges: list[dict[int, list[_Flow]]] = [{} for _ in pinned_site]

    def between(self, source: int, target: int, rate: float, weight: Floats | None = None) -> None:
        """A flow from one free fragment to another, which may weigh less at some of the target's sites."""
        flow = _Flow(rate, weight)
        self._edges[source].setdefault(target, []).append(flow)
        self._edges[target].setdefault(source, []).append(flow.reversed())

    def place(self) -> Trees | None:
        """None where links between free fragments form a cycle. To be called once."""
        count = len(self._pinned_site)
        trees = Trees(self._pinned_site.copy(), np.arange(count), np.zeros(count))
        for root in range(count):
            if trees.sites[root] < 0 and not self._place_tree(root, trees):
                return None
        return trees

    def _place_tree(self, root: int, trees: Trees) -> bool:
        """Costs up from the leaves, choices down from the root."""
        order, parent = [root], {root: -1}
        for at in order:
            for other in self._edges[at]:
                if other == parent[at]:
                    continue
                if other in parent:
                    return False
                parent[other] = at
                order.append(other)
        choice: dict[int, Ints] = {}
        for at in reversed(order[1:]):
            flows = self._edges[at][parent[at]]
            through = self.own[at][:, None] + sum(flow.cost(self._latency_ms) for flow in flows)
            choice[at] = np.argmin(through, axis=0)
            self.own[parent[at]] += through.min(axis=0)
        trees.sites[root] = np.argmin(self.own[root])
        trees.cost[root] = self.own[root].min()
        for at in order[1:]:
            trees.sites[at] = choice[at][trees.sites[parent[at]]]
            trees.root[at] = root
        return True


class _Flow(NamedTuple):
    rate: float
    weight: Floats | None
    """Per site of the target; None: 1 everywhere."""
    is_outwards: bool = True

    def reversed(self) -> _Flow:
        return self._replace(is_outwards=not self.is_outwards)

    def cost(self, latency_ms: Floats) -> Floats:
        """Own site x the other's."""
        cost = self.rate * latency_ms
        if self.weight is not None:
            cost *= self.weight
        return cost if self.is_outwards else cost.T
