"""A genetic search over partitionings, with the paper's proportions (section 4).

Of every generation the best quarter stays. Another quarter is bred from two of them, each operator's
partitioning coming from either parent; a quarter are winners with some partitionings changed; a quarter is
new and random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mooring.chunks.search.search_log import SearchLog
from mooring.chunks.search.space import Candidate, SearchSpace
from mooring.errors import InputError


@dataclass(frozen=True)
class GeneticParams:
    population: int = 64
    """Candidates per generation; the paper tries 16 and more."""
    mutated_share: float = 0.2
    """Of the operators of a mutated winner whose partitioning changes, at least one; the paper says "a
    percentage"."""

    def __post_init__(self) -> None:
        if self.population < 4 or self.population % 4:
            raise InputError(
                f"found a population of {self.population}, expected a multiple of 4", field="population"
            )
        if not 0 < self.mutated_share <= 1:
            raise InputError(
                f"found a mutated share of {self.mutated_share}, expected above 0, at most 1",
                field="mutated_share",
            )

    @property
    def quarter(self) -> int:
        return self.population // 4


def search_genetically(
    log: SearchLog,
    rng: np.random.Generator,
    params: GeneticParams | None = None,
    seeds: Sequence[Candidate] = (),
) -> None:
    """From random candidates, and the last configuration among them if it is given as a seed. `log` knows the
    best at any time.
    """
    params = params or GeneticParams()
    fresh = [log.space.random(rng) for _ in range(params.population - len(seeds))]
    population = [*seeds, *fresh]
    while True:
        winners = _best(log, population, params.quarter)
        if log.round_is_last():
            return
        population = next_generation(log.space, winners, rng, params)


def _best(log: SearchLog, population: Sequence[Candidate], count: int) -> list[Candidate]:
    """The best of a population, each once."""
    latency_ms = dict(zip(population, log.latencies_ms(population), strict=True))
    return sorted(latency_ms, key=lambda each: (latency_ms[each], each))[:count]


def next_generation(
    space: SearchSpace, winners: Sequence[Candidate], rng: np.random.Generator, params: GeneticParams
) -> list[Candidate]:
    """The winners, as many bred, as many mutated, and random ones up to the population's size."""
    bred = [_child(winners, rng) for _ in range(params.quarter)]
    mutated = [
        _mutated(space, winners[int(rng.integers(len(winners)))], rng, params.mutated_share)
        for _ in range(params.quarter)
    ]
    missing = params.population - len(winners) - len(bred) - len(mutated)
    return [*winners, *bred, *mutated, *(space.random(rng) for _ in range(missing))]


def _child(winners: Sequence[Candidate], rng: np.random.Generator) -> Candidate:
    one, other = (winners[int(rng.integers(len(winners)))] for _ in range(2))
    return tuple(a if rng.random() < 0.5 else b for a, b in zip(one, other, strict=True))


def _mutated(space: SearchSpace, winner: Candidate, rng: np.random.Generator, share: float) -> Candidate:
    count = max(1, round(share * len(winner)))
    changed = set(rng.choice(len(winner), count, replace=False).tolist())
    fresh = space.random(rng)
    return tuple(fresh[k] if k in changed else winner[k] for k in range(len(winner)))
