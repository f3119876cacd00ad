"""The final plans of operators that run, as the plan exchange leaves them, made in one place.

Sites make them by messages (`algorithms/overlay/protocol/`). A decider with all observations, or a test,
makes the same plans here: of an operator and everything upstream of it, while other readers of these stay
where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from mooring.algorithms.overlay.search.ahead import Latencies
from mooring.algorithms.overlay.search.final_plans import FinalPlan, finalised
from mooring.algorithms.overlay.search.partial_plans import Candidates, PlanTable, expanded
from mooring.algorithms.overlay.search.shared_operator import (
    QueryEnd,
    SharedOperator,
    queries_of,
    subscribers_of,
    upstream_first,
)
from mooring.algorithms.overlay.search.similar_plans import KeptPlans
from mooring.algorithms.overlay.search.walked_plan import walked


class StoredPlans:
    """Of one state of the world: where operators are, and the latencies between sites."""

    def __init__(
        self,
        operators: Sequence[SharedOperator],
        at: Mapping[int, int],
        latencies: Latencies,
        candidates: Callable[[SharedOperator], Candidates],
        kept: KeptPlans,
        channel_ms: float = 0.0,
    ) -> None:
        """`operators`: all of them, with the queries that read them; `at`: where each runs."""
        ordered = upstream_first(operators)
        self.own = {each.operator: each for each in ordered}
        self.readers, self.queries = subscribers_of(ordered), queries_of(ordered)
        self.at = dict(at)
        sites = [at[each.operator] for each in ordered]
        self.now = walked(ordered, tuple(sites), sites, latencies, channel_ms)
        self._latencies, self._candidates = latencies, candidates
        self._kept, self._channel_ms = kept, channel_ms

    def upstream_of(self, operator: int) -> set[int]:
        found, todo = set[int](), [operator]
        while todo:
            found.add(todo.pop())
            todo = [p for number in found for p in self.own[number].publishers if p not in found]
        return found

    def of(self, operator: int) -> list[FinalPlan]:
        inside = self.upstream_of(operator)
        operators = [self._with_staying(own, inside) for own in self.own.values() if own.operator in inside]
        homes = tuple(self.at[own.operator] for own in operators)
        tables: dict[int, PlanTable] = {}
        for own, home in zip(operators, homes, strict=True):
            received = [tables[publisher] for publisher in own.publishers]
            candidates = self._candidates(self.own[own.operator])
            made = expanded(own, home, candidates, received, self._latencies, self._channel_ms)
            tables[own.operator] = self._kept.of(made)
        current = walked(operators, homes, homes, self._latencies, self._channel_ms)
        return finalised(tables[operator], self._latencies, {}, current.query_ms, current.cost())

    def _with_staying(self, own: SharedOperator, inside: set[int]) -> SharedOperator:
        """What reads it and is not part of the plan, as ends: where results go, and how long it takes on."""
        ends = list(own.ends)
        for reader in self.readers[own.operator]:
            if reader not in inside:
                for k, (query, ms) in enumerate(self.now.rest_ms(reader)):
                    rate = own.output_rate if k == 0 else 0.0
                    limit_ms = self.queries[reader].get(query, float("inf"))
                    beyond_ms = ms + self._channel_ms
                    ends.append(QueryEnd(query, self.at[reader], limit_ms, rate, beyond_ms))
        return msgspec.structs.replace(own, ends=tuple(ends))
