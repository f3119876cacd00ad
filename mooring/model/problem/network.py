"""The network between the sites, as far as a problem states it."""

from __future__ import annotations

from dataclasses import dataclass, field

from mooring.arrays import Floats
from mooring.model.problem.latencies import Latencies


@dataclass(frozen=True, eq=False)
class Network:
    latency_ms: Latencies | None = None
    """One-way latency from site i to site j; zero diagonal. None: not stated."""
    channel_ms: float = 0.0
    """Delay that every channel between two fragments adds."""
    comm_us: float = 0.0
    """CPU microseconds per tuple at each end of a crossing between sites."""
    bandwidth: Floats | None = None
    """Bytes per second from site i to site j; infinite where not limited. None: not stated."""
    routes: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    """Sites passed on the way from i to j, ends left out, where stated."""
