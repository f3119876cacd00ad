"""What can be set of relaxation while a pipeline runs: the decider, and machines of simulated sites."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mooring.algorithms.relaxation.machines.params import AGENTS, OptimiserParams
from mooring.algorithms.relaxation.migration import MigrationParams


@dataclass(frozen=True)
class RelaxationSettings:
    candidates: int = AGENTS.candidates
    """Sites probed per fragment."""
    period_ms: float = AGENTS.period_ms
    """Between two rounds of a site."""
    load_ms: float = AGENTS.load_ms
    """Milliseconds of the load axis per unit of load."""
    fill: float = AGENTS.fill
    """Share of a site's cores up to which it takes fragments in."""
    full: float = AGENTS.full
    """Share of its cores beyond which a site lets a fragment go."""
    displacement_ms: float = AGENTS.migration.displacement_ms
    """How far a fragment's place has to move before sites are looked up."""
    least_saving: float = AGENTS.migration.least_saving
    """The share of a fragment's network usage that a move has to save."""

    def __post_init__(self) -> None:
        self.params()

    @property
    def migration(self) -> MigrationParams:
        return MigrationParams(self.displacement_ms, self.least_saving)

    def params(self) -> OptimiserParams:
        """Of machines at sites."""
        return replace(
            AGENTS,
            candidates=self.candidates,
            period_ms=self.period_ms,
            load_ms=self.load_ms,
            fill=self.fill,
            full=self.full,
            migration=self.migration,
        )
