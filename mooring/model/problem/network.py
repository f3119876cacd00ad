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
    trigger_s: float = 0.0
    """Between the micro-batches of fragments, for a project on Spark; 0: fragments run tuple by tuple."""

    @property
    def hop_ms(self) -> float:
        """What a channel adds at least: a batch's rows are read by the next trigger's batch."""
        return self.channel_ms if self.trigger_s == 0.0 else 1e3 * self.trigger_s

    @property
    def entry_ms(self) -> float:
        """For how long a tuple of a stream waits for its first batch, on average."""
        return 500.0 * self.trigger_s
