"""The choice among stored plans: enough, at the least bandwidth, and at nobody's expense."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.algorithms.overlay.search.final_plans import FinalPlan, PlanStore
from mooring.algorithms.overlay.search.plan_choice import (
    CongestedLink,
    KnownQueries,
    PlanNeed,
    best_for_bandwidth,
    improving,
    recovering,
    relieving,
)

LATE, OTHER = 0, 1
LINK = CongestedLink(4, 5, 60.0)


def plan(site: int, bandwidth: float, *changes_ms: float) -> FinalPlan:
    return FinalPlan(((7, site),), bandwidth, tuple(enumerate(changes_ms)))


def hops(made: FinalPlan) -> Iterable[tuple[int, int]]:
    """From site 4 to wherever operator 7 is."""
    return ((4, made.moves[0][1]),)


def known(slack_of_other_ms: float = 100.0) -> KnownQueries:
    return KnownQueries({LATE: -30.0, OTHER: slack_of_other_ms}, hops)


def stored(*plans: FinalPlan) -> PlanStore:
    store = PlanStore()
    store.replace(7, plans)
    return store


def test_of_those_that_take_off_enough_the_best_for_bandwidth_is_taken() -> None:
    store = stored(plan(1, 5.0, -40.0), plan(2, 3.0, -35.0), plan(3, -9.0, -20.0))
    need = PlanNeed(LATE, 130.0, 100.0)
    chosen = best_for_bandwidth(recovering(store, need, known()), LATE)
    assert chosen is not None
    assert chosen.moves == ((7, 2),)


def test_a_plan_that_keeps_the_congested_link_must_meet_the_limit_with_the_added_delay() -> None:
    """The query takes 130 ms, 60 of them because of the link, and may take 100. A plan that leaves the link
    may even be slower by itself; one that keeps it has to make up for 30."""
    leaves, keeps, keeps_and_mends = plan(1, 5.0, 20.0), plan(5, -9.0, -20.0), plan(5, 0.0, -30.0)
    need = PlanNeed(LATE, 130.0, 100.0, (LINK,))
    assert list(recovering(stored(leaves), need, known())) == [leaves]
    assert list(recovering(stored(keeps), need, known())) == []
    assert list(recovering(stored(keeps_and_mends), need, known())) == [keeps_and_mends]


def test_a_plan_that_pushes_another_query_over_its_limit_is_not_taken() -> None:
    store, need = stored(plan(1, 0.0, -40.0, 20.0)), PlanNeed(LATE, 130.0, 100.0)
    assert list(recovering(store, need, known(slack_of_other_ms=25.0)))
    assert not list(recovering(store, need, known(slack_of_other_ms=15.0)))
    # One that is late anyway must not become later.
    assert not list(recovering(store, need, known(slack_of_other_ms=-5.0)))


def test_a_site_that_is_too_full_is_relieved_of_enough() -> None:
    small, large = FinalPlan(((1, 9),), -5.0, ()), FinalPlan(((2, 9), (3, 0)), 1.0, ())
    cores, sites = {1: 0.2, 2: 0.8, 3: 0.1}, {1: 0, 2: 0, 3: 5}
    args = (lambda o: cores[o], lambda o: sites[o], known())
    assert list(relieving([small, large], 0, 0.2, *args)) == [small, large]
    assert list(relieving([small, large], 0, 0.7, *args)) == [large]
    assert list(relieving([small, large], 0, 0.8, *args)) == []  # operator 3 would come


def test_bandwidth_is_improved_only_where_it_is_worth_it_and_harms_nobody() -> None:
    plans = [plan(1, -0.5, 0.0), plan(2, -50.0, 0.0, 30.0), plan(3, -20.0, 0.0, 10.0)]
    quiet = KnownQueries({LATE: 5.0, OTHER: 20.0}, hops)
    assert list(improving(plans, 1.0, quiet)) == [plans[2]]
