"""Leases where nothing fails: who gets one, who does not, and what is done about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lab.faults.checkers import Step, WorldView
from lab.faults.harness import Harness
from lab.faults.leases.parallel_mover import ParallelMover
from lab.faults.scenario import Request, Scenario
from mooring.algorithms.overlay.leases.adaptation_messages import (
    LinkMeasured,
    LoadMeasured,
    NeedPlan,
    Unsatisfied,
)
from mooring.algorithms.overlay.leases.lease_client import LeaseEnded
from mooring.algorithms.overlay.leases.lease_messages import (
    HoldLocks,
    LeasePlan,
    LockDenied,
    LockGranted,
    RequestLock,
    in_conflict,
)
from mooring.algorithms.overlay.leases.lease_params import LeaseParams
from mooring.algorithms.overlay.leases.lease_site import ApplyPlan, LeaseSite, LeaseStart
from mooring.algorithms.overlay.leases.lock_manager import Keeper
from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings
from mooring.algorithms.overlay.search.final_plans import FinalPlan
from mooring.algorithms.overlay.search.replicas import replica_number
from mooring.algorithms.overlay.search.shared_operator import NOWHERE, QueryEnd, SharedOperator, Source
from mooring.contracts.site_machine import Output, Send
from mooring.coordination.move_messages import Done, FragmentMove, StartedAt

SITES = 6
LIMIT_MS = 100.0
HOP_MS = 10.0
PARAMS = LeaseParams(report_ms=200.0, review_ms=1e6, retry_ms=100.0, rest_ms=50.0)

# Figure 2: o1 and o2 are shared; o3 is of q2 alone, o4 of q1 alone.
OPERATORS = [
    SharedOperator(1, sources=(Source(0),), output_rate=10.0, cores=1.0),
    SharedOperator(2, publishers=(1,), output_rate=5.0, cores=1.0),
    SharedOperator(3, publishers=(2,), ends=(QueryEnd(2, 5, LIMIT_MS),), cores=1.0),
    SharedOperator(4, publishers=(2,), ends=(QueryEnd(1, 5, LIMIT_MS),), cores=1.0),
]
HOMES = {1: 1, 2: 2, 3: 3, 4: 4}
COPIES = [replica_number(operator, query) for operator in (1, 2) for query in (1, 2)]


class Listener:
    name = "listens"

    def __init__(self) -> None:
        self.outputs: list[tuple[float, Any]] = []
        self.sent: list[tuple[int, int, Any]] = []

    def after_step(self, step: Step, world: WorldView) -> str | None:
        for effect in step.effects:
            if isinstance(effect, Output):
                self.outputs.append((step.time_ms, effect.value))
            elif isinstance(effect, Send):
                self.sent.append((step.site, effect.to, effect.message))
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        return [(each.plan.kind, each.outcome) for _, each in self.outputs if isinstance(each, LeaseEnded)]


def run(
    requests: Sequence[tuple[float, int, Any]],
    plans: Mapping[int, Sequence[FinalPlan]] | None = None,
    params: LeaseParams = PARAMS,
    until_ms: float = 8000.0,
    usable_cores: float = 2.0,
    homes: Mapping[int, int] = HOMES,
    operators: Sequence[SharedOperator] = OPERATORS,
) -> tuple[Harness, Listener]:
    places = [StartedAt(operator, site, 1) for operator, site in homes.items()]
    places += [StartedAt(number, NOWHERE, 0) for number in COPIES]

    def plans_for(operator: int, around: OverlaySurroundings) -> Sequence[FinalPlan]:
        return (plans or {}).get(operator, ())

    def make(site: int, peers: int, generator: np.random.Generator) -> LeaseSite | ParallelMover:
        if site == SITES:
            return ParallelMover(SITES, generator, places, refused_share=0.0, failed_share=0.0)
        far = {other: HOP_MS for other in range(SITES) if other != site}
        start = LeaseStart(operators, places, usable_cores, 100.0, far, params, plans_for=plans_for)
        return LeaseSite(site, SITES, generator, start)

    latency_ms = tuple(tuple(HOP_MS * (a != b) for b in range(SITES + 1)) for a in range(SITES + 1))
    asked = tuple(Request(at_ms, site, request) for at_ms, site, request in requests)
    listener = Listener()
    harness = Harness(Scenario(0, latency_ms, until_ms, requests=asked), make, [listener])
    assert harness.finish() is None, harness.violation
    return harness, listener


def where(harness: Harness) -> dict[int, int]:
    return {place.fragment: place.site for place in harness.machine(SITES).memory.places}


def slower(a: int, b: int, ms: float, at_ms: float = 1000.0) -> list[tuple[float, int, Any]]:
    return [(at_ms, a, LinkMeasured(b, ms)), (at_ms, b, LinkMeasured(a, ms))]


def change(moves: Sequence[tuple[int, int]], bandwidth: float, **ms: float) -> FinalPlan:
    changes = tuple((int(query[1:]), by_ms) for query, by_ms in ms.items())
    return FinalPlan(tuple(moves), bandwidth, changes)


def test_plans_that_affect_different_queries_are_carried_out_in_parallel() -> None:
    """As in the paper: n3 and n4 move only o3 and o4."""
    harness, heard = run([(100.0, 3, ApplyPlan(2, ((3, 0),))), (100.0, 4, ApplyPlan(1, ((4, 0),)))])
    assert heard.outcomes == [("migrate", "done")] * 2
    assert where(harness)[3] == where(harness)[4] == 0


def test_of_two_plans_for_a_shared_operator_the_first_gets_the_lease() -> None:
    harness, heard = run([(100.0, 2, ApplyPlan(1, ((2, 0),))), (130.0, 4, ApplyPlan(2, ((2, 3),)))])
    assert sorted(heard.outcomes) == [("migrate", "denied"), ("migrate", "done")]
    assert where(harness)[2] == 0


def test_the_first_shared_site_that_denies_a_request_passes_it_on_to_nobody() -> None:
    """Property 1: upstream of a shared operator there is nobody who knows of other queries."""
    _, heard = run([(100.0, 2, ApplyPlan(1, ((2, 0),))), (130.0, 4, ApplyPlan(2, ((2, 3),)))])
    second = [each for each in heard.sent if isinstance(each[2], RequestLock) and each[2].id[0] == 4]
    denied = [each for each in heard.sent if isinstance(each[2], LockDenied)]
    assert denied
    assert {sender for sender, _, _ in second} == {4}


def test_a_migration_locks_what_is_upstream_and_every_dependent_query_to_its_end() -> None:
    _, heard = run([(100.0, 2, ApplyPlan(1, ((2, 0),)))])
    asked = {(m.operator, m.room) for _, _, m in heard.sent if isinstance(m, RequestLock)}
    assert asked == {(2, False), (2, True), (1, False), (3, False), (4, False), (-2, False), (-3, False)}


def test_indirectly_dependent_plans_conflict_by_the_query_that_depends_on_both() -> None:
    one = LeasePlan("migrate", 0, (FragmentMove(1, 0, 1, 1),), (0, 5))
    other = LeasePlan("migrate", 3, (FragmentMove(8, 0, 1, 1),), (3, 5))
    alone = LeasePlan("migrate", 4, (FragmentMove(9, 0, 1, 1),), (4,))
    assert in_conflict(one, other)
    assert not in_conflict(one, alone)


def test_copies_conflict_only_with_what_their_query_goes_on_reading() -> None:
    copies = LeasePlan("replicate", 1, (FragmentMove(2_000_002, -1, 0, 0),), (1,), relies_on=(1, 4))
    moves_2 = LeasePlan("migrate", 2, (FragmentMove(2, 2, 0, 1),), (1, 2))
    moves_1 = LeasePlan("migrate", 2, (FragmentMove(1, 1, 0, 1),), (1, 2))
    assert not in_conflict(copies, moves_2)
    assert in_conflict(copies, moves_1)


def test_everybody_learns_where_an_operator_has_gone() -> None:
    harness, _ = run([(100.0, 2, ApplyPlan(1, ((2, 0),)))])
    assert all(harness.machine(site).around.where[2].site == 0 for site in range(SITES))


def test_a_plan_that_misses_a_limit_by_what_is_measured_now_gets_no_lease() -> None:
    """Site 0 has become far from everything since the plan was made."""
    far = [request for other in (1, 2, 3, 4, 5) for request in slower(0, other, 70.0, at_ms=50.0)]
    _, heard = run([*far, (1000.0, 2, ApplyPlan(1, ((4, 0),)))])
    assert heard.outcomes == [("migrate", "stale")]


def test_a_target_without_room_denies() -> None:
    _, heard = run([(100.0, 2, ApplyPlan(1, ((4, 3),)))], usable_cores=1.0)
    assert heard.outcomes == [("migrate", "denied")]
    assert "no room" in heard.outputs[0][1].reason


PLAN_FOR_4 = change([(4, 2)], 1.0, q1=-10.0)


def test_the_room_of_what_leaves_is_nobody_elses_until_its_list_is_over() -> None:
    """If another move of the list fails, it comes back."""
    own = SharedOperator(5, sources=(Source(0),), ends=(QueryEnd(3, 5, LIMIT_MS),), cores=1.0)
    places = [StartedAt(operator, site, 1) for operator, site in {**HOMES, 5: 3}.items()]
    around = OverlaySurroundings(1, [*OPERATORS, own], places, 1.0, 100.0, {})
    around.informed = True
    keeper = Keeper(around, SITES, PARAMS)
    leaves = LeasePlan("migrate", 1, (FragmentMove(1, 1, 2, 1),), (1, 2), cores=((1, 1.0),))
    comes = LeasePlan("migrate", 3, (FragmentMove(5, 3, 1, 1),), (3,), cores=((5, 1.0),))

    def asked(plan: LeasePlan, number: int, *, room: bool) -> Any:
        operator = plan.moves[0].fragment
        return keeper.receive(0, RequestLock((0, 0, number), plan, operator, room), 0.0)[-1]

    assert isinstance(asked(leaves, 1, room=False).message, LockGranted)
    keeper.receive(0, HoldLocks((0, 0, 1), 1), 0.0)
    around.learn([StartedAt(1, 2, 2)])
    denied = asked(comes, 2, room=True).message
    assert isinstance(denied, LockDenied)
    assert denied.reason == "no room at this site"
    keeper.answered(Done((0, 0, 1), (StartedAt(1, 2, 2),)), 0.0)
    assert isinstance(asked(comes, 2, room=True).message, LockGranted)


def test_a_slow_link_is_answered_by_the_stored_plan_within_a_few_round_trips() -> None:
    """From o2 at site 2 to o4 at site 4 it takes 80 ms: q1 takes 110 of 100. Round trips are 20 ms; the move
    itself is the mover's."""
    harness, heard = run(slower(2, 4, 80.0), {4: [PLAN_FOR_4]})
    assert where(harness)[4] == 2
    proposed = [m for _, _, m in heard.sent if type(m).__name__ == "Proposed"]
    assert proposed[0].promise.latency_ms == ((1, 30.0),)
    begun = next(step for step in heard.sent if isinstance(step[2], RequestLock))
    assert begun[0] == 4


