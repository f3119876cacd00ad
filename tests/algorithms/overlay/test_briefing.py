"""Sites of an overlay are told what they need to know, once, and of latencies what a few looks agree on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mooring.algorithms.overlay.briefing import OverlayBriefing
from mooring.algorithms.overlay.leases.adaptation_messages import (
    CapacityMeasured,
    OperatorsMeasured,
    QueryMeasured,
    Unsatisfied,
)
from mooring.algorithms.overlay.leases.lease_messages import AskOperators, KnownOperators
from mooring.contracts.decider import Observation
from mooring.contracts.engine import Measurement, QueryReport
from mooring.contracts.picture import picture_of
from mooring.coordination.move_messages import LookUp, StatedLatencies
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem

STATED: dict[str, object] = {
    "sites": {"a": {"capacity": 1}, "b": {"capacity": 2}},
    "streams": {"x": {"rate": 100}},
    "operators": {"f": {"inputs": ["x"], "cost_us": 1000}, "g": {"inputs": ["f"], "cost_us": 1000}},
    "queries": {
        "q": {"reads": "g", "site": "b", "max_latency_ms": 5000},
        "free": {"reads": "f", "site": "a"},
    },
}
PROBLEM = Problem.from_dict(STATED)
AT_A = Placement.from_dict(PROBLEM, {"f": "a", "g": "a"})


def told(briefing: OverlayBriefing, latency_ms: float | None) -> list[tuple[int, object]]:
    """At one look."""
    seen = Measurement(0.0, 5.0, queries={"q": QueryReport(1.0, latency_ms, None)})
    observation = Observation(0.0, FragmentSites({"f": "a", "g": "a"}), seen)
    return list(briefing.requests(observation, picture_of(PROBLEM, AT_A), {}))


def test_operators_are_told_with_the_limits_of_their_queries_once_anything_was_measured() -> None:
    briefing = OverlayBriefing(PROBLEM)
    assert briefing.answers(0, LookUp()) is None
    assert briefing.answers(0, AskOperators()) == ()
    told(briefing, None)
    (known,) = briefing.answers(1, AskOperators()) or ()
    assert isinstance(known, KnownOperators)
    assert known.usable_cores == 0.95 * 2
    f, g = known.operators
    assert (f.tuples, g.tuples, g.publishers, f.cores) == (100.0, 100.0, (0,), 0.1)
    assert [(end.query, end.site, end.limit_ms) for end in g.ends] == [(0, 1, 5000.0)]
    assert [end.limit_ms for end in f.ends] == [float("inf")]  # though nobody knows the network


def test_what_a_site_knows_is_not_told_again_until_it_begins_anew() -> None:
    briefing = OverlayBriefing(PROBLEM)
    first = told(briefing, None)
    assert (0, CapacityMeasured(0.95)) in first
    known = {
        own for _, request in first if isinstance(request, OperatorsMeasured) for own in request.operators
    }
    assert {(own.operator, own.cores, own.tuples) for own in known} == {(0, 0.1, 100.0), (1, 0.1, 100.0)}
    assert told(briefing, None) == []
    briefing.answers(0, AskOperators())
    assert {site for site, _ in told(briefing, None)} == {0}


def test_the_machine_of_a_lost_site_hears_that_it_has_nothing_to_give_until_it_is_back() -> None:
    briefing = OverlayBriefing(PROBLEM)
    there = picture_of(PROBLEM, AT_A)
    gone = replace(there, lost=np.array([False, True]))
    observation = Observation(0.0, FragmentSites({"f": "a", "g": "a"}), Measurement(0.0, 5.0))
    found = [
        [
            request
            for site, request in briefing.requests(observation, picture, {})
            if isinstance(request, CapacityMeasured) and site == 1
        ]
        for picture in (there, gone, gone, there)
    ]
    lost = CapacityMeasured(0.0, lost=True)
    assert found == [[CapacityMeasured(1.9)], [lost], [], [CapacityMeasured(1.9)]]


def test_that_a_query_has_no_plan_is_told_to_whoever_runs_it_for_a_while() -> None:
    briefing = OverlayBriefing(PROBLEM)
    told(briefing, None)
    why = "only copies of operators for this query could meet its limit, and runs make no copies"
    assert briefing.answers(1, Unsatisfied(0, why)) == ()
    briefing.answers(0, Unsatisfied(-1, "no stored plan"))
    assert (
        briefing.remark() == f"site a is over its threshold, and no stored plan relieves it; query q: {why}"
    )
    for _ in range(12):
        told(briefing, None)
    assert briefing.remark() == ""


def test_one_slow_look_is_no_broken_limit() -> None:
    briefing = OverlayBriefing(PROBLEM)
    found = [
        [request for site, request in told(briefing, ms) if isinstance(request, QueryMeasured) and site == 1]
        for ms in (1000.0, 9000.0, None, 1100.0, 9500.0)
    ]
    assert found == [[], [], [], [QueryMeasured(0, 1100.0)], [QueryMeasured(0, 9000.0)]]


def test_sites_hear_of_latencies_where_they_are_stated_and_not_to_be_measured() -> None:
    far = Problem.from_dict({**STATED, "latency_ms": {"a": {"b": 60}}})
    for states_latency, expected in ((True, [(0.0, 60.0), (60.0, 0.0)]), (False, [])):
        briefing = OverlayBriefing(far, states_latency)
        observation = Observation(0.0, FragmentSites({"f": "a", "g": "a"}), Measurement(0.0, 5.0))
        at_a = Placement.from_dict(far, {"f": "a", "g": "a"})
        for heard in (expected, []):
            looked = briefing.requests(observation, picture_of(far, at_a), {})
            said = [request.latency_ms for _, request in looked if isinstance(request, StatedLatencies)]
            assert said == heard
        basics = briefing.answers(1, AskOperators()) or ()
        assert [each.latency_ms for each in basics if isinstance(each, StatedLatencies)] == expected[1:]
