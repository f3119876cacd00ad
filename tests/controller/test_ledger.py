"""Promises are held against what is measured later; where something else happened, nothing is concluded."""

from __future__ import annotations

import pytest

from mooring.contracts.decider import Observation, Prediction, Proposal, ProposedMove
from mooring.contracts.engine import Measurement, MoveReport, QueryReport, SiteReport
from mooring.controller.ledger import AFTER, SKIPPED, WORKED_OFF, Ledger, LedgerEntry
from mooring.model.deployment.move_times import Pause
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem

PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        "streams": {"x": {"rate": 100}},
        "operators": {"f": {"inputs": ["x"], "cost_us": 2000}},
        "queries": {"q": {"reads": "f", "site": "a", "max_latency_ms": 100}},
    }
)
MOVE = Move("f", "a", "b")
PROPOSAL = Proposal(
    Prediction(1.0, "a", {"a": 0.9, "b": 0.2}),
    (ProposedMove(MOVE, Prediction(1.6, "b", {"a": 0.5, "b": 0.6})),),
    "a flood",
)


def look(at_s: float, a: float, b: float, rate: float = 100.0, latency_ms: float = 50.0) -> Observation:
    measured = Measurement(
        at_s,
        5.0,
        {"x": rate},
        {"a": SiteReport(a), "b": SiteReport(b)},
        queries={"q": QueryReport(rate, latency_ms, None)},
    )
    return Observation(at_s, FragmentSites({"f": "a"}), measured)


def measured(
    before: tuple[float, float], after: tuple[float, float], rate: float = 100.0, latency_ms: float = 50.0
) -> LedgerEntry:
    found: list[LedgerEntry] = []
    ledger = Ledger(PROBLEM)
    for k in range(3):
        ledger.take(look(5.0 * k, *before))
    ledger.promise(PROPOSAL, "headroom", 12.0)
    ledger.done(["f"], 13.0)
    for k in range(SKIPPED + AFTER):
        found += filter(
            None,
            [ledger.take(look(15.0 + 5.0 * k, *(after if k >= SKIPPED else (1.0, 1.0)), rate, latency_ms))],
        )
    (entry,) = found
    return entry


def test_what_came_is_the_median_of_some_looks_after_the_first_ones() -> None:
    entry = measured((0.9, 0.2), (0.5, 0.66))
    assert entry.after is not None
    assert entry.after.loads_cores == {"a": 0.5, "b": 0.66}
    assert entry.errors() == pytest.approx({"a": 0.0, "b": 0.1})
    assert not entry.worse
    assert "went from 90% to 66%, site loads differ from the prediction by up to 10%" in entry.verdict
    assert entry.as_json()["promised"] == {
        "headroom": 1.6,
        "bottleneck": "b",
        "site_loads_cores": {"a": 0.5, "b": 0.6},
        "latency_ms": {},
        "headroom_before": 1.0,
        "site_loads_at_rates": {"a": 0.5, "b": 0.6},
    }


def test_loads_are_held_against_the_promise_at_the_rates_that_came() -> None:
    found: list[LedgerEntry] = []
    ledger = Ledger(PROBLEM)
    ledger.take(look(0.0, 0.9, 0.2, rate=90.0))
    ledger.promise(
        PROPOSAL, "headroom", 1.0, lambda rates: {"a": 0.005 * rates["x"], "b": 0.006 * rates["x"]}
    )
    ledger.done(["f"], 2.0)
    for k in range(SKIPPED + AFTER):
        found += filter(None, [ledger.take(look(5.0 + k, 0.45, 0.54, rate=90.0))])
    assert found[0].errors() == pytest.approx({"a": 0.0, "b": 0.0})


def test_what_had_gathered_at_a_full_site_is_worked_off_before_anything_is_judged() -> None:
    found: list[LedgerEntry] = []
    ledger = Ledger(PROBLEM)
    ledger.take(look(0.0, 1.0, 0.2))
    ledger.promise(PROPOSAL, "headroom", 1.0)
    ledger.done(["f"], 2.0)
    for k in range(SKIPPED + 6):
        found += filter(None, [ledger.take(look(5.0 + k, 1.0, 0.6))])
    assert not found
    for k in range(AFTER):
        found += filter(None, [ledger.take(look(20.0 + k, 0.5, 0.6))])
    assert found[0].errors() == pytest.approx({"a": 0.0, "b": 0.0})


def test_a_site_that_stays_full_is_judged_all_the_same() -> None:
    found: list[LedgerEntry] = []
    ledger = Ledger(PROBLEM)
    ledger.take(look(0.0, 1.0, 0.2))
    ledger.promise(PROPOSAL, "headroom", 1.0)
    ledger.done(["f"], 2.0)
    for k in range(SKIPPED + WORKED_OFF + AFTER):
        found += filter(None, [ledger.take(look(5.0 + k, 1.0, 1.0))])
    assert found[0].worse


@pytest.mark.parametrize(
    ("before", "after", "latency_ms", "said"),
    [
        ((0.9, 0.2), (0.5, 1.0), 50.0, "1 sites are full"),
        ((0.75, 0.2), (0.5, 0.9), 50.0, "worse, predicted 60%"),
        ((0.9, 0.2), (0.5, 0.6), 150.0, "1 queries exceed their limit"),
    ],
)
def test_things_are_worse_by_full_sites_broken_promises_or_missed_limits(
    before: tuple[float, float], after: tuple[float, float], latency_ms: float, said: str
) -> None:
    entry = measured(before, after, latency_ms=latency_ms)
    assert entry.worse
    assert said in entry.verdict


def test_a_rate_that_grew_meanwhile_explains_itself() -> None:
    entry = measured((0.9, 0.2), (0.9, 1.0), rate=130.0)
    assert not entry.worse
    assert "x grew meanwhile" in entry.verdict


def test_other_moves_and_recovery_make_before_and_after_incomparable() -> None:
    ledger = Ledger(PROBLEM)
    ledger.take(look(0.0, 0.9, 0.2))
    ledger.promise(PROPOSAL, "headroom", 1.0)
    ledger.done(["g"], 5.0)
    ledger.promise(PROPOSAL, "headroom", 6.0)
    ledger.disturbed("recovery")
    assert [entry.verdict.split(":")[0] for entry in ledger.entries] == ["no conclusion"] * 2


def test_a_pause_is_held_against_the_range_that_was_predicted() -> None:
    ledger = Ledger(PROBLEM)
    ledger.promise(PROPOSAL, "headroom", 12.0)
    ledger.begins({"f": Pause(0.4, 1.0, 4.0)})
    (late,) = ledger.paused([MoveReport("f", "a", "b", 60.2, 2e6, "join"), MoveReport("g", "a", "b", 1.0)])
    ledger.done(["f"], 13.0)
    assert not late.held
    assert late.words().startswith("the pause of f (join) was 60 s, predicted 0.4 to 4.0 s")
    assert [each.measured_s for each in ledger.pauses] == [60.2]
    ledger.promise(PROPOSAL, "headroom", 12.0)
    ledger.begins({"f": Pause(0.4, 1.0, 4.0)})
    (timely,) = ledger.paused([MoveReport("f", "a", "b", 1.2)])
    assert timely.held
    assert ledger.entries[-1].as_json()["pauses"] == [timely.as_json()]
    assert not ledger.paused([MoveReport("f", "a", "b", 1.2)])  # nothing is predicted of what did not begin
