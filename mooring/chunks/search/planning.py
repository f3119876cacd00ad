"""A chunk plan for a problem: the search, the assignment and the bound in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from mooring.chunks.model import ChunkPlan, ChunkProblem
from mooring.chunks.search.cyclical import search_cyclically
from mooring.chunks.search.evaluation import Assignment, ChunkEvaluator
from mooring.chunks.search.genetic import GeneticParams, search_genetically
from mooring.chunks.search.search_log import SearchLog, StoppingRules
from mooring.chunks.search.space import Candidate, SearchSpace
from mooring.chunks.timing.latency_bound import latency_bound, operator_limits
from mooring.errors import InputError

BOUND_SHARE = 0.5
"""Of the time budget that the bound may take at most; what is left is the search's."""


class SearchMethod(StrEnum):
    CYCLICAL = "cyclical"
    GENETIC = "genetic"


@dataclass(frozen=True)
class PlanningParams:
    assignment: Assignment = Assignment.TIERED
    search: SearchMethod = SearchMethod.CYCLICAL
    most_chunks: int = 16
    """Per operator."""
    frames: int = 24
    """Simulated for every candidate."""
    skip: int = 4
    """So many first frames do not count."""
    genetic: GeneticParams = field(default_factory=GeneticParams)

    def __post_init__(self) -> None:
        if self.most_chunks < 1 or not 0 <= self.skip < self.frames:
            raise InputError(
                f"found most_chunks={self.most_chunks}, frames={self.frames}, skip={self.skip}",
                remedy="most_chunks must be at least 1, and fewer frames skipped than simulated",
            )


@dataclass(frozen=True, eq=False)
class PlannedChunks:
    plan: ChunkPlan
    log: SearchLog
    """What was tried on the way."""


def plan_chunks(
    problem: ChunkProblem,
    params: PlanningParams | None = None,
    *,
    seed: int = 0,
    rules: StoppingRules | None = None,
    before: ChunkPlan | None = None,
) -> PlannedChunks:
    """The best chunk plan that the search finds until it has to stop; from the last one, if there is one."""
    params, rules = params or PlanningParams(), rules or StoppingRules()
    space = SearchSpace.of(problem, params.most_chunks)
    evaluator = ChunkEvaluator(problem, params.assignment, params.frames, params.skip, before)

    def evaluate(candidates: Sequence[Candidate]) -> list[float]:
        return [evaluator.latency_ms(space.partitionings(each)) for each in candidates]

    limits = operator_limits(evaluator.tables, params.most_chunks, rules.deadline.part(BOUND_SHARE))
    log, rng = SearchLog(space, evaluate, rules), np.random.default_rng(seed)
    seeds = [] if before is None else [space.like(before)]
    if params.search is SearchMethod.GENETIC:
        search_genetically(log, rng, params.genetic, seeds)
    else:
        search_cyclically(log, seeds[0] if seeds else space.random(rng))
    bound = latency_bound(problem, params.most_chunks, params.frames, limits=limits)
    return PlannedChunks(evaluator.plan(space.partitionings(log.best), bound.mean_ms(params.skip)), log)
