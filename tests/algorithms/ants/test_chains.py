"""Cutting a query graph into chains."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.algorithms.ants.chains import Chain, End, chains_of
from mooring.model.load.build import build_load_model
from mooring.model.load.queued.many_placements import ManyPlacements
from mooring.model.problem.problem import Problem
from tests.algorithms.ants.latency_problems import diamond
from tests.algorithms.test_all_policies import random_problem


def cut(problem: Problem) -> list[Chain]:
    return chains_of(problem, build_load_model(problem), ManyPlacements.of(problem))


def test_the_longest_way_comes_first_and_the_others_lead_to_it_and_from_it() -> None:
    """Figure 1 of the paper: fan-in at a join, fan-out behind it."""
    problem = Problem.from_dict(diamond())
    index = problem.fragment_names.index
    found = cut(problem)
    named = [tuple(problem.fragment_names[f] for f in chain.fragments) for chain in found]
    assert named == [("clean", "parse", "pairs", "top"), ("other",), ("log",)]
    assert (found[0].start, found[0].end) == (End(site=0), End(site=3))
    assert (found[1].start, found[1].end) == (End(site=1), End(fragment=index("pairs")))
    assert (found[2].start, found[2].end) == (End(fragment=index("pairs")), End(site=1))


def test_the_other_input_of_a_join_comes_along_as_a_side() -> None:
    problem = Problem.from_dict(diamond())
    first = cut(problem)[0]
    assert first.sides.shape == (1, 6)
    assert first.sides[0, 0] == 2
    assert first.sides[0, 1] == pytest.approx(30.0)
    # A result of either query is followed back to both inputs.
    assert first.tasks[2, 6] + first.sides[0, 5] == pytest.approx(1.0)


def test_a_pinned_fragment_is_an_end() -> None:
    data = diamond()
    data["operators"]["parse"]["site"] = "c"
    problem = Problem.from_dict(data)
    index = problem.fragment_names.index
    found = {tuple(problem.fragment_names[f] for f in chain.fragments): chain for chain in cut(problem)}
    assert set(found) == {("other", "pairs", "top"), ("clean",), ("log",)}
    assert found["clean",].end == End(fragment=index("parse"))


@pytest.mark.parametrize("seed", range(25))
def test_every_free_fragment_is_in_one_chain_and_ends_are_placed_before(seed: int) -> None:
    problem = random_problem(seed, tight=False)
    pinned = build_load_model(problem).pinned_site >= 0
    placed = {int(f) for f in np.flatnonzero(pinned)}
    for chain in cut(problem):
        assert not placed & set(chain.fragments)
        for end in (chain.start, chain.end):
            assert end.fragment < 0 or end.fragment in placed
        placed |= set(chain.fragments)
    assert placed == set(range(len(problem.fragments)))
