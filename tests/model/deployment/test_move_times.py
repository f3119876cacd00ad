"""Pauses are predicted by kind of fragment, as ranges that hold what comes."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.model.deployment.move_times import MoveTimes, PastMove, moves_as
from mooring.model.problem.operator import MovesAs
from mooring.model.problem.problem import Problem

PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}},
        "streams": {"s": {"rate": 1}},
        "operators": {
            "clean": {"inputs": ["s"], "cost_us": 1, "fragment": "plain"},
            "filter": {"inputs": ["clean"], "cost_us": 1, "fragment": "plain"},
            "parse": {"inputs": ["s"], "cost_us": 1, "fragment": "counts"},
            "count": {"inputs": ["parse"], "cost_us": 1, "kind": "aggregate", "fragment": "counts"},
            "pairs": {
                "inputs": ["s"],
                "cost_us": 1,
                "kind": "aggregate",
                "moves_as": "join",
                "state_bytes": 1e8,
            },
            "totals": {"inputs": ["s"], "cost_us": 1, "kind": "aggregate", "moves_as": "view"},
        },
    }
)
ROW = {name: f for f, name in enumerate(PROBLEM.fragment_names)}


def test_the_kind_of_a_fragment_is_what_it_says_or_what_its_operators_keep() -> None:
    kinds = {name: moves_as(PROBLEM, f) for name, f in ROW.items()}
    assert kinds == {"plain": "stateless", "counts": "stateful", "pairs": "join", "totals": "view"}


def test_a_slow_join_teaches_nothing_of_views_and_of_what_keeps_no_state() -> None:
    """As in a live run: a join took 60.2 s, and the next view was predicted with half of that."""
    times = MoveTimes().fitted([PastMove(60.2, 2e6, "join", batch_s=8.0), PastMove(0.03, kind="view")])
    assert times.of_fragment(PROBLEM, ROW["pairs"]).likely_s == pytest.approx(52.2, abs=2.0)
    view = times.of_fragment(PROBLEM, ROW["totals"])
    assert view.holds(0.03)
    assert view.high_s < 0.1
    assert times.of_fragment(PROBLEM, ROW["plain"]) == MoveTimes().of_fragment(PROBLEM, ROW["plain"])


def test_a_fragment_with_long_batches_is_predicted_to_pause_for_one_of_them() -> None:
    times = MoveTimes(batch_s={"pairs": 42.0, "totals": 9.0}, state_bytes={"pairs": 5e8})
    assert times.of_fragment(PROBLEM, ROW["pairs"]).likely_s == pytest.approx(2.0 + 42.0 + 5.0)
    assert times.of_fragment(PROBLEM, ROW["totals"]).likely_s == pytest.approx(0.1)  # refreshed anew, later


@pytest.mark.parametrize("seed", range(3))
def test_the_range_holds_four_of_five_later_moves_and_narrows_with_those_made(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind: MovesAs = "join"

    def move() -> PastMove:
        batch_s = float(rng.uniform(0.2, 3.0))
        pause_s = float((0.8 + batch_s + 0.1) * rng.lognormal(0.0, 0.25))
        return PastMove(pause_s, 1e7, kind, batch_s)

    past = [move() for _ in range(20)]
    held = [
        MoveTimes().fitted(past).pause(kind, 1e7, new.batch_s).holds(new.pause_s)
        for new in (move() for _ in range(200))
    ]
    assert np.mean(held) >= 0.8
    few, many = (MoveTimes().fitted(past[:n]).pause(kind, 1e7, 1.0) for n in (1, 20))
    untried = MoveTimes().pause(kind, 1e7, 1.0)
    width = [each.high_s / each.low_s for each in (untried, few, many)]
    assert width[0] > width[1]
    assert width[2] < 5.0


def test_a_site_that_has_moves_of_a_kind_is_predicted_by_them() -> None:
    past = [PastMove(1.0, to_site="near")] * 3 + [PastMove(35.0, 1.0, to_site="cluster")]
    times = MoveTimes().fitted(past)
    at = times.at_sites
    assert at["near"].pause("stateless").likely_s == pytest.approx(1.0)
    assert at["cluster"].pause("stateful").likely_s == pytest.approx(35.0)
    # Of a kind that never went there, others tell; and of a site that nothing went to, all do.
    assert at["cluster"].pause("stateless").likely_s == pytest.approx(1.0)
    assert times.of_fragment(PROBLEM, 0, "elsewhere") == times.of_fragment(PROBLEM, 0)
    assert times.of_fragment(PROBLEM, 0, "cluster") == at["cluster"].of_fragment(PROBLEM, 0)
