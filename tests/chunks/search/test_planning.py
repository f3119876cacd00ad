"""A chunk plan is good, says how good it could be, and is the start of the next one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.model import ArrayOperator, ArrayStream, ChunkProblem, ChunkSite, MappingClass
from mooring.chunks.partitioning import Partitioning
from mooring.chunks.search.evaluation import Assignment, ChunkEvaluator
from mooring.chunks.search.planning import PlanningParams, SearchMethod, plan_chunks
from mooring.chunks.search.search_log import StoppingRules
from mooring.errors import InputError

HALF_BUSY = ComplexityMap(np.array([[900.0, 100.0]]))
PROBLEM = ChunkProblem(
    (ArrayStream("left", (32, 32)), ArrayStream("right", (32, 32))),
    (
        ArrayOperator("a", ("left",), (32, 32), HALF_BUSY),
        ArrayOperator("b", ("right",), (32, 32), ComplexityMap.even(500.0, 2)),
        ArrayOperator("join", ("a", "b"), (32, 32), HALF_BUSY),
    ),
    tuple(ChunkSite(f"s{k}", 1e7 * (1 + k % 2)) for k in range(4)),
    frames_per_s=10.0,
)
FEW = PlanningParams(most_chunks=8, frames=6, skip=1)


@pytest.mark.parametrize("assignment", list(Assignment))
def test_every_assignment_gives_a_plan_above_its_bound(assignment: Assignment) -> None:
    made = plan_chunks(PROBLEM, replace(FEW, assignment=assignment)).plan
    assert made.latency_ms >= made.latency_bound_ms > 0
    for chunks in made.operators.values():
        decided = 0 if assignment is Assignment.EARLIEST_FINISH else chunks.partitioning.count
        assert len(chunks.sites) == decided
    assert made.chunk_counts == {name: each.partitioning.count for name, each in made.operators.items()}


@pytest.mark.parametrize("search", list(SearchMethod))
def test_a_search_is_better_than_one_chunk_per_site_and_repeats_itself(search: SearchMethod) -> None:
    params = replace(FEW, search=search)
    made, again = (plan_chunks(PROBLEM, params, seed=3).plan for _ in range(2))
    assert made == again
    equal = ChunkEvaluator(PROBLEM, Assignment.TIERED, 6, 1).latency_ms([Partitioning((2, 2))] * 3)
    assert made.latency_ms < equal
    assert made.latency_ms < 1.15 * made.latency_bound_ms


def test_the_next_search_begins_with_the_last_plan_and_its_assignment() -> None:
    made = plan_chunks(PROBLEM, FEW).plan
    slower = replace(
        PROBLEM, sites=tuple(replace(s, cycles_per_s=0.7 * s.cycles_per_s) for s in PROBLEM.sites)
    )
    next_best = plan_chunks(slower, FEW, before=made, rules=StoppingRules(most_evaluations=1))
    assert {name: each.partitioning for name, each in next_best.plan.operators.items()} == {
        name: each.partitioning for name, each in made.operators.items()
    }
    assert next_best.plan.operators == made.operators, "nothing was out of balance, so no chunk moved"


def test_what_cannot_be_cut_stays_whole_and_may_move() -> None:
    whole = replace(PROBLEM.operators[2], mapping=MappingClass.WHOLE)
    problem = replace(PROBLEM, operators=(*PROBLEM.operators[:2], whole))
    made = plan_chunks(problem, FEW).plan
    assert made.chunk_counts["join"] == 1
    assert made.operators["join"].sites[0] in ("s1", "s3"), "a fast site"


def test_a_map_that_moves_is_followed_frame_by_frame() -> None:
    moving = ComplexityMap(np.array([[900.0, 100.0, 100.0, 100.0]]), (0.0, 8.0))
    problem = replace(PROBLEM, operators=(ArrayOperator("a", ("left",), (32, 32), moving),))
    evaluator = ChunkEvaluator(problem, Assignment.TIERED, 6, 1)
    times, site_of = evaluator.simulate([Partitioning((2, 4))])
    assert site_of.shape == (6, 8)
    assert len({tuple(row) for row in site_of.tolist()}) > 1
    assert len(times.latency_ms) == 6


def test_nothing_is_searched_with_nothing_to_simulate() -> None:
    with pytest.raises(InputError, match="frames"):
        PlanningParams(frames=2, skip=2)
