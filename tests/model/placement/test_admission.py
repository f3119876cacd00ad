"""What is left of a problem without the queries that were turned away."""

from __future__ import annotations

import pytest

from mooring.errors import InfeasibleError
from mooring.model.placement.admission import require_all_queries, without_queries
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem

SHARED = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        "latency_ms": {"a": {"b": 10}},
        "streams": {"x": {"site": "a", "rate": 10}},
        "operators": {
            "common": {"inputs": ["x"], "cost_us": 1},
            "left": {"inputs": ["common"], "cost_us": 1},
            "right": {"inputs": ["common"], "cost_us": 1, "fragment": "pair"},
            "beside": {"inputs": ["left"], "cost_us": 1, "fragment": "pair"},
            "nobodys": {"inputs": ["x"], "cost_us": 1},
        },
        "queries": {
            "l": {"reads": "left", "site": "b"},
            "r": {"reads": "right", "site": "b", "max_latency_ms": 5},
            "c": {"reads": "common", "site": "a"},
        },
    }
)


def names(problem: Problem) -> tuple[set[str], set[str]]:
    return {o.name for o in problem.operators}, {q.name for q in problem.queries}


def test_operators_go_with_the_last_query_that_needed_them() -> None:
    assert names(without_queries(SHARED, ["r"])) == ({"common", "left", "nobodys"}, {"l", "c"})
    assert names(without_queries(SHARED, ["r", "l"])) == ({"common", "nobodys"}, {"c"})
    assert without_queries(SHARED, []) is SHARED


def test_a_fragment_stays_whole_and_what_it_reads_stays_with_it() -> None:
    """`beside` is in the fragment that r needs, and reads `left`."""
    kept = without_queries(SHARED, ["l"])
    assert names(kept) == ({o.name for o in SHARED.operators}, {"r", "c"})


def test_a_run_refuses_a_placement_that_leaves_queries_out() -> None:
    whole = Placement(SHARED, [0] * len(SHARED.fragments))  # type: ignore[arg-type]
    require_all_queries(whole, "the plan")
    kept = without_queries(SHARED, ["r"])
    part = Placement(kept, [0] * len(kept.fragments), {"r": "too late"})  # type: ignore[arg-type]
    with pytest.raises(InfeasibleError, match="rejects query 'r': too late"):
        require_all_queries(part, "the plan")
