"""The thresholds for moves of running operators: the local placement optimiser (section 3.2).

Two keep it calm. The springs must have moved the operator's place in the cost space before sites are looked
up at all, and a move must save a share of the operator's network usage before it is made.
"""

from __future__ import annotations

from dataclasses import dataclass

from mooring.errors import InputError


@dataclass(frozen=True)
class MigrationParams:
    displacement_ms: float = 5.0
    """How far the operator's place must have moved since sites were last looked up; depends on what a look-up
    costs (section 3.2). The paper gives no figure; this is about the jitter of settled coordinates on
    PlanetLab."""
    least_saving: float = 0.05
    """The share of the operator's network usage that a move must save; depends on what a move costs (section
    3.2). Half the error of a predicted latency; measured latencies are better than that."""
    look_again: int = 6
    """Rounds after which sites are looked up even if the place has not moved: sites may have become free or
    slow."""

    def __post_init__(self) -> None:
        if self.displacement_ms < 0.0 or not 0.0 <= self.least_saving < 1.0 or self.look_again < 1:
            raise InputError(
                f"found {self}, expected a distance, a share below 1 and some rounds", field="migration"
            )

    def looks_up(self, moved_ms: float, rounds_since: int) -> bool:
        """Whether sites are looked up for an operator whose place moved this far."""
        return moved_ms > self.displacement_ms or rounds_since >= self.look_again

    def worth_it(self, usage_here: float, usage_there: float) -> bool:
        """Whether a move from here to there pays."""
        return usage_here - usage_there > self.least_saving * usage_here
