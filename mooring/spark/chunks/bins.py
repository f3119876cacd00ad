"""The bins of one cluster, and the routes of chunks into them: given, or learned while frames flow.

Learned routes live in a folder that all workers reach: a routing table per operator and what is known of its
costs. The gather task of a micro-batch is the last to run in it and the only one of its operator: it notes
what the chunks took and writes the route for the frames after its own. So a chunk plan changes between two
micro-batches and never within one, without a process of its own to watch the query. Two gather tasks at once,
as after a crash, can only spoil a plan, never a frame: any plan gives the same output.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec
import numpy as np

from mooring.atomic_files import write_whole
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.chunks.data.learned_routes import CostMap, LearnedRoutes, equal_chunks
from mooring.chunks.data.routing_table import Route, RoutingTable
from mooring.chunks.partitioning import Shape
from mooring.errors import InputError
from mooring.spark.sites.file_name import file_name

Gathered: TypeAlias = tuple[int, Shape, Sequence[ChunkTime]]
"""A frame that was gathered: its number, the shape of its output, and what its chunks took."""


class Routes(Protocol):
    """The routes of one operator, as one task sees them."""

    def at(self, frame: int, shape: Shape) -> tuple[int, Route]:
        """The version of the chunk plan that holds for a frame, and its route."""
        ...


class Bins(Protocol):
    """How the slots of a cluster take part."""

    @property
    def count(self) -> int:
        """Tasks that compute side by side: as many as cores; or as chunks, to leave the core to Spark."""
        ...

    def routes(self, operator: str) -> Routes: ...

    def learn(self, operator: str, gathered: Sequence[Gathered]) -> None:
        """What the chunks of a micro-batch took, its frames in order."""
        ...


@dataclass(frozen=True)
class FixedBins:
    """Routes that are given: a table, or the file of one, where a new version holds from the next micro-batch
    on.
    """

    count: int
    table: RoutingTable | Path

    def routes(self, operator: str) -> Routes:
        table = self.table if isinstance(self.table, RoutingTable) else RoutingTable.load(self.table)
        return _TableRoutes(table, operator)

    def learn(self, operator: str, gathered: Sequence[Gathered]) -> None:
        pass


@dataclass(frozen=True)
class LearningBins:
    """Routes planned anew after every micro-batch, from what chunks took; the first ones are equal chunks."""

    folder: Path
    """For the routing tables and what was learned. Keep it apart from a query's checkpoint."""
    planner: LearnedRoutes

    @classmethod
    def on_cores(cls, folder: Path, cores: int, most_chunks: int = 32) -> LearningBins:
        """For cores that are all alike."""
        if cores < 1:
            raise InputError(f"found {cores} cores, expected at least one")
        return cls(folder, LearnedRoutes((1.0,) * cores, most_chunks))

    @property
    def count(self) -> int:
        return len(self.planner.speeds)

    def routes(self, operator: str) -> Routes:
        file = self._file(operator, "routes.json")
        if file.exists():
            return _TableRoutes(RoutingTable.load(file), operator)
        return _EqualRoutes(self.count)

    def learn(self, operator: str, gathered: Sequence[Gathered]) -> None:
        if not gathered:
            return
        last_frame, shape, _ = gathered[-1]
        costs = self._load_costs(operator, shape)
        for _, own_shape, times in gathered:
            if own_shape == shape:
                costs = costs.learn(times)
        routes = {operator: self.planner.best(costs)}
        file = self._file(operator, "routes.json")
        old = RoutingTable.load(file) if file.exists() else None
        if old is None or old.at(last_frame + 1).routes != routes:
            first = RoutingTable.starting_with({operator: equal_chunks(shape, self.count)})
            (old or first).then(last_frame + 1, routes).save(file)
        self._save_costs(operator, costs)

    def _file(self, operator: str, ending: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{file_name(operator)}.{ending}"

    def _load_costs(self, operator: str, shape: Shape) -> CostMap:
        """What was learned so far; nothing of frames of another shape, or where the file cannot be read."""
        with contextlib.suppress(OSError, msgspec.MsgspecError, ValueError):
            file = self._file(operator, "costs")
            kept = msgspec.msgpack.decode(file.read_bytes(), type=_KeptCosts)
            if kept.shape == shape:
                return CostMap(shape, np.frombuffer(kept.ms_per_cell).reshape(kept.blocks))
        return CostMap.unknown(shape)

    def _save_costs(self, operator: str, costs: CostMap) -> None:
        kept = _KeptCosts(costs.shape, costs.ms_per_cell.shape, costs.ms_per_cell.tobytes())
        write_whole(self._file(operator, "costs"), msgspec.msgpack.encode(kept))


class _KeptCosts(msgspec.Struct):
    shape: tuple[int, ...]
    blocks: tuple[int, ...]
    ms_per_cell: bytes


@dataclass(frozen=True)
class _TableRoutes:
    table: RoutingTable
    operator: str

    def at(self, frame: int, shape: Shape) -> tuple[int, Route]:
        version = self.table.at(frame)
        return version.number, version.route(self.operator)


@dataclass(frozen=True)
class _EqualRoutes:
    nodes: int

    def at(self, frame: int, shape: Shape) -> tuple[int, Route]:
        return 0, equal_chunks(shape, self.nodes)
