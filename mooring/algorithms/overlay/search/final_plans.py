"""Final plans (end of section 3.3.2): what applying a partial plan would change, and the store of them.

A site finalises every plan it makes: against where things run now, how much the bandwidth changes, and the
latency of each query that the plan touches. For a violated limit the store finds the cheapest plan that takes
enough off the query's latency.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter

import msgspec
import numpy as np

from mooring.algorithms.overlay.search.ahead import Latencies
from mooring.algorithms.overlay.search.partial_plans import PlanTable
from mooring.arrays import Floats


class FinalPlan(msgspec.Struct, frozen=True):
    moves: tuple[tuple[int, int], ...]
    """Operator and its new site, upstream first; operators that stay are left out."""
    bandwidth_change: float
    """Bytes per second, negative where the plan saves some."""
    latency_change_ms: tuple[tuple[int, float], ...]
    """Query and what its latency changes by, of every query that the plan touches."""

    def change_of(self, query: int) -> float:
        return dict(self.latency_change_ms).get(query, 0.0)


def finalised(
    table: PlanTable,
    latencies: Latencies,
    rest_ms: Mapping[int, tuple[int, float]],
    current_ms: Mapping[int, float],
    current_cost: float,
) -> list[FinalPlan]:
    """The plans of an operator, everything downstream of it staying where it is.

    `rest_ms`: query -> the site that the operator's output goes to next on its way to it, and how long it
    takes from there. `current_ms`: query -> its latency now. `current_cost`: what the upstream operators and
    the operator itself send each other now.
    """
    last = table.sites[:, -1]
    after: dict[int, Floats] = {}
    for query, (site, ms) in rest_ms.items():
        after[query] = table.latency_ms + latencies.between_ms(last, np.array([site]))[:, 0] + ms
    after |= {query: ms for query, ms in table.settled_ms.items() if query not in after}
    queries = tuple(query for query in sorted(after) if query in current_ms)
    changes_ms = np.array([after[query] - current_ms[query] for query in queries]).T.tolist()
    bandwidth_changes = (table.cost - current_cost).tolist()
    found: list[FinalPlan] = []
    for row, sites in enumerate(table.sites.tolist()):
        moves = tuple(
            (own.operator, site)
            for own, home, site in zip(table.operators, table.homes, sites, strict=True)
            if site != home
        )
        if not moves:
            continue
        changes = tuple(zip(queries, changes_ms[row], strict=True)) if queries else ()
        found.append(FinalPlan(moves, bandwidth_changes[row], changes))
    return found


def _touched(plans: Iterable[FinalPlan]) -> set[int]:
    """Queries whose latency one of the plans changes."""
    return {query for plan in plans for query, _ in plan.latency_change_ms}


class PlanStore:
    """Final plans by the query that they affect, sorted by their effect on its latency."""

    def __init__(self) -> None:
        self._of_operator: dict[int, tuple[FinalPlan, ...]] = {}
        self._by_query: dict[int, dict[int, list[tuple[float, FinalPlan]]]] = {}
        """Query -> operator whose plans these are -> change of the query's latency, least first."""
        self.version = 0
        """Counts how often plans were made anew."""

    def __len__(self) -> int:
        return sum(map(len, self._of_operator.values()))

    def replace(self, operator: int, plans: Iterable[FinalPlan]) -> None:
        """The plans of one operator, made anew: the old ones were made for another state of the world."""
        self.forget(operator)
        self.version += 1
        self._of_operator[operator] = tuple(plans)
        for plan in self._of_operator[operator]:
            for query, change_ms in plan.latency_change_ms:
                ranked = self._by_query.setdefault(query, {}).setdefault(operator, [])
                ranked.append((change_ms, plan))
        for query in _touched(self._of_operator[operator]):
            self._by_query[query][operator].sort(key=itemgetter(0))

    def forget(self, operator: int) -> None:
        """The operator has left this site, or its plans are made anew."""
        for query in _touched(self._of_operator.pop(operator, ())):
            del self._by_query[query][operator]

    def of(self, operator: int) -> tuple[FinalPlan, ...]:
        return self._of_operator.get(operator, ())

    def knows(self, operator: int) -> bool:
        """Whether plans were made for it, be it that none moves anything."""
        return operator in self._of_operator

    def reducing(self, query: int, by_ms: float) -> Iterator[FinalPlan]:
        """Plans that take at least this much off a query's latency; below zero: that add at most so much."""
        for ranked in self._by_query.get(query, {}).values():
            for _, plan in ranked[: bisect_right(ranked, -by_ms + 1e-9, key=itemgetter(0))]:
                yield plan

    def plans(self) -> Iterator[FinalPlan]:
        return itertools.chain.from_iterable(self._of_operator.values())

    def choose(self, query: int, needed_ms: float) -> FinalPlan | None:
        """Of the plans that take at least this much off the query's latency, the one that is best for the
        bandwidth; of equals the one that takes off most. None where no plan takes off enough."""
        best: tuple[float, float] | None = None
        chosen: FinalPlan | None = None
        for ranked in self._by_query.get(query, {}).values():
            for change_ms, plan in ranked[: bisect_right(ranked, -needed_ms, key=itemgetter(0))]:
                if best is None or (plan.bandwidth_change, change_ms) < best:
                    best, chosen = (plan.bandwidth_change, change_ms), plan
        return chosen
