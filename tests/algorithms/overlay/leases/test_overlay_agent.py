"""A site's whole part in an overlay: nothing before it is told of the operators, plans made ahead then."""

from __future__ import annotations

import numpy as np

from mooring.algorithms.overlay.leases.adaptation_messages import CapacityMeasured, LatencyIs, QueryMeasured
from mooring.algorithms.overlay.leases.lease_messages import (
    AskOperators,
    KnownOperators,
    LockDenied,
    LockGranted,
    RequestLock,
)
from mooring.algorithms.overlay.leases.overlay_agent import OverlayAgent, OverlayAgentParams
from mooring.algorithms.overlay.protocol.messages import Echo
from mooring.algorithms.overlay.search.shared_operator import QueryEnd, SharedOperator, Source
from mooring.contracts.site_machine import Asked, Data, Effect, Received, Send, Started, TimerDue
from mooring.coordination.move_messages import (
    LookUp,
    Proposed,
    StartedAt,
    StatedLatencies,
    Whereabouts,
    mover_of,
)

SITES, MOVER = 2, mover_of(2)
OPERATORS = (
    SharedOperator(0, sources=(Source(0, 100.0),), output_rate=50.0, cores=0.3, tuples=30.0),
    SharedOperator(
        1, publishers=(0,), ends=(QueryEnd(0, 0, 5_000.0),), output_rate=20.0, cores=0.3, tuples=30.0
    ),
)


class Pair:
    """Two sites and no network: what they send arrives at once, what they send to the mover is kept."""

    def __init__(self) -> None:
        self.sites = [
            OverlayAgent(site, SITES, np.random.default_rng(site), OverlayAgentParams())
            for site in range(SITES)
        ]
        self.to_mover: list[Data] = []
        self.sent: list[Data] = []
        self.now_ms = 0.0
        for site in range(SITES):
            self.carry(site, self.sites[site].handle(Started(0, None), 0.0))

    def carry(self, site: int, effects: object) -> None:
        todo = [(site, effect) for effect in effects]  # type: ignore[attr-defined]
        while todo:
            sender, effect = todo.pop(0)
            if isinstance(effect, Send):
                self.sent.append(effect.message)
                if effect.to == MOVER:
                    self.to_mover.append(effect.message)
                    continue
                more: tuple[Effect, ...] = tuple(
                    self.sites[effect.to].handle(Received(sender, effect.message), self.now_ms)
                )
                todo += [(effect.to, each) for each in more]

    def tell(self, site: int, message: Data) -> None:
        self.carry(site, self.sites[site].handle(Received(MOVER, message), self.now_ms))

    def ask(self, site: int, request: Data) -> None:
        self.carry(site, self.sites[site].handle(Asked(request), self.now_ms))

    def knows(self, site: int) -> bool:
        return self.sites[site].lease is not None

    def brief(self) -> None:
        for site in range(SITES):
            self.tell(site, KnownOperators(0, 2, OPERATORS[:1], 0.95, 1e3, 0.0))
            self.tell(site, KnownOperators(1, 2, OPERATORS[1:], 0.95, 1e3, 0.0))
            self.tell(site, Whereabouts((StartedAt(0, 0, 1), StartedAt(1, 0, 1)), whole=True))

    def pass_time(self, seconds: float) -> None:
        end_ms = self.now_ms + 1e3 * seconds
        while True:
            due = [(each.next_timer() or 0.0, k) for k, each in enumerate(self.sites)]
            at_ms, site = min(due)
            if at_ms > end_ms:
                self.now_ms = end_ms
                return
            self.now_ms = max(self.now_ms, at_ms)
            self.carry(site, self.sites[site].handle(TimerDue(), self.now_ms))


def test_a_site_that_knows_no_operators_asks_for_them_and_hears_nothing_else() -> None:
    pair = Pair()
    assert pair.to_mover == [AskOperators(), AskOperators()]
    pair.ask(0, CapacityMeasured(0.1))
    assert tuple(pair.sites[0].handle(Received(1, Echo(0.0)), 0.0)) == ()
    pair.pass_time(2.5)
    assert pair.to_mover.count(AskOperators()) == 6
    pair.tell(0, KnownOperators(0, 2, OPERATORS[:1], 0.95, 1e3, 0.0))
    assert not pair.knows(0)
    pair.brief()
    assert pair.knows(0)
    pair.pass_time(1.0)
    assert any(isinstance(asked, LookUp) for asked in pair.to_mover)


