"""Routers: a table that is given, or each chunk to the node that will be done with it earliest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mooring.chunks.data.chunk_flow import Routed
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.chunks.data.learned_routes import CostMap, LearnedRoutes, equal_chunks
from mooring.chunks.data.routing_table import RoutingTable
from mooring.chunks.partitioning import Shape


@dataclass
class TableRouter:
    """As the table says. A new table holds from the next frame that is scattered."""

    table: RoutingTable

    def routed(self, operator: str, frame: int, shape: Shape, busy_ms: Sequence[float]) -> Routed:
        version = self.table.at(frame)
        route = version.route(operator)
        return Routed(version.number, route, [0.0] * len(route.nodes))

    def learn(self, operator: str, shape: Shape, times: Sequence[ChunkTime]) -> None:
        pass


@dataclass
class EqualRouter:
    """One chunk per node, all alike, whatever the nodes are like."""

    nodes: int

    def routed(self, operator: str, frame: int, shape: Shape, busy_ms: Sequence[float]) -> Routed:
        route = equal_chunks(shape, self.nodes)
        return Routed(0, route, [0.0] * len(route.nodes))

    def learn(self, operator: str, shape: Shape, times: Sequence[ChunkTime]) -> None:
        pass


@dataclass
class EarliestFinishRouter:
    """Dispatches when a frame is scattered: costs learned from the frames before, the nodes' speeds, and the
    work that waits at each.
    """

    planner: LearnedRoutes
    _costs: dict[str, CostMap] = field(default_factory=dict)
    _plans: int = 0

    def routed(self, operator: str, frame: int, shape: Shape, busy_ms: Sequence[float]) -> Routed:
        costs = self._costs.get(operator)
        if costs is None or costs.shape != shape:
            costs = CostMap.unknown(shape)
        self._plans += 1
        if not costs.is_known:
            route = equal_chunks(shape, len(busy_ms))
            return Routed(self._plans, route, [0.0] * len(route.nodes))
        route = self.planner.best(costs, busy_ms)
        return Routed(self._plans, route, self.planner.busy_ms(costs, route))

    def learn(self, operator: str, shape: Shape, times: Sequence[ChunkTime]) -> None:
        costs = self._costs.get(operator)
        known = costs if costs is not None and costs.shape == shape else CostMap.unknown(shape)
        self._costs[operator] = known.learn(times)
