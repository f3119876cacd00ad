"""What a site keeps of who reads what stays right while loads, rates and places change."""

from __future__ import annotations

import msgspec
import pytest

from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings
from mooring.algorithms.overlay.search.shared_operator import QueryEnd, SharedOperator
from mooring.coordination.move_messages import NOWHERE, StartedAt

OPERATORS = (
    SharedOperator(0),
    SharedOperator(1, publishers=(0,), ends=(QueryEnd(0, 5, 80.0),)),
    SharedOperator(2, publishers=(0,), ends=(QueryEnd(1, 6, 90.0), QueryEnd(0, 5, 70.0))),
    SharedOperator(3),
)
PLACES = tuple(StartedAt(number, number, 1) for number in range(4))


def view(operators: tuple[SharedOperator, ...]) -> OverlaySurroundings:
    return OverlaySurroundings(2, operators, PLACES, 1.0, 100.0, {})


def seen(around: OverlaySurroundings) -> object:
    served = around.served
    return (
        served.own,
        served.queries,
        served.limits_ms,
        [served.upstream(query) for query in (0, 1)],
        [list(served.ending_at(site)) for site in (5, 6, 7)],
        [around.end_site(query) for query in (0, 1, 2)],
    )


@pytest.mark.parametrize(
    "ends",
    [
        (QueryEnd(1, 6, 90.0, rate=9.0), QueryEnd(0, 5, 70.0, rate=4.0)),
        (QueryEnd(1, 7, 90.0), QueryEnd(0, 5, 70.0)),
        (QueryEnd(1, 6, 10.0),),
    ],
    ids=["other rates", "another site", "another limit"],
)
def test_operators_measured_later_count_as_if_known_from_the_start(ends: tuple[QueryEnd, ...]) -> None:
    around, new = view(OPERATORS), SharedOperator(2, publishers=(0,), ends=ends, cores=0.5)
    seen(around)
    around.take(new)
    assert seen(around) == seen(view((*OPERATORS[:2], new, OPERATORS[3])))


def test_a_copy_that_starts_or_ends_changes_what_is_read() -> None:
    around, copy = view(OPERATORS), 1_000_001  # of operator 1, for query 0
    seen(around)
    around.learn([StartedAt(copy, 4, 1)])
    assert copy in around.served.own
    around.take(msgspec.structs.replace(OPERATORS[1], cores=0.5))
    assert around.served.own[copy].cores == 0.5
    around.learn([StartedAt(copy, NOWHERE, 2)])
    assert copy not in around.served.own


def test_what_runs_here_follows_the_whereabouts() -> None:
    around = view(OPERATORS)
    assert around.running_here() == [2]
    around.learn([StartedAt(2, 3, 2), StartedAt(3, 2, 2)])
    assert around.running_here() == [3]
    assert around.places == (*PLACES[:2], StartedAt(2, 3, 2), StartedAt(3, 2, 2))


def test_connected_operators_are_those_upstream_and_downstream() -> None:
    served = view(OPERATORS).served
    assert served.connected([2]) == {0, 2}
    assert served.connected([0]) == {0, 1, 2}
    assert served.connected([3]) == {3}
