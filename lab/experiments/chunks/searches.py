"""Searches as the figures run them: a number of simulated chunks instead of time, so that the same seed gives
the same rows on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.chunks.model import ChunkProblem
from mooring.chunks.search.cyclical import search_cyclically
from mooring.chunks.search.evaluation import Assignment, ChunkEvaluator
from mooring.chunks.search.genetic import GeneticParams, search_genetically
from mooring.chunks.search.search_log import Evaluate, SearchLog, StoppingRules
from mooring.chunks.search.space import Candidate, SearchSpace

FRAMES, SKIP = 12, 2


def evaluated_here(evaluator: ChunkEvaluator, space: SearchSpace) -> Evaluate:
    def evaluate(candidates: Sequence[Candidate]) -> list[float]:
        return [evaluator.latency_ms(space.partitionings(each)) for each in candidates]

    return evaluate


def searched(
    problem: ChunkProblem,
    assignment: Assignment,
    most_chunks: int,
    rng: np.random.Generator,
    *,
    population: int | None = None,
    seeds: Sequence[Candidate] = (),
    rules: StoppingRules | None = None,
) -> SearchLog:
    """Genetic with a population, otherwise cyclical."""
    space = SearchSpace.of(problem, most_chunks)
    evaluate = evaluated_here(ChunkEvaluator(problem, assignment, FRAMES, SKIP), space)
    log = SearchLog(space, evaluate, rules or StoppingRules())
    if population is None:
        search_cyclically(log, seeds[0] if seeds else space.random(rng))
    else:
        search_genetically(log, rng, GeneticParams(population), seeds)
    return log
