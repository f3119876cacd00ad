"""Which of many plans are worth keeping (the two heuristics at the end of section 3.3.2, and a bound).

Among plans of similar latency the one that costs least bandwidth is kept, and among plans of similar cost the
one of least latency. What is neither is dropped: something kept is about as fast and cheaper, or about as
cheap and faster. Plans that end at different sites are never similar, for what follows them is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.algorithms.overlay.search.partial_plans import PlanTable
from mooring.arrays import Floats, Ints
from mooring.errors import InputError


@dataclass(frozen=True)
class KeptPlans:
    latency_step_ms: float = 5.0
    """Latencies closer than this are similar: about the noise of a measured link."""
    cost_step: float = 0.05
    """Costs closer than this part of the dearest plan's are similar."""
    most: int = 64
    """The most plans kept per operator; the paper leaves its bound open. Beyond it the dearest go first."""
    drawn_by: int | None = None
    """A seed: keep any `most` plans instead, drawn at random, and take them as they come."""

    def __post_init__(self) -> None:
        if not self.latency_step_ms > 0.0 or not self.cost_step > 0.0:
            raise InputError(f"found {self}, expected steps above zero", field="kept_plans")
        if self.most < 1:
            raise InputError(f"found {self.most}, expected at least one plan", field="kept_plans.most")

    def of(self, table: PlanTable) -> PlanTable:
        """The plans of a table that are kept, cheapest first."""
        if not len(table):
            return table
        if self.drawn_by is not None:
            order = np.random.default_rng([self.drawn_by, table.last.operator % 2**31]).permutation(
                len(table)
            )
            return table.kept(order[: self.most])
        last, latency_ms, cost = table.sites[:, -1], table.latency_ms, table.cost
        cost_step = self.cost_step * max(float(cost.max()), 1e-12)
        cheap = _best_of_each(last, latency_ms // self.latency_step_ms, cost, latency_ms)
        fast = _best_of_each(last, cost // cost_step, latency_ms, cost)
        keep = np.union1d(cheap, fast)
        keep = keep[np.lexsort((keep, latency_ms[keep], cost[keep]))]
        return table.kept(self._bounded(keep, last))

    def _bounded(self, keep: Ints, last: Ints) -> Ints:
        """The first `most`, taken in turn from those of every last site, so that none is left out while
        another has several."""
        turn = np.empty(len(keep), dtype=np.int64)
        seen: dict[int, int] = {}
        for k, site in enumerate(last[keep].tolist()):
            turn[k] = seen[site] = seen.get(site, -1) + 1
        chosen = np.argsort(turn, kind="stable")[: self.most]
        return np.asarray(keep[np.sort(chosen)])


def _best_of_each(group: Ints, like: Floats, first: Floats, second: Floats) -> Ints:
    """One row of every group of like values: the least by the first measure, then by the second."""
    order = np.lexsort((second, first, like, group))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(group[order]) != 0) | (np.diff(like[order]) != 0)
    return np.asarray(order[new])
