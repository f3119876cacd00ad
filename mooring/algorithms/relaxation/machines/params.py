"""The parameters of a site's placement optimiser."""

from __future__ import annotations

from dataclasses import dataclass, field

from mooring.algorithms.relaxation.migration import MigrationParams
from mooring.errors import InputError
from mooring.model.network.vivaldi import VivaldiParams


@dataclass(frozen=True)
class OptimiserParams:
    period_ms: float = 50.0
    """Time between two rounds of a site; each measures one other site, and repeats what was not answered."""
    rounds_per_review: int = 20
    """Rounds between two reviews of the fragments that run here."""
    patience: int = 4
    """Reviews after which probes and requests that were not answered are given up: at least the time of six
    messages, or no move over a long link would ever be agreed on."""
    candidates: int = 5
    """Sites probed per fragment."""
    rate_weight: float = 0.3
    """Weight of a measured rate against what was known before."""
    load_ms: float = 0.0
    """Milliseconds of the load axis per unit of load (section 3.1.1)."""
    fill: float = 1.0
    """Share of a site's cores up to which it takes fragments in: what is left is for rates to grow into."""
    full: float = 1.0
    """Share of its cores beyond which a site lets a fragment go although that saves no network usage."""
    watched: int = 3
    """Reviews in a row at which it has to be so full."""
    migration: MigrationParams = field(default_factory=MigrationParams)
    vivaldi: VivaldiParams = field(default_factory=lambda: VivaldiParams(dimensions=2))

    def __post_init__(self) -> None:
        if not 0.0 < self.fill <= self.full:
            raise InputError(f"found {self}, expected 0 < fill <= full", field="optimiser")
        if not 0.0 < self.period_ms < float("inf") or self.rounds_per_review < 1 or self.candidates < 1:
            raise InputError(f"found {self}, expected positive numbers", field="optimiser")


AGENTS = OptimiserParams(period_ms=1000.0, rounds_per_review=5, fill=0.8, full=0.9)
"""For agents of a run that is looked at every five seconds, and where rates should be able to grow by a
quarter."""