def test_a_plan_that_is_not_there_is_asked_for_downstream_with_the_congested_link_named() -> None:
    """The host of o2 sees the link from o1 and has no plan; that of o4 moves o2 as well."""
    both = change([(2, 1), (4, 5)], 0.0, q1=-10.0, q2=-5.0)
    harness, heard = run(slower(1, 2, 90.0), {4: [both]})
    needs = [m for _, to, m in heard.sent if isinstance(m, NeedPlan)]
    assert {(link.a, link.b) for need in needs for link in need.congested} == {(2, 1)}
    assert (where(harness)[2], where(harness)[4]) == (1, 5)


def test_without_any_plan_the_last_host_says_so() -> None:
    _, heard = run(slower(2, 4, 80.0))
    assert any(isinstance(value, Unsatisfied) and value.query == 1 for _, value in heard.outputs)


def test_a_query_that_comes_back_to_a_site_is_given_up_there_and_not_asked_for_round_and_round() -> None:
    """o1 and o4 at site 1, o2 between them at site 2. What o4's host does not have, that of o2 has not."""
    _, heard = run(slower(1, 2, 90.0), homes=HOMES | {4: 1})
    needs = [(site, to) for site, to, m in heard.sent if isinstance(m, NeedPlan) and m.query == 1]
    assert set(needs) <= {(2, 1)}
    assert len(needs) <= 2
    assert any(isinstance(value, Unsatisfied) and value.query == 1 for _, value in heard.outputs)


