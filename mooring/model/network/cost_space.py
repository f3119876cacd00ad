"""The cost space of section 3.1.1: latency coordinates plus a load dimension, and the search for near nodes
in it.

The distance from a point to a node is sqrt(|x - p|^2 + load^2) + height: loaded nodes move away, and so do
nodes behind a slow access link. It lies between 1 and sqrt(2) times the Euclidean distance in which load and
height are two more axes, so a k-d tree over these finds the exact nearest nodes and looks at few others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from mooring.arrays import Floats, Ints
from mooring.errors import InputError
from mooring.model.network.embedding import Embedding


@dataclass(frozen=True)
class LoadScale:
    """Linear, as in section 3.1.1: a node at load 1 lies this much further away."""

    ms_per_load: float = 100.0
    """Milliseconds of the load axis per unit of load (share of capacity in use). The paper gives load "equal
    weight": on a network of a few hundred milliseconds a full node is then as far as the other end."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.ms_per_load < float("inf"):
            raise InputError(f"is {self.ms_per_load}, expected milliseconds", field="ms_per_load")

    def __call__(self, load: Floats) -> Floats:
        return np.asarray(self.ms_per_load * np.maximum(load, 0.0))


class CostSpace:
    """A snapshot: coordinates and loads of all nodes, indexed for nearest-neighbour search."""

    def __init__(
        self, embedding: Embedding, load: Floats | None = None, scale: LoadScale | None = None
    ) -> None:
        self.embedding = embedding
        self.load_ms = np.zeros(len(embedding)) if load is None else (scale or LoadScale())(load)
        axes = np.column_stack([embedding.position_ms, self.load_ms, embedding.height_ms])
        self._known = np.flatnonzero(np.all(np.isfinite(axes), axis=1))
        self._tree = cKDTree(axes[self._known])

    def __len__(self) -> int:
        """Nodes whose coordinate can be used."""
        return len(self._known)

    def distance_ms(self, point_ms: Floats, nodes: Ints) -> Floats:
        """Cost-space distance from a point with no load and no height."""
        apart = self.embedding.position_ms[nodes] - point_ms
        flat = np.sqrt(np.einsum("ij,ij->i", apart, apart) + self.load_ms[nodes] ** 2)
        return np.asarray(flat + self.embedding.height_ms[nodes])

    def nearest(self, point_ms: Floats, count: int) -> tuple[Ints, Floats]:
        """The `count` nearest nodes (all, if there are fewer), nearest first, and their distances."""
        target = np.concatenate([point_ms, [0.0, 0.0]])
        count = min(count, len(self))
        asked = min(2 * count + 8, len(self))
        while True:
            euclidean, found = self._tree.query(target, k=asked)
            nodes = self._known[np.atleast_1d(found)]
            distance = self.distance_ms(point_ms, nodes)
            order = np.argsort(distance, kind="stable")[:count]
            # Nodes not looked at are at least as far as the last Euclidean distance.
            if asked == len(self) or distance[order[-1]] <= np.atleast_1d(euclidean)[-1]:
                return nodes[order], distance[order]
            asked = min(2 * asked, len(self))
