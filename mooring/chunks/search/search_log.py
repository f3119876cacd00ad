"""The log of a search, and its stopping rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mooring.chunks.search.space import Candidate, SearchSpace
from mooring.contracts.deadline import NO_DEADLINE, Deadline

Evaluate = Callable[[Sequence[Candidate]], list[float]]
"""Latencies of several candidates in ms: here, or spread over a cluster."""


@dataclass(frozen=True)
class StoppingRules:
    """A search stops as soon as one of them says so (section 4)."""

    deadline: Deadline = NO_DEADLINE
    most_rounds: int = 1000
    """A round is one cycle over all operators, or one generation."""
    unchanged_rounds: int = 20
    """Stop when the best latency has stayed the same for so many rounds; a cycle without gain ends a cyclical
    search anyway."""
    least_gain_ms: float = 0.0
    """A round that lowers the best latency by this or less has not changed it."""
    most_evaluations: int = 1_000_000


@dataclass(frozen=True)
class Improvement:
    """A best latency, and what it took to find it."""

    evaluations: int
    chunks: int
    """Simulated so far, per simulated frame: what the time of a search goes into."""
    latency_ms: float


@dataclass
class SearchLog:
    """Evaluates candidates, each once, and keeps the best."""

    space: SearchSpace
    evaluate: Evaluate
    rules: StoppingRules
    batch: int = 1
    """So many candidates are evaluated between two looks at the rules; on a cluster, better a population."""
    best: Candidate = ()
    best_ms: float = math.inf
    evaluations: int = 0
    chunks: int = 0
    improvements: list[Improvement] = field(default_factory=list)
    _known: dict[Candidate, float] = field(default_factory=dict)
    _rounds: int = 0
    _unchanged: int = 0
    _round_ms: float = math.inf

    def latencies_ms(self, candidates: Sequence[Candidate]) -> list[float]:
        """Infinite for those that there was no time for."""
        fresh = [each for each in dict.fromkeys(candidates) if each not in self._known]
        for at in range(0, len(fresh), self.batch):
            if self.evaluations and self.has_to_stop():
                break
            some = fresh[at : at + self.batch]
            for candidate, latency_ms in zip(some, self.evaluate(some), strict=True):
                self._note(candidate, latency_ms)
        return [self._known.get(each, math.inf) for each in candidates]

    def _note(self, candidate: Candidate, latency_ms: float) -> None:
        self._known[candidate] = latency_ms
        self.evaluations += 1
        self.chunks += self.space.chunks(candidate)
        if latency_ms < self.best_ms:
            self.best, self.best_ms = candidate, latency_ms
            self.improvements.append(Improvement(self.evaluations, self.chunks, latency_ms))

    def has_to_stop(self) -> bool:
        """In the middle of a round: whatever was found until now is the answer."""
        return self.rules.deadline.expired or self.evaluations >= self.rules.most_evaluations

    def round_is_last(self) -> bool:
        """To be asked after every round."""
        self._rounds += 1
        if self._round_ms - self.best_ms > self.rules.least_gain_ms:
            self._round_ms, self._unchanged = self.best_ms, 0
        else:
            self._unchanged += 1
        return (
            self.has_to_stop()
            or self._rounds >= self.rules.most_rounds
            or self._unchanged >= self.rules.unchanged_rounds
        )

    def best_after(self, chunks: int) -> float:
        """The best latency known when so many chunks had been simulated; infinite before the first."""
        return min((each.latency_ms for each in self.improvements if each.chunks <= chunks), default=math.inf)
