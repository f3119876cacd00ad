"""Final plans (end of section 3.3.2): what applying a partial plan would change, and the store of them.

A site finalises every plan it makes: against where things run now, how much the bandwidth changes, and the
latency of each query that the plan touches. The store answers what a violated limit asks: which of the plans
takes enough off this query's latency, and costs least?
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from operator import itemgetter

import msgspec
import numpy as np

from mooring.arrays import Floats
from mooring.placement.overlay.ahead import Latencies
from mooring.placement.overlay.partial_plans import PlanTable


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
    found: list[FinalPlan] = []
    for row, sites in enumerate(table.sites.tolist()):
        moves = tuple(
            (own.operator, site)
            for own, home, site in zip(table.operators, table.homes, sites, strict=True)
            if site != home
        )
        if not moves:
            continue
        changes = tuple(
            (query, float(ms[row] - current_ms[query]))
            for query, ms in sorted(after.items())
            if query in current_ms
        )
        found.append(FinalPlan(moves, float(table.cost[row] - current_cost), changes))
    return found


class PlanStore:
    """Final plans by the query that they affect, sorted by their effect on its latency."""

    def __init__(self) -> None:
        self._of_operator: dict[int, tuple[FinalPlan, ...]] = {}
        self._by_query: dict[int, list[tuple[float, int, FinalPlan]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of_operator.values()))

    def replace(self, operator: int, plans: Iterable[FinalPlan]) -> None:
        """The plans of one operator, made anew: the old ones were made for another state of the world."""
        self._of_operator[operator] = tuple(plans)
        self._by_query.clear()

    def forget(self, operator: int) -> None:
        """The operator has left this site."""
        if self._of_operator.pop(operator, None) is not None:
            self._by_query.clear()

    def of(self, operator: int) -> tuple[FinalPlan, ...]:
        return self._of_operator.get(operator, ())

    def choose(self, query: int, needed_ms: float) -> FinalPlan | None:
        """Of the plans that take at least this much off the query's latency, the one that is best for the
        bandwidth; of equals the one that takes off most. None where no plan takes off enough."""
        ranked = self._ranked(query)
        upto = bisect_right(ranked, -needed_ms, key=itemgetter(0))
        return min(ranked[:upto], key=lambda each: (each[2].bandwidth_change, each[0]), default=(0, 0, None))[
            2
        ]

    def _ranked(self, query: int) -> list[tuple[float, int, FinalPlan]]:
        if not self._by_query:
            number = 0
            for plans in self._of_operator.values():
                for plan in plans:
                    for touched, change_ms in plan.latency_change_ms:
                        self._by_query.setdefault(touched, []).append((change_ms, number, plan))
                    number += 1
            for ranked in self._by_query.values():
                ranked.sort(key=itemgetter(0, 1))
        return self._by_query.get(query, [])
