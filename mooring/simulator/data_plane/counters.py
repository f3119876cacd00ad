"""What a simulation has counted up to one instant; a measurement is the difference of two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mooring.arrays import Floats
from mooring.contracts.engine import QueryReport
from mooring.simulator.data_plane.simulation import Simulation


@dataclass(frozen=True)
class Counters:
    at_s: float
    totals: Mapping[str, Floats]
    lengths: Floats
    recent_max: Floats

    @classmethod
    def of(cls, simulation: Simulation) -> Counters:
        world = simulation.world
        return cls(
            at_s=simulation.now_s,
            totals={
                "busy": simulation.utilisation() * simulation.counted_s,
                "taken": world.operators["taken"].copy(),
                "given": world.operators["given"].copy(),
                "work": world.operators["work"].copy(),
                "emitted": world.sources["emitted"].copy(),
                "count": world.queries["count"].copy(),
                "latency": world.queries["sum"].copy(),
            },
            lengths=world.sites["length"].copy(),
            recent_max=world.queries["recent_max"].copy(),
        )

    def query_report(self, query: int, rate: Mapping[str, Floats]) -> QueryReport:
        """What a query received, given everything per second since the counters before."""
        count = float(rate["count"][query])
        if count == 0:
            return QueryReport(0.0, None, None)
        mean_s, longest_s = float(rate["latency"][query]) / count, float(self.recent_max[query])
        return QueryReport(count, 1e3 * mean_s, 1e3 * longest_s)
