"""A genetic search whose populations are evaluated as trials: one after the other here, or on a cluster.

A candidate is a trial like any other, so whoever says where trials run (`trials_run_by`) says where a
population is evaluated. A trial takes plain data, so a problem travels as the numbers that it is drawn from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lab.experiments.chunks.plans import drawn_problem
from lab.experiments.chunks.searches import FRAMES, SKIP
from lab.experiments.trials import Row, run_trials
from mooring.chunks.search.evaluation import Assignment, ChunkEvaluator
from mooring.chunks.search.genetic import GeneticParams, search_genetically
from mooring.chunks.search.search_log import SearchLog, StoppingRules
from mooring.chunks.search.space import Candidate, SearchSpace


@dataclass(frozen=True)
class DrawnProblem:
    """One of the paper's plans, as drawn from a seed."""

    plan: str
    sites: str
    load: float
    seed: int
    most_chunks: int
    assignment: str


@dataclass(frozen=True)
class CandidateCase:
    drawn: DrawnProblem
    candidate: tuple[int, ...]


@lru_cache(maxsize=4)
def _drawn(drawn: DrawnProblem) -> tuple[ChunkEvaluator, SearchSpace]:
    """Kept, since a worker evaluates many candidates of one problem."""
    problem = drawn_problem(drawn.plan, drawn.sites, drawn.load, np.random.default_rng(drawn.seed))
    evaluator = ChunkEvaluator(problem, Assignment(drawn.assignment), FRAMES, SKIP)
    return evaluator, SearchSpace.of(problem, drawn.most_chunks)


def evaluate_candidate(case: CandidateCase) -> list[Row]:
    evaluator, space = _drawn(case.drawn)
    return [{"latency_ms": evaluator.latency_ms(space.partitionings(case.candidate))}]


def search_by_trials(
    drawn: DrawnProblem, rng: np.random.Generator, params: GeneticParams, rules: StoppingRules
) -> SearchLog:
    def evaluate(candidates: Sequence[Candidate]) -> list[float]:
        rows = run_trials(evaluate_candidate, [CandidateCase(drawn, each) for each in candidates])
        return [float(row["latency_ms"]) for row in rows]

    log = SearchLog(_drawn(drawn)[1], evaluate, rules, batch=params.population)
    search_genetically(log, rng, params)
    return log
