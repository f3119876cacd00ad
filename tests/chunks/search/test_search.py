"""Searches find what is best, with the paper's proportions, and stop when they are told to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mooring.chunks.partitioning import Partitioning, regular_partitionings
from mooring.chunks.search.cyclical import search_cyclically
from mooring.chunks.search.genetic import GeneticParams, next_generation, search_genetically
from mooring.chunks.search.search_log import SearchLog, StoppingRules
from mooring.chunks.search.space import Candidate, SearchSpace
from mooring.contracts.deadline import Deadline
from mooring.errors import InputError

CHOICES = regular_partitionings((64, 64), 16)
SPACE = SearchSpace(tuple("abcdef"), (CHOICES,) * 6)
BEST = (3, 1, 4, 1, 5, 9)


def distance(candidates: Sequence[Candidate]) -> list[float]:
    """A latency whose best is known: each operator apart."""
    return [float(sum(abs(a - b) for a, b in zip(each, BEST, strict=True))) for each in candidates]


def test_cyclical_finds_the_best_of_independent_operators_in_one_cycle_and_stops_after_the_next() -> None:
    log = SearchLog(SPACE, distance, StoppingRules())
    search_cyclically(log, (0,) * 6)
    assert (log.best, log.best_ms) == (BEST, 0.0)
    assert log.evaluations <= 2 * 6 * len(CHOICES)
    assert [each.latency_ms for each in log.improvements] == sorted(
        (each.latency_ms for each in log.improvements), reverse=True
    )


def test_genetic_comes_close_and_a_seed_is_kept() -> None:
    rng = np.random.default_rng(0)
    log = SearchLog(SPACE, distance, StoppingRules(most_rounds=60))
    search_genetically(log, rng)
    assert log.best_ms <= 3.0
    seeded = SearchLog(SPACE, distance, StoppingRules(most_rounds=1))
    search_genetically(seeded, rng, seeds=[BEST])
    assert seeded.best == BEST


def test_a_generation_has_a_quarter_of_each_kind() -> None:
    rng = np.random.default_rng(1)
    params = GeneticParams(population=64, mutated_share=0.2)
    winners = [SPACE.random(rng) for _ in range(16)]
    grown = next_generation(SPACE, winners, rng, params)
    assert len(grown) == 64
    assert grown[:16] == winners
    for child in grown[16:32]:
        assert all(any(winner[k] == child[k] for winner in winners) for k in range(6))
    for mutant in grown[32:48]:
        assert min(sum(a != b for a, b in zip(mutant, winner, strict=True)) for winner in winners) <= 1


def test_the_same_seed_finds_the_same() -> None:
    found = []
    for _ in range(2):
        log = SearchLog(SPACE, distance, StoppingRules(most_rounds=5))
        search_genetically(log, np.random.default_rng(7))
        found.append((log.best, log.improvements))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("rules", "most"),
    [
        (StoppingRules(most_rounds=3), 3 * 64),
        (StoppingRules(most_evaluations=100), 116),
        (StoppingRules(unchanged_rounds=2, least_gain_ms=1e9), 3 * 64),
    ],
)
def test_each_rule_stops_a_search(rules: StoppingRules, most: int) -> None:
    log = SearchLog(SPACE, distance, rules)
    search_genetically(log, np.random.default_rng(0))
    assert 0 < log.evaluations <= most


def test_a_search_that_runs_out_of_time_has_an_answer() -> None:
    """The clock goes on with every look: time is up after a few batches."""
    for search in ("cyclical", "genetic"):
        ticks = iter(range(1000))
        deadline = Deadline.in_seconds(3.0, lambda ticks=ticks: float(next(ticks)))  # type: ignore[misc]
        log = SearchLog(SPACE, distance, StoppingRules(deadline))
        if search == "cyclical":
            search_cyclically(log, (0,) * 6)
        else:
            search_genetically(log, np.random.default_rng(0))
        assert 0 < log.evaluations < 100
        assert log.best_ms == min(distance([log.best]))


def test_a_candidate_is_simulated_once() -> None:
    asked: list[Candidate] = []

    def noted(candidates: Sequence[Candidate]) -> list[float]:
        asked.extend(candidates)
        return distance(candidates)

    log = SearchLog(SPACE, noted, StoppingRules(most_rounds=30))
    search_genetically(log, np.random.default_rng(0))
    assert len(asked) == len(set(asked)) == log.evaluations
    assert log.chunks == sum(SPACE.chunks(each) for each in asked)


def test_the_space_counts_and_names_its_candidates() -> None:
    assert SPACE.size == len(CHOICES) ** 6
    assert SPACE.uniform(Partitioning((4, 4))) == (CHOICES.index(Partitioning((4, 4))),) * 6
    nearest = SPACE.uniform(Partitioning((4, 5)))
    assert {CHOICES[at].count for at in nearest} == {16}


@pytest.mark.parametrize("wrong", [{"population": 10}, {"population": 0}, {"mutated_share": 0.0}])
def test_wrong_proportions_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="expected"):
        GeneticParams(**wrong)  # type: ignore[arg-type]