def test_plans_are_made_ahead_with_others_and_a_site_with_less_room_proposes_one_under_a_lease() -> None:
    pair = Pair()
    pair.brief()
    pair.pass_time(30.0)
    overlay = pair.sites[0].overlay
    assert overlay is not None
    assert len(overlay.agents.store) > 0
    assert not [each for each in pair.sent if isinstance(each, RequestLock)]
    pair.ask(0, CapacityMeasured(0.4))
    proposed = [each for each in pair.to_mover if isinstance(each, Proposed)]
    assert proposed
    (move,) = proposed[0].plan.moves
    assert (move.from_site, move.to_site) == (0, 1)
    assert proposed[0].lease.holders == (0, 1)
    assert proposed[0].violation
    promise = proposed[0].promise
    assert dict(promise.loads_cores)[0] < 0.4
    assert promise.tuples_saved > 30.0  # more came than site 0 could do, for ten minutes
    granted = [each for each in pair.sent if isinstance(each, LockGranted)]
    assert {each.usable_cores for each in granted} == {0.4, 0.95}


def test_a_machine_that_outlives_its_site_grants_no_room_and_relieves_nothing() -> None:
    pair = Pair()
    pair.brief()
    pair.pass_time(30.0)
    pair.ask(1, CapacityMeasured(0.0, lost=True))
    overlay = pair.sites[1].overlay
    assert overlay is not None
    assert overlay.hosting.cores_left == 0.0
    pair.ask(0, CapacityMeasured(0.4))
    denied = [each.reason for each in pair.sent if isinstance(each, LockDenied)]
    assert denied == ["no room at this site"]
    asked = len([each for each in pair.sent if isinstance(each, RequestLock)])
    pair.ask(0, CapacityMeasured(0.0, lost=True))  # with both operators there
    pair.pass_time(60.0)
    assert not [each for each in pair.to_mover if isinstance(each, Proposed)]
    assert len([each for each in pair.sent if isinstance(each, RequestLock)]) == asked


def test_a_query_that_takes_too_long_over_a_site_that_is_too_full_is_mended_by_relieving_it() -> None:
    pair = Pair()
    pair.brief()
    pair.pass_time(30.0)
    pair.ask(0, QueryMeasured(0, 9_000.0))
    told = [each for each in pair.sent if isinstance(each, LatencyIs)][-1]
    assert (told.latency_ms, told.over_links_ms) == (9_000.0, 0.0)
    assert not [each for each in pair.to_mover if isinstance(each, Proposed)]  # there is no plan for that
    pair.ask(0, CapacityMeasured(0.4))
    assert [each for each in pair.to_mover if isinstance(each, Proposed)]


def test_a_latency_that_is_stated_counts_whatever_is_measured() -> None:
    pair = Pair()
    for site in range(SITES):
        pair.tell(site, StatedLatencies((40.0, 0.0) if site else (0.0, 40.0)))
    pair.brief()
    pair.pass_time(30.0)
    overlay, lease = pair.sites[0].overlay, pair.sites[0].lease
    assert overlay is not None
    assert lease is not None
    assert overlay.monitor.estimate(0, 1).latency_ms == lease.around.latency_ms[1] == 40.0
    pair.ask(0, StatedLatencies((0.0, 70.0)))  # somebody has edited it
    pair.pass_time(10.0)
    assert overlay.monitor.estimate(0, 1).latency_ms == lease.around.latency_ms[1] == 70.0


def test_what_was_kept_is_there_again_once_the_operators_are_known() -> None:
    pair = Pair()
    pair.brief()
    pair.pass_time(30.0)
    lease = pair.sites[0].lease
    assert lease is not None
    pair.ask(0, CapacityMeasured(0.4))
    kept = lease._memory()
    assert kept.open is not None
    pair.sites[0] = OverlayAgent(0, SITES, np.random.default_rng(5), OverlayAgentParams())
    pair.carry(0, pair.sites[0].handle(Started(1, kept), pair.now_ms))
    pair.to_mover.clear()
    pair.tell(0, KnownOperators(0, 1, OPERATORS, 0.4, 1e3, 0.0))
    pair.pass_time(2.0)
    assert kept.open in pair.to_mover  # said again until it is answered


def test_plans_say_what_they_change_for_a_query_that_reads_the_operator_itself() -> None:
    pair = Pair()
    pair.brief()
    pair.pass_time(30.0)
    overlay = pair.sites[0].overlay
    assert overlay is not None
    assert all(dict(plan.latency_change_ms).keys() == {0} for plan in overlay.agents.store.of(1))