def test_sites_that_are_downstream_of_each_other_are_asked_once_each() -> None:
    """q1 reads o2 over o1, and o4 over o3: o1 and o4 at site 1, o2 and o3 at site 2."""
    ends = (QueryEnd(1, 5, LIMIT_MS),)
    crossed = [
        SharedOperator(1, sources=(Source(0),), output_rate=10.0, cores=1.0),
        SharedOperator(2, publishers=(1,), ends=ends, cores=1.0),
        SharedOperator(3, sources=(Source(0),), output_rate=10.0, cores=1.0),
        SharedOperator(4, publishers=(3,), ends=ends, cores=1.0),
    ]
    _, heard = run(slower(1, 2, 150.0), homes={1: 1, 2: 2, 3: 2, 4: 1}, operators=crossed)
    needs = [(m.asked, to) for _, to, m in heard.sent if isinstance(m, NeedPlan)]
    assert 0 < len(needs) <= 4
    assert all(to not in asked for asked, to in needs)
    assert any(isinstance(value, Unsatisfied) and value.query == 1 for _, value in heard.outputs)


def test_a_plan_that_another_lease_makes_redundant_is_not_carried_out() -> None:
    """Both queries are late because of the link from o1 to o2; both hosts have a plan that moves o2."""
    mends = [change([(2, 1)], 0.0, q1=-10.0, q2=-10.0)]
    harness, heard = run(slower(1, 2, 90.0), {3: mends, 4: mends})
    assert heard.outcomes.count(("migrate", "done")) == 1
    assert where(harness)[2] == 1


