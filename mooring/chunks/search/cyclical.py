"""Cyclical optimisation: one operator after the other gets its best partitioning, the others staying as they
are, round and round until a whole cycle finds nothing better (section 4).
"""

from __future__ import annotations

from mooring.chunks.search.search_log import SearchLog
from mooring.chunks.search.space import Candidate


def search_cyclically(log: SearchLog, start: Candidate) -> None:
    """From the last configuration, or a random one. `log` knows the best at any time."""
    log.latencies_ms([start])
    while True:
        before = log.best_ms
        for operator, choices in enumerate(log.space.choices):
            log.latencies_ms([_with(log.best, operator, at) for at in range(len(choices))])
        if log.round_is_last() or log.best_ms >= before:
            return


def _with(candidate: Candidate, operator: int, at: int) -> Candidate:
    return (*candidate[:operator], at, *candidate[operator + 1 :])
