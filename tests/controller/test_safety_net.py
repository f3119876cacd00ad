"""Whatever a decider is after, sites that have been too full for some looks are relieved."""

from __future__ import annotations

from mooring.contracts.decider import Proposal
from mooring.contracts.picture import Picture, picture_of
from mooring.controller.safety_net import SafetyNet
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


def picture(rate: float) -> Picture:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
            "streams": {"x": {"rate": rate}},
            "operators": {name: {"inputs": ["x"], "cost_us": 3000} for name in ("f", "g", "h")},
        }
    )
    return picture_of(problem, Placement.from_dict(problem, dict.fromkeys("fgh", "a")))


def nothing(seen: Picture) -> Proposal:
    return seen.propose({}, "all is as this decider wants it")


def test_a_site_that_stays_too_full_is_relieved_as_a_violation() -> None:
    net, full = SafetyNet(looks=2), picture(120.0)
    assert net.catch(nothing(full), full) is None
    caught = net.catch(nothing(full), full)
    assert caught is not None
    assert caught.violation
    assert caught.reason.startswith("safety net: a is too full for 2 looks: the headroom")


def test_one_look_with_room_and_any_move_begin_the_count_anew() -> None:
    net, full, room = SafetyNet(looks=2), picture(120.0), picture(50.0)
    assert net.catch(nothing(full), full) is None
    assert net.catch(nothing(room), room) is None
    assert net.catch(nothing(full), full) is None
    net.moved()
    assert net.catch(nothing(full), full) is None


def test_a_decider_that_mends_it_is_given_time_but_not_for_ever() -> None:
    net, full = SafetyNet(looks=2), picture(120.0)
    mending = full.propose({"f": "b"}, "it mends it")
    caught = [net.catch(mending, full) is not None for _ in range(8)]
    assert caught == [False] * 7 + [True]


def test_without_looks_there_is_no_net() -> None:
    net, full = SafetyNet(looks=0), picture(200.0)
    assert all(net.catch(nothing(full), full) is None for _ in range(9))
