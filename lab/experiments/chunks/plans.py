"""The query plans of the paper (sections 3.2, 4.1 and 5.1) on sites of a small cluster.

The paper gives shapes of graphs and a 100 Mb switch, but no sizes: a frame here is a picture of 128 x 128
cells of one byte, which takes 1.3 ms on the switch, and all sites together need 10 ms for an operator.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.arrays import Floats
from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.model import ArrayOperator, ArrayStream, ChunkProblem, ChunkSite, Switch

SHAPE = (128, 128)
SITE_HZ = 1e9
OPERATOR_S = 0.010
"""What an operator of average cost takes when all sites share it evenly."""
COMPLEX_OPERATORS, COMPLEX_JOINS, COMPLEX_INPUTS = 20, 6, 7

Edges = Sequence[tuple[str, ...]]
"""Per operator, its inputs: "o3" is operator 3, "i0" is stream 0."""

SIMPLE: Edges = (("i0",), ("i1",), ("o0", "o1"))
INDEPENDENT: Edges = tuple((f"i{k}",) for k in range(6))
PLANS = ("simple", "complex", "independent")
SITES = ("like", "unlike")


def complex_edges(rng: np.random.Generator) -> Edges:
    """A tree of 20 operators over 7 streams in which 6 join two others: grown from the inputs, asymmetric."""
    open_ends = [f"i{k}" for k in range(COMPLEX_INPUTS)]
    kinds = ["join"] * COMPLEX_JOINS + ["step"] * (COMPLEX_OPERATORS - COMPLEX_JOINS - COMPLEX_INPUTS)
    # Every stream is read by an operator of its own.
    edges: list[tuple[str, ...]] = [(end,) for end in open_ends]
    open_ends = [f"o{k}" for k in range(COMPLEX_INPUTS)]
    for kind in rng.permutation(kinds):
        chosen = sorted(rng.choice(len(open_ends), 2 if kind == "join" else 1, replace=False), reverse=True)
        inputs = tuple(open_ends.pop(k) for k in chosen)
        open_ends.append(f"o{len(edges)}")
        edges.append(inputs)
    return edges


def chain_edges(length: int) -> Edges:
    return [("i0",), *((f"o{k}",) for k in range(length - 1))]


def like_sites(count: int) -> tuple[ChunkSite, ...]:
    return tuple(ChunkSite(f"s{k}", SITE_HZ) for k in range(count))


def unlike_sites(count: int, rng: np.random.Generator) -> tuple[ChunkSite, ...]:
    """Speeds between a half and one and a half times the average."""
    speeds = rng.uniform(0.5, 1.5, count)
    return tuple(ChunkSite(f"s{k}", SITE_HZ * s) for k, s in enumerate(speeds * count / speeds.sum()))


def plan_problem(
    edges: Edges,
    sites: tuple[ChunkSite, ...],
    load: float,
    maps: Sequence[ComplexityMap] | None = None,
    relative_cost: Sequence[float] | None = None,
) -> ChunkProblem:
    """Frames come as often as makes this load. `maps` say how an operator's cost is spread (any unit),
    `relative_cost` how much it is, 1 being average; by default all is even.
    """
    count = len(edges)
    streams = sorted({name for inputs in edges for name in inputs if name.startswith("i")})
    costs = np.ones(count) if relative_cost is None else np.array(relative_cost)
    total_hz = sum(site.cycles_per_s_left(0.0) for site in sites)
    frame_cycles = OPERATOR_S * total_hz * costs
    spread = maps or [ComplexityMap.even(1.0, len(SHAPE))] * count
    operators = tuple(
        ArrayOperator(f"o{k}", inputs, SHAPE, _scaled(spread[k], float(frame_cycles[k])))
        for k, inputs in enumerate(edges)
    )
    return ChunkProblem(
        tuple(ArrayStream(name, SHAPE) for name in streams),
        operators,
        sites,
        frames_per_s=load * total_hz / float(frame_cycles.sum()),
        switch=Switch(100.0, 0.1),
    )


def drawn_problem(
    plan: str, sites: str, load: float, rng: np.random.Generator, *, moves: bool = False
) -> ChunkProblem:
    """One of the plans with costs of a half to one and a half times the average, spread unevenly."""
    edges = {"simple": SIMPLE, "independent": INDEPENDENT}.get(plan) or complex_edges(rng)
    count = 12 if plan == "complex" else 6
    chosen = like_sites(count) if sites == "like" else unlike_sites(count, rng)
    maps = [uneven_map(rng, moves=moves) for _ in edges]
    return plan_problem(edges, chosen, load, maps, rng.uniform(0.5, 1.5, len(edges)).tolist())


def _scaled(each: ComplexityMap, frame_cycles: float) -> ComplexityMap:
    factor = frame_cycles / each.frame_cycles(SHAPE)
    return ComplexityMap(each.cycles_per_cell * factor, each.cells_per_frame)


def uneven_map(rng: np.random.Generator, blocks: int = 8, moves: bool = False) -> ComplexityMap:
    """Blocks of exponential cost: most of the work in few places. It may move by a cell or so per frame."""
    cells: Floats = rng.standard_exponential((blocks, blocks)) + 0.1
    return ComplexityMap(cells, tuple(rng.uniform(-2, 2, 2).tolist()) if moves else ())
