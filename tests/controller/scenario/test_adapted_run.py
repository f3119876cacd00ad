"""Changes happen to a simulated run at their instants, and deciders answer them or do not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from mooring.controller.deciding.guards import GuardOptions
from mooring.controller.scenario.adapted_run import run_adapted
from mooring.controller.scenario.comparison import compare_ways
from mooring.controller.scenario.unfolding import unneeded_fragments
from mooring.controller.scenario.ways import REPLANNED, decided_by, never_moving, replanned

if TYPE_CHECKING:
    from tests.controller.scenario.conftest import MakeScenario

FLOOD = {"at_s": 60, "stream": "x", "rate": 200, "over_s": 5}


def test_a_flood_overloads_a_run_that_never_moves_and_not_one_that_adapts(scenario: MakeScenario) -> None:
    flooded = scenario(FLOOD)
    ways = compare_ways(flooded, [never_moving(), decided_by("headroom"), replanned(flooded)]).courses
    still, adapted = ways["none"], ways["headroom"]
    assert still.moves == ()
    assert still.moments[-1].headroom == pytest.approx(1 / 1.2)
    (move,) = adapted.moves
    assert (move.from_site, move.to_site) == ("a", "c")
    assert 60 < move.at_s < 120
    assert all(moment.headroom >= 1.25 for moment in adapted.moments if moment.at_s > 125)
    assert adapted.summary()["limits_met_share"] > still.summary()["limits_met_share"]  # type: ignore[operator]
    assert {move.asked_by for move in ways[REPLANNED].moves} == {"replanned from scratch"}


def test_a_site_that_shrinks_is_seen_to_have_shrunk(scenario: MakeScenario) -> None:
    """The problem goes on saying that it has one core."""
    shrunk = scenario({"at_s": 60, "site": "a", "capacity": 0.32}, seconds=180)
    adapted = run_adapted(shrunk, decided_by("headroom"))
    assert [move.from_site for move in adapted.moves] == ["a"]
    assert adapted.moments[-1].headroom >= 1.25


def test_a_lost_site_is_left_to_recovery_and_comes_back_unused(scenario: MakeScenario) -> None:
    lost = scenario({"at_s": 60, "site": "a", "lost": True, "for_s": 60}, seconds=180)
    adapted = run_adapted(lost, decided_by("headroom"))
    said = [what for _, what in adapted.incidents]
    assert any("the site a is lost" in what for what in said)
    assert any("the site a is back" in what for what in said)
    assert adapted.moves == ()
    assert adapted.simulated.queries["top"].latency.tuples > 0


def test_a_decider_goes_on_after_a_site_was_lost_for_good(scenario: MakeScenario) -> None:
    gone = scenario({"at_s": 30, "site": "c", "lost": True}, {**FLOOD, "at_s": 90, "rate": 180})
    adapted = run_adapted(gone, decided_by("headroom"))
    assert [move.to_site for move in adapted.moves] == ["b"]


def test_a_slower_link_is_felt_and_ends_by_itself(scenario: MakeScenario) -> None:
    slow = scenario({"at_s": 40, "link": ["a", "b"], "latency_ms": 400, "for_s": 40}, seconds=120)
    start = slow.start.problem.site_index
    far = slow.start.site_of_fragment.copy()
    far[0] = start["b"]
    course = run_adapted(
        type(slow)(**{**slow.__dict__, "start": type(slow.start)(slow.problem, far)}), never_moving()
    )
    seen = {moment.at_s: moment.latency_ms["top"] for moment in course.moments}
    before, during, after = seen[35.0], seen[70.0], seen[115.0]
    assert before is not None
    assert during is not None
    assert after is not None
    assert during == pytest.approx(before + 2 * 390, rel=0.05)
    assert after == pytest.approx(before, rel=0.3)


def test_what_only_a_query_that_left_needs_rests_until_it_joins(scenario: MakeScenario) -> None:
    gone = scenario(
        {"at_s": 60, "query": "top", "leaves": True},
        {"at_s": 120, "query": "top", "joins": True},
        seconds=180,
    )
    assert unneeded_fragments(gone.problem, {"top"}) == ["f"]
    course = run_adapted(gone, decided_by("headroom"))
    used = {moment.at_s: moment.utilisation["a"] for moment in course.moments}
    assert used[55.0] == pytest.approx(0.3, abs=0.05)
    assert used[100.0] == pytest.approx(0.15, abs=0.05)
    assert used[170.0] == pytest.approx(0.3, abs=0.05)
    assert "top" not in next(m.latency_ms for m in course.moments if m.at_s == 100.0)
    assert course.simulated.queries["top"].latency.max_ms < 200.0  # nothing was kept for it meanwhile


def test_a_query_that_is_to_join_is_not_there_at_first(scenario: MakeScenario) -> None:
    course = run_adapted(scenario({"at_s": 60, "query": "top", "joins": True}, seconds=90), never_moving())
    assert "top" not in course.moments[5].latency_ms
    assert course.moments[-1].latency_ms["top"] is not None


def test_the_same_seed_gives_the_same_report(scenario: MakeScenario) -> None:
    def document() -> str:
        return json.dumps(run_adapted(scenario(FLOOD, seconds=150), decided_by("headroom")).as_json())

    assert document() == document()


@pytest.mark.parametrize(
    ("guards", "said"),
    [
        (GuardOptions(untouched=frozenset({"f", "g"})), "no move would raise it"),
        (GuardOptions(moves_per_hour=0), "0 moves were made within an hour"),
        (GuardOptions(quiet_hours=((0.0, 3600.0),)), "hours in which nothing is moved"),
    ],
)
def test_when_nothing_is_done_the_run_says_why(
    scenario: MakeScenario, guards: GuardOptions, said: str
) -> None:
    course = run_adapted(scenario(FLOOD, seconds=150, guards=guards), decided_by("headroom"))
    assert course.moves == ()
    assert any(said in why for why in course.whys), course.whys
