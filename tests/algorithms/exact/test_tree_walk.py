"""The walk over the tree of placements can be cut into stretches, and knows when there is no end in sight."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from mooring.algorithms.exact import tree_walk
from mooring.algorithms.exact.policy import _tree, optimal_assign
from mooring.contracts.deadline import Deadline
from mooring.errors import UnsupportedError
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.directions import Directions
from mooring.model.load.model import LoadModel
from mooring.model.problem.generate import GraphParameters, generate_problem


def model_of(seed: int = 0, *, streams: int = 5, operators: int, sites: int) -> LoadModel:
    parameters = GraphParameters(streams=streams, operators=operators, sites=sites)
    return build_load_model(generate_problem(parameters, np.random.default_rng(seed)))


@pytest.mark.parametrize("seed", range(4))
def test_stretches_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(seed, streams=3, operators=15, sites=3)
    shares: list[float] = []
    whole = optimal_assign(model, progress=lambda done, what: shares.append(done))
    assert shares == []  # the whole tree is smaller than one stretch
    monkeypatch.setattr(tree_walk, "STRETCH_NODES", 97)
    cut = optimal_assign(model, progress=lambda done, what: shares.append(done))
    assert cut.tolist() == whole.tolist()
    assert len(shares) > 10
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert np.mean(np.diff(shares) > 0.0) > 0.5


@pytest.mark.parametrize("seed", range(5))
def test_the_guess_of_how_much_is_done_is_neither_far_too_high_nor_too_low(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the way through its nodes, a walk believes to be between a sixth and five sixths through."""
    monkeypatch.setattr(tree_walk, "STRETCH_NODES", 100)
    model = model_of(seed, streams=4, operators=20, sites=2)
    seen: list[float] = []
    optimal_assign(model, progress=lambda done, what: seen.append(done))
    assert 1 / 6 < seen[len(seen) // 2] < 5 / 6


@pytest.mark.parametrize("seed", range(3))
def test_ways_followed_at_random_tell_how_large_the_tree_is(seed: int) -> None:
    model = model_of(seed, streams=3, operators=15, sites=3)
    best, directions = 0.0, Directions.draw(len(model.active), 64, seed=0).values
    for _ in range(2):  # the second walk knows from its beginning what the first has found
        walk = tree_walk.TreeWalk(_tree(model, directions), best, 0.0)
        walk.run(10_000_000)
        best = walk.best
    assert walk.guessed_nodes(ways=20_000) == pytest.approx(walk.nodes, rel=0.15)


@pytest.mark.parametrize(("operators", "sites"), [(30, 5), (40, 6), (100, 10)])
def test_a_tree_without_hope_is_given_up_at_once(operators: int, sites: int) -> None:
    """A minute and more of searching for nothing."""
    looked_at: list[str] = []
    model = model_of(operators=operators, sites=sites)
    with pytest.raises(UnsupportedError, match="far more than the node_budget of 20,000,000"):
        optimal_assign(model, progress=lambda done, what: looked_at.append(what))
    assert tree_walk.STRETCH_NODES * len(looked_at) <= tree_walk.LEAST_NODES


def test_a_deadline_ends_the_walk_in_words() -> None:
    looks = count()
    deadline = Deadline.in_seconds(3.0, lambda: float(next(looks)))  # a second passes with every look
    with pytest.raises(UnsupportedError, match="within the time limit"):
        optimal_assign(model_of(operators=60, sites=4), deadline=deadline)
