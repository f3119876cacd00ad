"""A worker that is lost or added is an incident; a cluster that grows by itself is none."""

from __future__ import annotations

from mooring.contracts.decider import Observation
from mooring.contracts.engine import Measurement, SiteReport
from mooring.controller.executors import ExecutorCount
from mooring.model.placement.placement import FragmentSites


def said(*executors: int | None, grows: bool = False) -> list[str]:
    counted, lines = ExecutorCount(), list[str]()
    for k, count in enumerate(executors):
        site = SiteReport(0.1, None, 1.0, executors=count, slots=count, grows=grows)
        measured = Measurement(5.0 * k, 5.0, sites={"c": site, "embedded": SiteReport(0.2)})
        lines += counted.take(Observation(5.0 * k, FragmentSites({}), measured))
    return lines


def test_each_change_is_said_once() -> None:
    assert said(3, 3, 2, 2, None, 2, 3, 0, 1) == [
        "the site c lost 1 of 3 executors: it has 2 executors with 2 cores now",
        "the site c got 1 more executors: it has 3 executors with 3 cores now",
        "the site c lost 3 of 3 executors: it has none now",
        "the site c got 1 more executors: it has 1 executors with 1 core now",
    ]


def test_where_a_cluster_grows_by_itself_only_all_or_none_is() -> None:
    assert said(2, 8, 3, 0, 2, 4, grows=True) == [
        "the site c lost 3 of 3 executors: it has none now",
        "the site c got 2 more executors: it has 2 executors with 2 cores now",
    ]
