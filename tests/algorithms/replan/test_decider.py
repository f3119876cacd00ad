"""Planning anew once something has changed, and going there by the moves that help most."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mooring.algorithms.baselines.llf import LargestLoadFirst
from mooring.algorithms.replan.decider import ReplanDecider
from mooring.contracts.picture import Picture, picture_of
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem

LARGE = 40
"""Fragments beside those of the full site: more than are looked at in one round."""


def crowded() -> tuple[Problem, Placement]:
    """Two fragments that fill a small site, once their rate has doubled, and many larger ones elsewhere."""
    large = {f"large{k}": {"inputs": ["calm"], "cost_us": 7000 + 10 * k} for k in range(LARGE)}
    small = {f"small{k}": {"inputs": ["grows"], "cost_us": 3000} for k in range(2)}
    wide = {f"wide{k}": {"capacity": 3} for k in range(LARGE // 2)}
    problem = Problem.from_dict(
        {
            "sites": {"narrow": {"capacity": 1}, **wide},
            "streams": {"calm": {"rate": 100}, "grows": {"rate": 100}},
            "operators": {**large, **small},
        }
    )
    homes = {f"large{k}": f"wide{k // 2}" for k in range(LARGE)} | dict.fromkeys(small, "narrow")
    return problem, Placement.from_dict(problem, homes)


def seen(problem: Problem, start: Placement, grows: float, error: float = 0.0) -> Picture:
    picture = picture_of(problem, start, [100.0, grows])
    return replace(picture, rate_errors=np.array([error, error]))


def test_what_leaves_the_fullest_site_comes_first_however_many_larger_ones_there_are() -> None:
    problem, start = crowded()
    decider = ReplanDecider(LargestLoadFirst())
    assert not decider.decide(seen(problem, start, 100.0)).moves
    proposal = decider.decide(seen(problem, start, 200.0))
    assert proposal.moves[0].move.from_site == "narrow"
    assert proposal.now.headroom < 1.0 < proposal.predicted.headroom


def test_nothing_is_planned_anew_for_what_may_be_noise() -> None:
    problem, start = crowded()
    decider = ReplanDecider(LargestLoadFirst())
    for grows in (100.0, 150.0):
        proposal = decider.decide(seen(problem, start, grows, error=10.0))
        assert proposal.reason == "nothing has changed since the last plan"
    assert decider.decide(seen(problem, start, 170.0, error=10.0)).moves


def test_where_there_are_many_sites_more_is_moved_at_once() -> None:
    """One move for every ten sites, and three at least."""
    streams = {f"s{k}": {"rate": 100} for k in range(50)}
    problem = Problem.from_dict(
        {
            "sites": {f"n{k}": {"capacity": 1} for k in range(50)},
            "streams": streams,
            "operators": {f"o{k}": {"inputs": [f"s{k}"], "cost_us": 3000} for k in range(50)},
        }
    )
    start = Placement.from_dict(problem, {f"o{k}": f"n{k // 2}" for k in range(50)})
    decider = ReplanDecider(LargestLoadFirst())
    decider.decide(picture_of(problem, start))
    assert len(decider.decide(picture_of(problem, start, np.full(50, 200.0))).moves) == 5
