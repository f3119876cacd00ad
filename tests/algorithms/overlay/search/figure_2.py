"""Figure 2 of the overlays paper as data: two queries share o1 and o2, and part ways at o3 and o4."""

from __future__ import annotations

import numpy as np

from mooring.algorithms.overlay.search.partial_plans import Candidates
from mooring.algorithms.overlay.search.shared_operator import NOWHERE, QueryEnd, SharedOperator, Source
from mooring.arrays import Floats, Ints

O1, O2, O3, O4 = 1, 2, 3, 4
Q1, Q2 = 1, 2
N5, N6, N9, OF_O3, OF_O4 = 5, 6, 9, 3, 4


def figure_2(limit_q1_ms: float = 100.0, limit_q2_ms: float = 100.0) -> list[SharedOperator]:
    return [
        SharedOperator(O1, sources=(Source(0),), output_rate=10.0),
        SharedOperator(O2, publishers=(O1,), output_rate=5.0),
        SharedOperator(O3, publishers=(O2,), ends=(QueryEnd(Q2, NOWHERE, limit_q2_ms),)),
        SharedOperator(O4, publishers=(O2,), ends=(QueryEnd(Q1, NOWHERE, limit_q1_ms),)),
    ]


def latencies() -> Floats:
    """10 and 30 ms from n5 to the candidates of o2; 5 and 15 from n6 to those of o4 and o3."""
    latency_ms = np.full((10, 10), 200.0)
    np.fill_diagonal(latency_ms, 0.0)
    for start, end, ms in (
        (0, N5, 20.0),
        (N5, N6, 10.0),
        (N5, N9, 30.0),
        (N6, OF_O4, 5.0),
        (N6, OF_O3, 15.0),
        (N9, OF_O4, 5.0),
        (N9, OF_O3, 5.0),
    ):
        latency_ms[start, end] = latency_ms[end, start] = ms
    return latency_ms


CANDIDATES = {O1: np.array([N5]), O2: np.array([N6, N9]), O3: np.array([OF_O3]), O4: np.array([OF_O4])}


def everywhere_room(sites: dict[int, Ints]) -> dict[int, Candidates]:
    room = np.full(10, np.inf)
    return {operator: Candidates(own, room[: len(own)], room[: len(own)]) for operator, own in sites.items()}