def migrations(heard: Listener) -> list[tuple[int, str, list[tuple[int, int]]]]:
    """Who sought what, and what became of it."""
    return [
        (each.id[0], each.outcome, [(move.fragment, move.to_site) for move in each.plan.moves])
        for _, each in heard.outputs
        if isinstance(each, LeaseEnded)
    ]


def test_a_plan_beside_the_one_that_is_in_the_way_is_the_alternative() -> None:
    """While o3 moves for q2, q1 becomes late. The best plan for it moves o2, which q2 reads; another moves
    only what q1 reads, and is carried out at the same time."""
    plans = {4: [change([(2, 0)], -5.0, q1=-40.0, q2=0.0), PLAN_FOR_4]}
    requests = [(990.0, 3, ApplyPlan(2, ((3, 0),))), *slower(2, 4, 80.0, at_ms=1010.0)]
    _, heard = run(requests, plans)
    (first, *rest) = migrations(heard)
    assert first == (4, "denied", [(2, 0)])
    assert sorted(rest) == [(3, "done", [(3, 0)]), (4, "done", [(4, 2)])]


def test_a_plan_on_top_of_the_one_that_is_in_the_way_is_taken_before_any_copy() -> None:
    """o2 goes to site 0 for q2's sake, which does not help q1: it needs o4 there as well."""
    plans = {
        4: [
            change([(2, 3)], -5.0, q1=-20.0, q2=0.0),
            change([(2, 0), (4, 0)], 0.0, q1=-10.0, q2=0.0),
        ]
    }
    slow = [*slower(2, 4, 85.0, at_ms=1010.0), *slower(0, 4, 85.0, at_ms=1010.0)]
    harness, heard = run([(990.0, 3, ApplyPlan(2, ((2, 0),))), *slow], plans, usable_cores=3.0)
    assert (where(harness)[2], where(harness)[4]) == (0, 0)
    assert (4, "done", [(4, 0)]) in migrations(heard)
    assert all(kind == "migrate" for kind, _ in heard.outcomes)


