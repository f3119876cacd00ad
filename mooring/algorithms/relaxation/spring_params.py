"""The parameters of spring relaxation (section 3.1.3)."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.errors import InputError


@dataclass(frozen=True)
class SpringParams:
    damping: float = 0.1
    """delta: the part of the way an operator moves per step (section 3.1.3). Rates are taken relative to the
    sum at their operator, or the step would have a unit and 0.1 be unstable for rates above 20."""
    threshold_ms: float = 1.0
    """F_t: at rest once no force is larger (section 3.1.3)."""
    most_sweeps: int = 10_000

    def __post_init__(self) -> None:
        if not 0.0 < self.damping < 2.0:
            raise InputError(f"is {self.damping}, expected above 0 and below 2", field="damping")
        if not self.threshold_ms > 0.0:
            raise InputError(f"is {self.threshold_ms}, expected a positive number", field="threshold_ms")
