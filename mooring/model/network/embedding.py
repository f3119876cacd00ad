"""Coordinates of all nodes at once: Vivaldi in a compiled loop, from a latency matrix or a few samples per
node."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mooring.arrays import Bools, Floats, Ints
from mooring.model.network.coordinate import Coordinate
from mooring.model.network.vivaldi import VivaldiParams
from mooring.model.network.vivaldi_kernels import run_rounds
from mooring.model.problem.latencies import Coordinates, Latencies

NEIGHBOURS = 32
"""Nodes that each node measures; more change little (Vivaldi, section 4.3, and measured here)."""
SETTLING = ((1.0, 2000), (0.2, 1000), (0.04, 500))
"""Phases: part of the position gain, and samples per node. Falling gains let coordinates settle: the median
error on PlanetLab is .083 after the first phase and .078 after the last."""


@dataclass(frozen=True, eq=False)
class Embedding:
    position_ms: Floats
    """Nodes x dimensions."""
    height_ms: Floats
    error: Floats
    """Running relative error of each node's predictions."""
    refused: int = 0
    """Samples that could not be (NaN, zero, negative, absurd) and were not used."""
    disowned: tuple[int, ...] = ()
    """Nodes whose own word about their place most others contradict; others worked it out for them."""

    def __len__(self) -> int:
        return len(self.height_ms)

    def coordinate(self, node: int) -> Coordinate:
        position = tuple(self.position_ms[node].tolist())
        return Coordinate(position, float(self.height_ms[node]), float(self.error[node]))

    def latency_ms(self, start: Ints | int, end: Ints | int) -> Floats:
        """Predicted latencies of pairs; zero from a node to itself."""
        apart = np.linalg.norm(self.position_ms[start] - self.position_ms[end], axis=-1)
        return np.asarray(
            np.where(np.equal(start, end), 0.0, apart + self.height_ms[start] + self.height_ms[end])
        )

    def from_points(self, points_ms: Floats) -> Floats:
        """Predicted latencies from points without height (rows) to all nodes (columns)."""
        apart = np.linalg.norm(points_ms[..., None, :] - self.position_ms, axis=-1)
        return np.asarray(apart + self.height_ms)


def start_embedding(nodes: int, rng: np.random.Generator, params: VivaldiParams) -> Embedding:
    """Nobody knows anything: positions near the origin, error 1."""
    height = np.full(nodes, params.least_height_ms if params.height else 0.0)
    return Embedding(rng.random((nodes, params.dimensions)) - 0.5, height, np.ones(nodes))


def draw_neighbours(nodes: int, rng: np.random.Generator, count: int = NEIGHBOURS) -> Ints:
    """Random others to measure, each node its own; drawn with repetition, never itself."""
    count = min(count, max(nodes - 1, 1))
    if nodes <= count + 1:
        return np.array([[j for j in range(nodes) if j != i] or [i] for i in range(nodes)], dtype=np.int64)
    drawn = rng.integers(0, nodes - 1, (nodes, count))
    return drawn + (drawn >= np.arange(nodes)[:, None])


def refine(
    embedding: Embedding,
    neighbours: Ints,
    latency_ms: Floats,
    rng: np.random.Generator,
    params: VivaldiParams,
    rounds: int,
    frozen: Bools | None = None,
) -> Embedding:
    """Run Vivaldi further: `rounds` samples per node among its neighbours, seen with the latencies given.

    Frozen nodes answer with the coordinate they have, true or not, and never move.
    """
    still = np.zeros(len(embedding), dtype=bool) if frozen is None else frozen
    position, height = embedding.position_ms.copy(), embedding.height_ms.copy()
    error = embedding.error.copy()
    gains = np.array([params.error_gain, params.position_gain])
    least_height = params.least_height_ms if params.height else -1.0
    limits = np.array(
        [least_height, params.least_latency_ms, params.largest_latency_ms, params.largest_error]
    )
    refused = run_rounds(
        position,
        height,
        error,
        neighbours,
        np.ascontiguousarray(latency_ms),
        rounds,
        gains,
        limits,
        still,
        rng,
    )
    return Embedding(position, height, error, embedding.refused + int(refused))


def embed(
    latency_ms: Latencies,
    rng: np.random.Generator,
    params: VivaldiParams | None = None,
    *,
    settling: tuple[tuple[float, int], ...] = SETTLING,
    neighbours: int = NEIGHBOURS,
    start: Embedding | None = None,
    frozen: Bools | None = None,
    distrust: float | None = None,
) -> Embedding:
    """Coordinates from a latency matrix of which each node sees only its neighbours' entries.

    Where latencies are stated by coordinates, these are the embedding.

    With `distrust`, every node looks at its neighbours after each phase but the last: those whose answers do
    not fit by more than this many times what is usual among them are not listened to in the next
    (`unfitting`).
    """
    if isinstance(latency_ms, Coordinates) and start is None and frozen is None:
        return Embedding(latency_ms.position_ms, latency_ms.height_ms, np.zeros(len(latency_ms)))
    params = params or VivaldiParams()
    nodes = len(latency_ms)
    peers = draw_neighbours(nodes, rng, neighbours)
    seen = latency_ms[np.arange(nodes)[:, None], peers]
    result = start or start_embedding(nodes, rng, params)
    heard, still = seen, np.zeros(nodes, dtype=bool) if frozen is None else frozen.copy()
    disowned: set[int] = set()
    for part, rounds in settling:
        slower = replace(params, position_gain=params.position_gain * part)
        result = refine(result, peers, heard, rng, slower, rounds, still)
        if distrust is not None:
            wrong = unfitting(result, peers, seen, distrust)
            accused = np.bincount(peers.ravel(), wrong.ravel(), nodes)
            liars = still & (accused > 0.5 * np.bincount(peers.ravel(), minlength=nodes))
            result.error[liars] = 1.0
            still &= ~liars
            disowned |= set(np.flatnonzero(liars).tolist())
            # Whoever was disowned gets a new hearing: its next place will be the others' work.
            heard = np.where(wrong & ~liars[peers], np.nan, seen)
    return replace(result, disowned=tuple(sorted(disowned)))


def unfitting(embedding: Embedding, peers: Ints, seen_ms: Floats, distrust: float) -> Bools:
    """Per node and neighbour: does the neighbour contradict what the node sees far more than the others do?

    Compared are relative errors with their median over the node's neighbours, which a minority cannot shift.
    """
    own = np.broadcast_to(np.arange(len(peers))[:, None], peers.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        off = np.abs(embedding.latency_ms(own, peers) - seen_ms) / seen_ms
    usual = np.nanmedian(np.where(np.isfinite(off), off, np.nan), axis=1, keepdims=True)
    return np.asarray(~(off <= distrust * np.maximum(usual, 0.05)))


def relative_errors(embedding: Embedding, latency_ms: Floats) -> Floats:
    """|predicted - measured| / measured of all pairs with a latency."""
    i, j = np.nonzero((latency_ms > 0.0) & ~np.eye(len(latency_ms), dtype=bool))
    measured = latency_ms[i, j]
    return np.asarray(np.abs(embedding.latency_ms(i, j) - measured) / measured)