def test_where_nothing_else_works_a_query_gets_copies_and_gives_them_back() -> None:
    """q1 needs o2 at site 0. While it is being moved elsewhere for q2's sake, q1 gets a copy. As soon as the
    shared operator will do, it reads that again."""
    params = LeaseParams(report_ms=200.0, review_ms=2500.0, retry_ms=100.0, rest_ms=50.0, least_saving=1e9)
    plans = {4: [change([(2, 0)], 0.0, q1=-20.0, q2=0.0)]}
    requests = [
        (990.0, 3, ApplyPlan(2, ((2, 5),))),
        *slower(2, 4, 85.0, at_ms=1010.0),
        *slower(5, 4, 85.0, at_ms=1010.0),
        *slower(2, 4, 10.0, at_ms=6000.0),
        *slower(5, 4, 10.0, at_ms=6000.0),
    ]
    harness, heard = run(requests, plans, params, until_ms=16_000.0)
    assert ("replicate", "done") in heard.outcomes
    assert ("merge", "done") in heard.outcomes
    assert where(harness)[replica_number(2, 1)] == NOWHERE


def test_where_no_copies_are_made_that_is_said_by_name() -> None:
    """As on Spark: q1 could be mended by a copy alone."""
    params = LeaseParams(report_ms=200.0, review_ms=1e6, retry_ms=100.0, rest_ms=50.0, replicates=False)
    plans = {4: [change([(2, 0)], 0.0, q1=-20.0, q2=0.0)]}
    slow = [*slower(2, 4, 85.0, at_ms=1010.0), *slower(5, 4, 85.0, at_ms=1010.0)]
    _, heard = run([(990.0, 3, ApplyPlan(2, ((2, 5),))), *slow], plans, params)
    assert {kind for kind, _ in heard.outcomes} == {"migrate"}
    said = [value.reason for _, value in heard.outputs if isinstance(value, Unsatisfied)]
    assert any(reason.startswith("only copies of operators for this query") for reason in said)


def test_a_site_that_is_too_full_moves_something_away() -> None:
    """Two operators of one core at site 4, of two; then one of them needs one and a half."""
    crowded = [(100.0, 3, ApplyPlan(2, ((3, 4),))), (4000.0, 4, LoadMeasured(4, 1.5))]
    relieves = change([(4, 0)], 2.0, q1=0.0)
    harness, _ = run(crowded, {4: [relieves]})
    assert (where(harness)[3], where(harness)[4]) == (4, 0)
    harness, heard = run(crowded, {4: [change([(4, 1)], 2.0, q1=0.0)]})
    assert where(harness)[4] == 4  # with o1 there, site 1 has one core left
    assert ("migrate", "denied") in heard.outcomes


def test_bandwidth_is_improved_while_nothing_is_wrong() -> None:
    params = LeaseParams(report_ms=200.0, review_ms=1000.0, retry_ms=100.0)
    harness, heard = run([], {4: [change([(4, 2)], -5.0, q1=-10.0)]}, params, until_ms=4000.0)
    assert where(harness)[4] == 2
    assert ("migrate", "done") in heard.outcomes
