"""What can be set of overlays while a pipeline runs: the decider, and machines of simulated sites."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mooring.algorithms.overlay.leases.overlay_agent import OverlayAgentParams
from mooring.errors import InputError

_AGENTS = OverlayAgentParams()


@dataclass(frozen=True)
class OverlaySettings:
    k: int = _AGENTS.overlay.search.k
    """Steps that the search for plans at sites looks ahead."""
    candidates: int = _AGENTS.overlay.search.candidates
    """Sites per operator that plans try."""
    least_saving: float = _AGENTS.lease.least_saving
    """Bytes per second that a plan has to save where nothing is wrong."""
    review_ms: float = _AGENTS.lease.review_ms
    """How often sites look for such plans."""
    prepare_ms: float = _AGENTS.prepare_ms
    """How often sites make plans anew."""

    def __post_init__(self) -> None:
        if not (self.prepare_ms > 0.0 and self.least_saving >= 0.0):
            raise InputError(f"found {self}, expected prepare_ms > 0 and least_saving >= 0", field="overlay")
        self.params()

    def params(self) -> OverlayAgentParams:
        """Of machines at sites."""
        search = replace(_AGENTS.overlay.search, k=self.k, candidates=self.candidates)
        lease = replace(_AGENTS.lease, review_ms=self.review_ms, least_saving=self.least_saving)
        overlay = replace(_AGENTS.overlay, search=search)
        return replace(_AGENTS, lease=lease, overlay=overlay, prepare_ms=self.prepare_ms)
