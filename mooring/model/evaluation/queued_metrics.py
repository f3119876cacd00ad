"""Latency with the queues of sites and links in it, for problems that have queries."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.placement.placement import Placement


class QueuedMetrics(msgspec.Struct, frozen=True):
    latency_queued_ms: dict[str, float | None] | UnsetType = UNSET
    qos_queued_met: float | UnsetType = UNSET


def queued_metrics(placement: Placement) -> QueuedMetrics:
    """Mean latency per query at the present rates, and the share of limits that it keeps; null where a site
    or link on the way is full. Only where the problem states what lies between its sites.
    """
    problem = placement.problem
    if not problem.queries or (problem.network.latency_ms is None and len(problem.sites) > 1):
        return QueuedMetrics()
    found = 1000.0 * queued_latencies(problem, placement.site_of_operator.tolist()).query_s
    latency_ms = {
        query.name: float(found[q]) if math.isfinite(found[q]) else None
        for q, query in enumerate(problem.queries)
    }
    met = [
        found[q] <= query.max_latency_ms
        for q, query in enumerate(problem.queries)
        if query.max_latency_ms is not None
    ]
    return QueuedMetrics(latency_ms, float(np.mean(met)) if met else UNSET)
