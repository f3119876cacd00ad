"""All plans of some operators, or those that elimination leaves: the whole search in one place.

The protocol does the same operator by operator, at the sites that run them. Here everything is known at once,
which is what tests, experiments and a bound on small cases need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mooring.algorithms.overlay.search.ahead import Latencies, k_ahead
from mooring.algorithms.overlay.search.partial_plans import Candidates, PlanTable, expanded, feasible
from mooring.algorithms.overlay.search.shared_operator import (
    NOWHERE,
    SharedOperator,
    queries_of,
    upstream_first,
)


@dataclass(frozen=True)
class Enumeration:
    tables: Mapping[int, PlanTable]
    """Operator -> the plans that were passed on."""
    explored: int
    """Partial plans that were made."""


def enumerate_plans(
    operators: Sequence[SharedOperator],
    candidates: Mapping[int, Candidates],
    latencies: Latencies,
    *,
    k: int | None,
    homes: Mapping[int, int] | None = None,
    channel_ms: float = 0.0,
) -> Enumeration:
    """The plans of every operator, eliminated by their k-ahead latency.

    k = 0 looks at the latency so far alone; None eliminates nothing.
    """
    sites = {operator: own.sites for operator, own in candidates.items()}
    ahead = {} if k is None else k_ahead(operators, sites, latencies, k, channel_ms)
    limits = queries_of(operators)
    where = homes or {}
    tables: dict[int, PlanTable] = {}
    explored = 0
    for own in upstream_first(operators):
        received = [tables[publisher] for publisher in own.publishers if publisher in tables]
        home = where.get(own.operator, NOWHERE)
        made = expanded(own, home, candidates[own.operator], received, latencies, channel_ms)
        explored += len(made)
        if k is not None:
            keep = feasible(made, sites[own.operator], ahead[own.operator], limits[own.operator])
            made = made.kept(keep)
        tables[own.operator] = made
    return Enumeration(tables, explored)
