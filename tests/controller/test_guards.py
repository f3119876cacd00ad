"""Guards judge whole proposals, cut them short where that is enough, and say why they refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mooring.algorithms.headroom.decider import HeadroomOptions, propose
from mooring.contracts.decider import Proposal, ProposedMove
from mooring.contracts.picture import Picture, picture_of
from mooring.controller.guards import GuardOptions, Guards, Verdict
from mooring.errors import InputError
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem

NAMES = [f"f{k}" for k in range(6)]


def picture(state_bytes: float = 0.0, rate: float = 75.0) -> Picture:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}, "c": {"capacity": 1}},
            "streams": {"x": {"rate": rate}},
            "operators": {
                name: {"inputs": ["x"], "cost_us": 2000, "state_bytes": state_bytes} for name in NAMES
            },
        }
    )
    return picture_of(problem, Placement.from_dict(problem, dict.fromkeys(NAMES, "a")))


def proposal(seen: Picture) -> Proposal:
    made = propose(seen, HeadroomOptions(enough=9.0, least_gain=1.01, max_moves=4))
    assert len(made.moves) == 4
    return made


def judged(guards: Guards, seen: Picture, at_s: float = 0.0, **options: Any) -> Verdict:
    return guards.judge(proposal(seen), seen, at_s, MoveTimes(), **options)


def test_a_proposal_has_to_stand_for_some_looks() -> None:
    guards, seen = Guards(GuardOptions(looks=3)), picture()
    verdicts = [judged(guards, seen, at_s) for at_s in (0.0, 5.0, 10.0)]
    assert [verdict.accepted is not None for verdict in verdicts] == [False, False, True]
    assert verdicts[0].why == "proposed at 1 of 3 looks in a row"


def test_what_mends_a_violation_has_been_watched_already() -> None:
    guards, seen = Guards(GuardOptions(looks=3)), picture()
    mending = replace(proposal(seen), violation=True)
    assert guards.judge(mending, seen, 0.0, MoveTimes()).accepted is not None
    guards = Guards(GuardOptions(looks=3, looks_violated=2))
    assert guards.judge(mending, seen, 0.0, MoveTimes()).why.endswith("1 of 2 looks in a row")
    assert guards.judge(mending, seen, 5.0, MoveTimes()).accepted is not None


def test_within_a_pause_what_mends_a_violation_waits_and_everything_else_is_refused() -> None:
    guards, seen = Guards(GuardOptions(looks=1, pause_s=60.0)), picture()
    guards.moved(["f5"], 0.0)
    assert not judged(guards, seen, 40.0).wait
    verdict = guards.judge(replace(proposal(seen), violation=True), seen, 40.0, MoveTimes())
    assert (verdict.accepted, verdict.wait) == (None, True)


@pytest.mark.parametrize(
    ("options", "violation", "accepted", "why"),
    [
        (GuardOptions(looks=1, most_share=0.3), False, 0, "it changes 33% of the load of a"),
        (GuardOptions(looks=1, most_share=0.3), True, 2, ""),
        (GuardOptions(looks=1, most_share=0.4), False, 2, ""),
        (GuardOptions(looks=1, most_share=0.9), False, 4, ""),
        (
            GuardOptions(looks=1, moves_per_hour=1),
            True,
            0,
            "it has 2 moves, and the hourly limit allows 1 more",
        ),
        (GuardOptions(looks=1, moves_per_hour=3), True, 2, ""),
    ],
)
def test_a_plan_is_accepted_whole_or_refused_whole(
    options: GuardOptions, violation: bool, accepted: int, why: str
) -> None:
    seen = picture()
    whole = replace(proposal(seen), plans=(2, 2), violation=violation)
    verdict = Guards(options).judge(whole, seen, 0.0, MoveTimes())
    assert (0 if verdict.accepted is None else len(verdict.accepted.moves)) == accepted
    assert verdict.accepted is None or verdict.accepted.plans == (2,) * (accepted // 2)
    assert why in verdict.why


@pytest.mark.parametrize(
    ("low", "told", "accepted"),
    [(1.0, {}, True), (0.3, {}, False), (0.3, {"sure": True}, True), (0.3, {"violation": True}, True)],
    ids=["it is so in any case", "it may be noise", "its decider is sure", "something is broken"],
)
def test_what_is_worth_it_only_if_rates_are_not_lower_is_refused(
    low: float, told: dict[str, Any], accepted: bool
) -> None:
    seen = picture()
    seen = replace(seen, low_rates=low * seen.rates)
    verdict = Guards(GuardOptions(looks=1, least_gain=0.3)).judge(
        replace(proposal(seen), **told), seen, 0.0, MoveTimes()
    )
    assert (verdict.accepted is not None) == accepted
    assert accepted or "at the low end of the measured rates" in verdict.why


def test_a_fragment_is_not_moved_to_a_site_that_has_too_little_for_it_alone() -> None:
    def whole(small: float) -> tuple[Picture, Proposal]:
        problem = Problem.from_dict(
            {
                "sites": {"cluster": {"capacity": 2}, "small": {"capacity": small}},
                "streams": {"x": {"rate": 100}},
                "operators": {name: {"inputs": ["x"], "cost_us": 9000} for name in ("join", "count")},
            }
        )
        seen = picture_of(problem, Placement.from_dict(problem, {"join": "cluster", "count": "cluster"}))
        made = propose(seen, HeadroomOptions(enough=9.0, least_gain=0.0, max_moves=1))
        move = ProposedMove(Move("join", "cluster", "small"), made.now)
        return seen, replace(made, moves=(move,), plans=())

    guards = Guards(GuardOptions(looks=1, most_share=1.0))
    seen, made = whole(0.5)
    assert guards.judge(made, seen, 0.0, MoveTimes()).why == "join needs 0.90 cores, and small has 0.50"
    seen, made = whole(1.0)
    assert "needs" not in guards.judge(made, seen, 0.0, MoveTimes()).why


def test_one_look_without_moves_begins_the_count_anew() -> None:
    guards, seen = Guards(GuardOptions(looks=2)), picture()
    judged(guards, seen)
    guards.judge(Proposal(proposal(seen).now, (), "enough"), seen, 5.0, MoveTimes())
    assert judged(guards, seen, 10.0).accepted is None


def test_the_budget_of_an_hour_cuts_a_proposal_short() -> None:
    guards, seen = Guards(GuardOptions(looks=1, moves_per_hour=3, pause_s=0.0, most_share=1.0)), picture()
    guards.moved(["f5"], 0.0)
    accepted = judged(guards, seen, 100.0).accepted
    assert accepted is not None
    assert len(accepted.moves) == 2
    guards.moved(["f4", "f3"], 100.0)
    assert "3 moves within the last hour, limit 3" in judged(guards, seen, 200.0).why
    accepted = judged(guards, seen, 3601.0).accepted
    assert accepted is not None
    assert len(accepted.moves) == 1


def test_no_more_than_a_share_of_a_site_leaves_at_once() -> None:
    accepted = judged(Guards(GuardOptions(looks=1, most_share=0.4)), picture()).accepted
    assert accepted is not None
    assert len(accepted.moves) == 2


def test_after_a_list_and_after_recovery_there_is_a_pause() -> None:
    guards, seen = Guards(GuardOptions(looks=1, pause_s=60.0)), picture()
    guards.moved(["f5"], 0.0)
    assert "pause after the last change: 20 s of 60 s left" in judged(guards, seen, 40.0).why
    assert judged(guards, seen, 61.0).accepted is not None
    guards.recovered(100.0)
    assert judged(guards, seen, 120.0).accepted is None


def test_what_is_under_way_is_left_alone() -> None:
    guards = Guards(GuardOptions(looks=1))
    assert judged(guards, picture(), busy="recovery starts f1").why == "recovery starts f1"


def test_hours_in_which_nothing_is_moved_may_pass_midnight() -> None:
    guards = Guards(GuardOptions(looks=1, quiet_hours=((79_200.0, 21_600.0),)))
    assert judged(guards, picture(), 80_000.0).accepted is None
    assert judged(guards, picture(), 86_400.0 + 3_600.0).accepted is None
    assert judged(guards, picture(), 86_400.0 + 30_000.0).accepted is not None


def test_state_that_takes_longer_to_carry_than_it_helps_stays() -> None:
    guards = Guards(GuardOptions(looks=1))
    verdict = judged(guards, picture(state_bytes=200e9))
    assert verdict.accepted is None
    assert "tuple-seconds; the moves cost" in verdict.why


def test_what_saves_next_to_nothing_is_refused() -> None:
    guards, seen = Guards(GuardOptions(looks=1, least_gain=0.99)), picture(rate=45.0)
    assert (
        "of the tuples under way of its queries, less than the threshold of 99%" in judged(guards, seen).why
    )


def test_what_was_refused_as_too_little_does_not_pass_by_luck() -> None:
    """A tenth would do, had nothing less been tried; what is not drawn is not asked for more."""
    seen = picture(rate=45.0)
    now, made = proposal(seen).now, proposal(seen)
    before = 1000.0

    def saving(tuples: float, *, drawn: bool = True) -> Proposal:
        after = [
            replace(each, after=replace(each.after, tuples_under_way=before - tuples)) for each in made.moves
        ]
        return replace(made, now=replace(now, tuples_under_way=before), moves=tuple(after), drawn=drawn)

    def passes(guards: Guards, *saved: Proposal) -> list[bool]:
        return [guards.judge(each, seen, 0.0, MoveTimes()).accepted is not None for each in saved]

    options = GuardOptions(looks=1, least_gain=0.08, hysteresis=1.5, worth=0.0, most_share=1.0)
    assert passes(Guards(options), saving(96.0)) == [True]
    guards = Guards(options)
    assert passes(guards, saving(0.0), saving(96.0), saving(96.0, drawn=False), saving(130.0)) == [
        False,
        False,
        True,
        True,
    ]
    guards.moved(["f1"], -100.0)
    assert passes(guards, saving(96.0)) == [True]


def test_what_only_improves_leaves_moves_for_what_has_to_be_moved() -> None:
    options = GuardOptions(looks=1, moves_per_hour=4, reserved_share=0.5, pause_s=0.0, most_share=1.0)
    guards, seen = Guards(options), picture()
    guards.moved(["f1", "f2"], 0.0)
    assert judged(guards, seen, 10.0).why == (
        "2 moves within the last hour, limit 4; the other 2 are reserved for necessary moves"
    )
    needed = guards.judge(replace(proposal(seen), violation=True), seen, 10.0, MoveTimes()).accepted
    assert needed is not None
    assert len(needed.moves) == 2


def test_a_fragment_that_was_moved_often_or_to_no_good_is_held() -> None:
    guards = Guards(GuardOptions(moves_of_one_per_hour=2, bar_s=100.0, untouched=frozenset({"f0"})))
    guards.moved(["f1"], 0.0)
    guards.moved(["f1"], 10.0)
    guards.bar("f2", 10.0)
    assert guards.held(20.0).keys() == {"f0", "f1", "f2"}
    assert guards.held(4000.0).keys() == {"f0"}


def test_what_relieves_a_site_that_is_too_full_is_delayed_but_never_weighed() -> None:
    """It waits less than others, at the first look, and for whatever it costs or saves."""
    full = picture(rate=100.0, state_bytes=2e9)
    strict = GuardOptions(looks=9, least_gain=1.0, worth=1e9, pause_s=60.0, pause_violated_s=30.0)
    guards = Guards(strict)
    guards.moved(["f5"], 0.0)
    verdict = judged(guards, full, 20.0)
    assert (verdict.accepted, verdict.wait) == (None, True)
    assert verdict.why == "pause after the last change: 10 s of 30 s left"
    assert judged(guards, full, 31.0).accepted is not None
    assert judged(Guards(strict), picture(), 31.0).accepted is None


@pytest.mark.parametrize("violation", [True, False])
def test_nobody_may_make_an_overloaded_site_worse_or_a_new_one(violation: bool) -> None:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}, "b": {"capacity": 0.5}, "c": {"capacity": 1}},
            "streams": {"x": {"rate": 100}},
            "operators": {name: {"inputs": ["x"], "cost_us": 3000} for name in NAMES},
        }
    )
    sites = {**dict.fromkeys(NAMES[:4], "a"), "f4": "c", "f5": "b"}
    seen = picture_of(problem, Placement.from_dict(problem, sites))
    guards = Guards(GuardOptions(looks=1, most_share=1.0, worth=0.0))
    worse = replace(seen.propose({"f4": "a"}, "worse"), violation=violation, sure=True)
    assert "which is overloaded" in guards.judge(worse, seen, 0.0, MoveTimes()).why
    other = replace(seen.propose({"f4": "b"}, "a new one"), violation=violation, sure=True)
    assert "it would overload site b" in guards.judge(other, seen, 0.0, MoveTimes()).why
    undone = [Move("f4", "c", "a")]
    assert "which is overloaded" in guards.harm(undone, seen)


def _near_and_far(big: float = 200.0) -> Picture:
    """Ten queries alike, each with a projection on the wrong side of a link."""
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 9}, "b": {"capacity": 9}},
            "latency_ms": {"a": {"b": 40}},
            "streams": {f"x{k}": {"site": "a", "rate": 50, "bytes": 100_000} for k in range(10)},
            "operators": {f"f{k}": {"inputs": [f"x{k}"], "cost_us": 100, "bytes": big} for k in range(10)},
            "queries": {f"q{k}": {"reads": f"f{k}", "site": "b"} for k in range(10)},
        }
    )
    return picture_of(problem, Placement.from_dict(problem, {f"f{k}": "b" for k in range(10)}))


def test_bytes_are_a_gain_of_their_own_and_weighed_against_the_queries_they_touch() -> None:
    seen = _near_and_far()
    guards = Guards(GuardOptions(looks=1, most_share=1.0))
    assert guards.judge(seen.propose({"f3": "a"}, "near"), seen, 0.0, MoveTimes()).accepted is not None


def test_refused_gains_of_the_same_queries_add_up() -> None:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 9}, "b": {"capacity": 9}},
            "latency_ms": {"a": {"b": 40}},
            "streams": {"x": {"site": "a", "rate": 50, "bytes": 100}},
            "operators": {
                **{f"f{k}": {"inputs": ["x"], "cost_us": 100, "bytes": 95} for k in range(4)},
                "all": {"inputs": [f"f{k}" for k in range(4)], "cost_us": 100, "site": "b"},
            },
            "queries": {"q": {"reads": "all", "site": "b"}},
        }
    )
    where = {**{f"f{k}": "b" for k in range(4)}, "all": "b"}
    seen = picture_of(problem, Placement.from_dict(problem, where))
    guards = Guards(GuardOptions(looks=1, most_share=1.0, least_gain=0.04, worth=0.0))
    # One at a time, each saves 1.25% of what their query has in flight.
    verdicts = [
        guards.judge(seen.propose({f"f{k}": "a"}, "near"), seen, float(k), MoveTimes()) for k in range(4)
    ]
    assert [verdict.accepted is not None for verdict in verdicts] == [False, False, False, True]
    assert "less than the threshold of 4%" in verdicts[0].why


def test_the_budget_of_an_hour_grows_with_the_run() -> None:
    assert [GuardOptions().most_per_hour(sites) for sites in (3, 20, 100, 400)] == [12, 12, 60, 240]
    assert GuardOptions(moves_per_hour=5).most_per_hour(400) == 5


@pytest.mark.parametrize(
    "wrong",
    [
        {"looks": 0},
        {"looks_violated": 0},
        {"most_share": 0.0},
        {"pause_s": -1.0},
        {"net_looks": -1},
        {"moves_per_hour": -1},
        {"hysteresis": 0.5},
        {"reserved_share": 1.5},
        {"least_gain": float("nan")},
    ],
)
def test_guards_that_make_no_sense_are_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InputError, match=f"guards.{name}: found"):
        GuardOptions(**wrong)
