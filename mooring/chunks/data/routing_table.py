"""Which chunks a frame is cut into and which node gets which, by version: "from frame n on".

A chunk plan changes while frames flow. A table keeps every plan with the first frame that it holds for, so
that all who look up a frame find the same route, and a replayed frame usually the one it was cut by the first
time. Usually is enough: any partitioning gives the same output (see `scatter_gather`), so a table may forget
old versions, and a replay under another one is still exact.

Nodes are numbers: the bins of one Spark cluster, or sites by their place in a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from mooring.atomic_files import write_whole
from mooring.chunks.partitioning import Bounds, Partitioning, Shape
from mooring.errors import InputError

KEPT_VERSIONS = 16
"""Beyond these the oldest are forgotten: more frames than ever wait in a query's input."""


class Route(msgspec.Struct, frozen=True):
    """How the frames of one operator are cut, and the node of every chunk."""

    parts: Shape
    nodes: tuple[int, ...]

    def __post_init__(self) -> None:
        count = Partitioning(self.parts).count
        if len(self.nodes) != count or min(self.nodes) < 0:
            raise InputError(
                f"found nodes {self.nodes} for {count} chunks, expected one node from 0 up for each"
            )

    def bounds(self, shape: Shape) -> list[Bounds]:
        """Of every chunk of a frame; along an axis with fewer cells than parts, of single cells."""
        parts = (min(part, cells) for part, cells in zip(self.parts, shape, strict=True))
        return Partitioning(tuple(parts)).bounds(shape)


class Version(msgspec.Struct, frozen=True):
    number: int
    from_frame: int
    routes: Mapping[str, Route]
    """By operator."""

    def route(self, operator: str) -> Route:
        if operator not in self.routes:
            raise InputError(
                f"found no route for the operator {operator!r} in version {self.number} of the routing table",
                remedy=f"it has {', '.join(self.routes) or 'none'}",
            )
        return self.routes[operator]


class RoutingTable(msgspec.Struct, frozen=True):
    versions: tuple[Version, ...]
    """By their first frame; the last is the newest."""

    @classmethod
    def starting_with(cls, routes: Mapping[str, Route]) -> RoutingTable:
        return cls((Version(0, 0, routes),))

    def at(self, frame: int) -> Version:
        """The version that holds for a frame; for one from before all that are kept, the oldest."""
        holding = [version for version in self.versions if version.from_frame <= frame]
        return holding[-1] if holding else self.versions[0]

    def then(self, from_frame: int, routes: Mapping[str, Route]) -> RoutingTable:
        """Other routes from a frame on. Versions that were to begin at it or later are dropped."""
        kept = [version for version in self.versions if version.from_frame < from_frame]
        number = 1 + max(version.number for version in self.versions)
        return RoutingTable((*kept[1 - KEPT_VERSIONS :], Version(number, from_frame, routes)))

    def save(self, path: Path) -> None:
        """All or nothing, so that a reader never sees half a table."""
        write_whole(path, msgspec.json.encode(self).decode())

    @classmethod
    def load(cls, path: Path) -> RoutingTable:
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError) as error:
            raise InputError(f"found no routing table: {error}", file=path) from None
