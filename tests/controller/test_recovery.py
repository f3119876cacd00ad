"""After faults every fragment is started where it may run, or reported, and nothing is started twice."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.controller.recovery import Recovery, RecoveryOptions, Start
from mooring.controller.run_state import RunState
from mooring.errors import InfeasibleError
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem

PROBLEM = Problem.from_dict(
    {
        "sites": {name: {"capacity": 1} for name in "abc"},
        "streams": {"x": {"rate": 1}},
        "operators": {name: {"inputs": ["x"], "cost_us": 1} for name in ("ingest", "count", "join")},
    }
)
PLACEMENT = FragmentSites({"ingest": "a", "count": "a", "join": "b"})


def anywhere_but_lost(sites: FragmentSites, lost: Collection[str]) -> FragmentSites:
    """Everything may move but `ingest`."""
    left = [site for site in ("a", "b", "c") if site not in lost]
    if not left:
        raise InfeasibleError("every site is lost")
    return FragmentSites(
        {name: site if site not in lost or name == "ingest" else left[0] for name, site in sites.items()}
    )


def recovery(**options: Any) -> Recovery:
    made = Recovery(RunState(PROBLEM), anywhere_but_lost, RecoveryOptions(**options))
    made.begin(PLACEMENT)
    return made


def due(made: Recovery, now_s: float) -> list[Start]:
    """As a supervisor asks: what has no site is placed first."""
    made.place_stranded(now_s)
    return made.due(now_s)


def test_fragments_of_a_lost_site_go_elsewhere_at_once_and_pinned_ones_wait_for_it() -> None:
    made = recovery()
    made.site_lost("a", "killed", 5.0)
    assert due(made, 5.0) == [Start("count", "b")]
    made.started("count", "b")
    assert due(made, 100.0) == []
    made.site_back("a", 100.0)
    assert due(made, 100.0) == [Start("ingest", "a")]
    assert made.said() == [
        "the site a is lost: killed",
        "ingest waits for its site a",
        "count goes from a to b",
        "the site a is back",
    ]


def test_a_fragment_that_keeps_failing_is_backed_off_and_then_left_alone() -> None:
    made, now, pauses = recovery(tries=4, first_pause_s=1.0, longest_pause_s=3.0), 0.0, []
    for _ in range(3):
        made.failed("join", "bad row", now)
        began = now
        while not due(made, now):
            now += 0.5
        pauses.append(now - began)
        made.started("join", "b")
    assert pauses == [1.0, 2.0, 3.0]
    made.failed("join", "bad row", now)
    assert due(made, now + 1e6) == []
    assert made.state.fragment_troubles() == {"join": "given up: bad row"}


def test_a_committed_batch_starts_the_count_of_failures_again() -> None:
    made = recovery(tries=2)
    for at in range(10):
        made.failed("join", "disk full", 100.0 * at)
        assert due(made, 100.0 * at + 50.0) == [Start("join", "b")]
        made.started("join", "b")
        made.progressed("join")


def test_what_a_move_stopped_is_not_started_whatever_happens_to_its_site() -> None:
    made = recovery()
    made.hold("join", "moving")
    made.failed("join", "stopped", 1.0)
    made.site_lost("b", "killed", 2.0)
    made.site_back("b", 3.0)
    assert due(made, 1e6) == []
    made.release("join", 4.0)
    assert due(made, 4.0) == [Start("join", "b")]


def test_a_held_fragment_released_while_its_site_is_lost_goes_elsewhere() -> None:
    made = recovery()
    made.hold("join", "moving")
    made.site_lost("b", "killed", 2.0)
    made.release("join", 4.0)
    assert due(made, 4.0) == [Start("join", "a")]


def test_when_every_site_is_lost_all_wait_and_go_on_with_the_first_that_returns() -> None:
    made = recovery()
    made.site_lost("c", "killed", 0.0)
    made.site_lost("a", "killed", 0.0)
    for order in due(made, 0.0):
        made.started(order.fragment, order.site)
    made.site_lost("b", "killed", 1.0)
    assert due(made, 1.0) == []
    made.site_back("c", 2.0)
    assert {order.fragment: order.site for order in due(made, 2.0)} == {"count": "c", "join": "c"}


events = st.one_of(
    st.tuples(st.just("lost"), st.sampled_from("abc")),
    st.tuples(st.just("back"), st.sampled_from("abc")),
    st.tuples(st.just("failed"), st.sampled_from(sorted(PLACEMENT))),
    st.tuples(st.just("progressed"), st.sampled_from(sorted(PLACEMENT))),
    st.tuples(st.just("act"), st.just("")),
)


@given(st.lists(events, max_size=60))
def test_nothing_runs_at_a_lost_site_or_twice_and_all_run_once_sites_are_back(
    history: list[tuple[str, str]],
) -> None:
    made, now = recovery(tries=10_000), 0.0
    running = dict(PLACEMENT)

    def act() -> None:
        for order in due(made, now):
            assert order.fragment not in running
            assert order.site not in made.state.lost
            running[order.fragment] = order.site
            made.started(order.fragment, order.site)

    for what, name in history:
        now += 1.0
        if what == "lost":
            made.site_lost(name, "killed", now)
            for fragment in [f for f, site in running.items() if site == name]:
                del running[fragment]
        elif what == "back":
            made.site_back(name, now)
        elif what == "failed" and name in running:
            del running[name]
            made.failed(name, "bad row", now)
        elif what == "progressed" and name in running:
            made.progressed(name)
        elif what == "act":
            act()
        for fragment, site in running.items():
            assert made.state.where[fragment] == site
    for site in "abc":
        made.site_back(site, now)
    now += 1e6
    act()
    assert running == made.state.where
    assert set(running) == set(PLACEMENT)
    assert made.state.fragment_troubles() == {}
