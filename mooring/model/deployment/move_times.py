"""The predicted pause of a move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from mooring.model.problem.problem import Problem


@dataclass(frozen=True)
class MoveTimes:
    """How long a fragment stands still. The defaults are about what warm sites of two cores take."""

    stateless_s: float = 1.0
    stateful_s: float = 2.0
    bytes_per_s: float = 100e6

    def pause_s(self, *, stateful: bool, state_bytes: float) -> float:
        base_s = self.stateful_s if stateful else self.stateless_s
        return base_s + state_bytes / self.bytes_per_s

    def fitted(self, past: Sequence[tuple[float, float]]) -> MoveTimes:
        """The same with the fixed parts as moves of this project took (pause in seconds, bytes of state).

        >>> MoveTimes().fitted([(0.5, 0), (0.7, 0), (0.9, 0), (4.0, 2e8)])
        MoveTimes(stateless_s=0.7, stateful_s=2.0, bytes_per_s=100000000.0)
        """
        without = [pause_s for pause_s, state_bytes in past if state_bytes == 0]
        holding = [max(0.0, pause_s - size / self.bytes_per_s) for pause_s, size in past if size > 0]
        return replace(
            self,
            stateless_s=median(without) if without else self.stateless_s,
            stateful_s=median(holding) if holding else self.stateful_s,
        )


def fragment_pause_s(problem: Problem, fragment: int, times: MoveTimes) -> float:
    """How long a fragment would stand still."""
    members = [problem.operators[j] for j in problem.fragments[fragment]]
    state_bytes = sum(operator.state_bytes for operator in members)
    stateful = state_bytes > 0.0 or any(operator.stateful for operator in members)
    return times.pause_s(stateful=stateful, state_bytes=state_bytes)
