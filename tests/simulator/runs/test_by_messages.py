"""Optimisers at the simulated sites decide by messages alone, under the guards of everybody."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mooring.controller.guards import GuardOptions
from mooring.model.placement.placement import Placement
from mooring.simulator.runs.adapted_run import Circumstances, run_adapted
from mooring.simulator.runs.variants import decided_by

if TYPE_CHECKING:
    from tests.simulator.runs.conftest import MakeScenario


def far_away(scenario: MakeScenario, *changes: dict[str, object]) -> Circumstances:
    """The first fragment is at b, and the way from a to b gets long."""
    slow = {"at_s": 30, "link": ["a", "b"], "latency_ms": 400}
    far = scenario(slow, *changes, seconds=150, guards=GuardOptions(worth=0.1))
    at_b = far.start.site_of_fragment.copy()
    at_b[0] = far.problem.site_index["b"]
    return replace(far, start=Placement(far.problem, at_b))


def test_a_move_is_proposed_accepted_carried_out_and_the_proposer_hears_of_it(scenario: MakeScenario) -> None:
    course = run_adapted(far_away(scenario), decided_by("relaxation"))
    assert [(move.fragment, move.to_site) for move in course.moves] == [("f", "a")]
    assert course.moves[0].asked_by == "adapting: relaxation"
    sent = course.traffic.messages
    assert {"Ping", "Probe", "HoldRoom", "Proposed", "Accepted", "Done", "Whereabouts"} <= set(sent)
    assert course.traffic.bytes > 20 * course.traffic.total
    (entry,) = course.ledger
    assert entry["decider"] == "relaxation"


def test_with_propose_everything_is_refused_and_nothing_moves(scenario: MakeScenario) -> None:
    way = replace(decided_by("relaxation"), act="propose")
    course = run_adapted(far_away(scenario), way)
    assert course.moves == ()
    assert course.traffic.messages["Refused"] > 0
    assert not {"Accepted", "Done", "Failed"} & set(course.traffic.messages)


def test_a_site_that_is_lost_takes_its_machine_along_and_the_others_go_on(scenario: MakeScenario) -> None:
    """What recovery started elsewhere is heard of, and moved from there."""
    lost = {"at_s": 20, "site": "c", "lost": True}
    course = run_adapted(far_away(scenario, lost), decided_by("relaxation"))
    assert ("f", "a") in [(move.fragment, move.to_site) for move in course.moves]


def test_the_same_seed_gives_the_same_messages(scenario: MakeScenario) -> None:
    one, other = (run_adapted(far_away(scenario), decided_by("relaxation")) for _ in range(2))
    assert one.as_json() == other.as_json()


def test_a_site_that_has_less_is_relieved_by_a_stored_plan_under_a_lease(scenario: MakeScenario) -> None:
    """And the query that was late because of it meets its limit again."""
    less = scenario({"at_s": 60, "site": "a", "capacity": 0.25}, seconds=150)
    course = run_adapted(less, decided_by("overlay"))
    (move,) = course.moves
    assert move.fragment in ("f", "g")
    assert (move.from_site, move.asked_by) == ("a", "adapting: overlay")
    assert 60 < move.at_s < 100
    leased = {
        "RequestLock",
        "LockGranted",
        "HoldLocks",
        "Held",
        "Proposed",
        "Accepted",
        "Done",
        "ReleaseLock",
    }
    assert leased | {"Prepare", "PlansOf", "KnownOperators"} <= set(course.traffic.messages)
    (entry,) = course.ledger
    assert entry["decider"] == "overlay"
    after = entry["after"]
    assert isinstance(after, dict)
    assert after["late_queries"] == 0.0


def test_a_site_lost_with_its_part_of_the_directory_does_not_hide_the_others(scenario: MakeScenario) -> None:
    """It is lost before anything is wrong, and plans made without it lead to the site that is left."""
    lost = {"at_s": 40, "site": "b", "lost": True}
    less = {"at_s": 70, "site": "a", "capacity": 0.25}
    course = run_adapted(scenario(lost, less, seconds=140), decided_by("overlay"))
    moves = [move for move in course.moves if move.asked_by == "adapting: overlay"]
    assert [(move.from_site, move.to_site) for move in moves] == [("a", "c")]


def test_the_site_that_a_lease_moves_to_is_lost_and_another_plan_is_taken(scenario: MakeScenario) -> None:
    """It is lost while its room is reserved, between two looks; what is proposed instead waits for the end of
    the pause that recovery is followed by.
    """
    less = {"at_s": 60, "site": "a", "capacity": 0.25}
    alone = run_adapted(scenario(less, seconds=100), decided_by("overlay"))
    (move,) = alone.moves
    assert 65.0 <= move.at_s < 70.0
    lost = {"at_s": 62.0, "site": move.to_site, "lost": True}
    course = run_adapted(scenario(less, lost, seconds=240), decided_by("overlay"))
    made = [each for each in course.moves if each.asked_by == "adapting: overlay"]
    assert made
    assert all(each.from_site == "a" and each.to_site != move.to_site for each in made)
    assert course.traffic.messages["RequestLock"] > alone.traffic.messages["RequestLock"]
