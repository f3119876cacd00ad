"""Random problems: the query graphs of section 7.1 of the ROD paper, and what later experiments vary in them.

A graph is a forest with one tree per stream. Each tree is rooted at an input operator and grown node by node:
one after the other gets one to three downstream operators, until the tree has its number of operators.
Within a tree an operator only reads operators of a lower number. Joins keep to that across trees, so no cycle
can arise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.errors import InputError
from mooring.model.problem.latencies import Coordinates, Latencies
from mooring.model.problem.network import Network
from mooring.model.problem.operator import Operator
from mooring.model.problem.places import Places
from mooring.model.problem.problem import Problem
from mooring.model.problem.query import Query
from mooring.model.problem.site import Site
from mooring.model.problem.stream import Stream

_RANGES = ("capacity", "children", "cost_us", "selectivity", "join_cost_us", "join_selectivity")
_COUNTS = {"streams": 1, "operators": 1, "sites": 1, "joins": 0, "variable": 0, "queries": 0}
_MAX_COUNT = 10_000_000


@dataclass(frozen=True, kw_only=True)
class GraphParameters:
    """What a random problem looks like; the defaults are those of section 7.1.

    Ranges are (lowest, highest), drawn uniformly. Options that are off by default are drawn after everything
    else, so the same seed gives the same trees, costs and selectivities with and without them.
    """

    streams: int = 5
    """Input streams, one tree each (section 7.1: five unless stated otherwise)."""
    operators: int = 100
    """Operators in all trees together; a multiple of `streams`, since all trees are equally large (7.1)."""
    sites: int = 10
    """Sites (7.1: ten, all alike)."""
    capacity: tuple[float, float] = (1.0, 1.0)
    """Cores of a site (7.1: all alike, so the paper gives no unit)."""
    children: tuple[int, int] = (1, 3)
    """Downstream operators of a node, each number equally likely (7.1)."""
    order: Literal["breadth_first", "random"] = "breadth_first"
    """Which node gets its downstream operators next: the oldest, or any that has none yet (7.1 does not say).
    At random the trees are deeper and their operators less alike."""
    cost_us: tuple[float, float] = (100.0, 1000.0)
    """CPU microseconds per tuple (7.1: delays of 0.1 to 1 ms). Equal ends give equal costs (7.3.4)."""
    selectivity: tuple[float, float] = (0.5, 1.0)
    """Selectivity of the operators that are not of selectivity one (7.1)."""
    unit_selectivity_share: float = 0.5
    """The share of operators, chosen at random, with a selectivity of exactly one (7.1: half)."""

    rates: Literal["equal", "random"] = "equal"
    """Present rates: all equal, or a random point of the ideal feasible set (7.1, 7.3.1)."""
    utilisation: float = 0.5
    """Equal rates: the share of the total capacity that the present load takes, 0 to 1."""
    comm_us: float = 0.0
    """CPU microseconds per tuple at each end of a crossing (6.3, 7.3.4)."""

    joins: int = 0
    """Operators, below the roots, that get a second input from another tree and become joins (6.2)."""
    join_cost_us: tuple[float, float] = (0.1, 1.0)
    """CPU microseconds per pair."""
    join_selectivity: tuple[float, float] = (0.001, 0.01)
    """Output tuples per pair."""
    join_window_s: float = 0.5
    """Window of every join, seconds."""
    variable: int = 0
    """Operators, joins left out, whose selectivity is marked as not constant (6.2)."""

    stream_bytes: float | None = None
    """Bytes per tuple of every stream; None: not stated."""
    plane_ms: float | None = None
    """Side of a square, in ms of latency, over which the sites are scattered; streams then enter at random
    sites. None: no latencies are stated."""
    queries: int = 0
    """Consumers of randomly chosen last operators, at random sites."""

    def __post_init__(self) -> None:
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MAX_COUNT:
                raise InputError(
                    f"found {value!r}, expected a whole number from {least} to {_MAX_COUNT}", field=name
                )
        for name in _RANGES:
            low, high = getattr(self, name)
            lowest = {"capacity": 1e-9, "children": 1.0}.get(name, 0.0)
            if not (lowest <= low <= high and math.isfinite(high)):
                expected = f"two finite numbers of at least {lowest:g}, the lower first"
                raise InputError(f"found {low!r} and {high!r}, expected {expected}", field=name)
        self._check_numbers()
        self._check_graph()

    def _check_numbers(self) -> None:
        for name in ("unit_selectivity_share", "utilisation"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"found {getattr(self, name)!r}, expected a share from 0 to 1", field=name)
        for name in ("comm_us", "join_window_s", "stream_bytes", "plane_ms"):
            value = getattr(self, name)
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise InputError(f"found {value!r}, expected a finite number, not negative", field=name)
        if self.order not in ("breadth_first", "random"):
            raise InputError(f"found {self.order!r}, expected breadth_first or random", field="order")
        if self.rates not in ("equal", "random"):
            raise InputError(f"found {self.rates!r}, expected equal or random", field="rates")
        if self.joins and self.join_window_s == 0:
            raise InputError("found 0, expected a window above zero", field="join_window_s")

    def _check_graph(self) -> None:
        if self.operators % self.streams:
            raise InputError(
                f"found {self.operators} operators for {self.streams} streams, expected a multiple",
                field="operators",
                remedy=f"try {math.ceil(self.operators / self.streams) * self.streams}",
            )
        below_roots = self.operators - self.streams
        if self.joins > (below_roots if self.streams > 1 else 0):
            raise InputError(
                f"found {self.joins} joins, expected at most one per operator that reads an operator"
                " (and two streams or more)",
                field="joins",
            )
        if self.variable > self.operators - self.joins:
            raise InputError(
                f"found {self.variable}, expected at most {self.operators - self.joins}: all but joins",
                field="variable",
            )


class _Forest(NamedTuple):
    """All trees as arrays of streams x operators of a tree; -1 where there is no such node."""

    parent: Ints
    """The operator of the same tree that each reads; -1: the stream."""
    partner_tree: Ints
    """Joins: the tree of the second input, and its number in there."""
    partner: Ints
    cost_us: Floats
    selectivity: Floats
    window_s: float


def generate_problem(
    parameters: GraphParameters, rng: np.random.Generator, network: Places | None = None
) -> Problem:
    """A random problem. Streams are named s1, s2, ..., the operators of the first tree o1_1, o1_2, ...

    Within a network, the sites are some of its places, and streams enter at random ones.

    >>> problem = generate_problem(GraphParameters(streams=2, operators=6), np.random.default_rng(0))
    >>> [operator.name for operator in problem.operators]
    ['o1_1', 'o1_2', 'o1_3', 'o2_1', 'o2_2', 'o2_3']
    """
    forest = _draw_forest(parameters, rng)
    capacity_cores = rng.uniform(*parameters.capacity, parameters.sites)
    rates = _draw_rates(parameters, forest, float(capacity_cores.sum()), rng)
    variable = _draw_variable(parameters, forest, rng)
    names, latency_ms = _draw_places(parameters, rng, network)
    sites = tuple(Site(name=name, capacity=float(c)) for name, c in zip(names, capacity_cores, strict=True))
    homes: list[str | None] = [None] * parameters.streams
    if latency_ms is not None:
        homes = [sites[i].name for i in rng.integers(0, len(sites), parameters.streams)]
    stream_bytes = None if parameters.stream_bytes is None else float(parameters.stream_bytes)
    return Problem(
        sites=sites,
        streams=tuple(
            Stream(name=f"s{k}", rate=float(rate), site=home, bytes=stream_bytes)
            for k, (rate, home) in enumerate(zip(rates, homes, strict=True), start=1)
        ),
        operators=tuple(_operators(forest, variable)),
        queries=_draw_queries(parameters, forest, sites, rng),
        network=Network(latency_ms=latency_ms, comm_us=float(parameters.comm_us)),
    )


def _draw_forest(parameters: GraphParameters, rng: np.random.Generator) -> _Forest:
    trees, size = parameters.streams, parameters.operators // parameters.streams
    parent = np.stack([_draw_tree(size, parameters, rng) for _ in range(trees)])
    cost_us = rng.uniform(*parameters.cost_us, (trees, size))
    selectivity = rng.uniform(*parameters.selectivity, (trees, size))
    units = round(parameters.operators * parameters.unit_selectivity_share)
    selectivity.flat[rng.permutation(parameters.operators)[:units]] = 1.0
    forest = _Forest(
        parent,
        np.full((trees, size), -1),
        np.full((trees, size), -1),
        cost_us,
        selectivity,
        parameters.join_window_s,
    )
    if parameters.joins:
        _draw_joins(parameters, forest, rng)
    return forest


def _draw_tree(size: int, parameters: GraphParameters, rng: np.random.Generator) -> Ints:
    """The parent of each operator; children of one operator stand next to each other."""
    low, high = parameters.children
    counts = rng.integers(low, high, size=size, endpoint=True)
    if parameters.order == "breadth_first":
        return np.concatenate([[-1], np.repeat(np.arange(size), counts)[: size - 1]])
    return _grow_at_random(counts.tolist(), rng.random(size).tolist())


def _grow_at_random(counts: list[int], draws: list[float]) -> Ints:
    """As many children as `counts` says for one childless operator after the other, each picked by a draw."""
    parent, childless = [-1], [0]
    for count, draw in zip(counts, draws, strict=True):
        at = int(draw * len(childless))
        childless[at], childless[-1] = childless[-1], childless[at]
        chosen = childless.pop()
        childless += range(len(parent), len(parent) + count)
        parent += [chosen] * count
    return np.array(parent[: len(counts)], dtype=np.int64)


def _draw_joins(parameters: GraphParameters, forest: _Forest, rng: np.random.Generator) -> None:
    trees, size = forest.parent.shape
    chosen = rng.choice(trees * (size - 1), parameters.joins, replace=False)
    tree, at = chosen // (size - 1), chosen % (size - 1) + 1
    forest.partner_tree[tree, at] = (tree + rng.integers(1, trees, size=len(at))) % trees
    forest.partner[tree, at] = rng.integers(0, at)
    forest.cost_us[tree, at] = rng.uniform(*parameters.join_cost_us, len(at))
    forest.selectivity[tree, at] = rng.uniform(*parameters.join_selectivity, len(at))


def _draw_rates(
    parameters: GraphParameters, forest: _Forest, total_cores: float, rng: np.random.Generator
) -> Floats:
    """Present rates. Where joins bend the load, the direction is drawn first and then scaled to fit."""
    trees = len(forest.parent)
    if parameters.rates == "equal":
        direction, target_cores = np.ones(trees), parameters.utilisation * total_cores
    else:
        # Exponential variables over their sum, one of them left out: uniform on the solid simplex.
        spread = rng.exponential(size=trees + 1)
        point = spread / spread.sum()
        alone = _cores_per_tree(forest._replace(partner=np.full_like(forest.partner, -1)), np.ones(trees))
        direction = point[:-1] / np.where(alone > 0, alone, 1.0)
        target_cores = float(point[:-1].sum()) * total_cores
    return direction * _scale_to(forest, direction, target_cores)


def _scale_to(forest: _Forest, direction: Floats, target_cores: float) -> float:
    """The factor at which the true load reaches the target; 1 where nothing costs anything."""

    def cores(factor: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):  # joins of joins may overflow far above the target
            return float(_cores_per_tree(forest, direction * factor).sum())

    if cores(1.0) == 0.0 or target_cores == 0.0:
        return 1.0 if target_cores else 0.0
    if not np.any(forest.partner >= 0):
        return target_cores / cores(1.0)
    low, high = 0.0, 1.0
    while cores(high) < target_cores:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if cores(middle) < target_cores else (low, middle)
    return low


def _cores_per_tree(forest: _Forest, rates: Floats) -> Floats:
    """The true load of every tree at given stream rates, one operator of each tree at a time."""
    trees, size = forest.parent.shape
    output = np.empty((size + 1, trees))
    output[-1] = rates  # where parent -1 looks
    cores = np.zeros(trees)
    every = np.arange(trees)
    for at in range(size):
        inflow = output[forest.parent[:, at], every]
        partner = forest.partner[:, at]
        if (partner >= 0).any():
            other = output[partner, forest.partner_tree[:, at]]
            inflow = np.where(partner >= 0, forest.window_s * inflow * other, inflow)
        cores += inflow * forest.cost_us[:, at] / 1e6
        output[at] = inflow * forest.selectivity[:, at]
    return cores


def _draw_variable(parameters: GraphParameters, forest: _Forest, rng: np.random.Generator) -> set[int]:
    candidates = np.flatnonzero(forest.partner.ravel() < 0)
    return set(rng.permutation(candidates)[: parameters.variable].tolist()) if parameters.variable else set()


def _operators(forest: _Forest, variable: set[int]) -> list[Operator]:
    trees, size = forest.parent.shape
    names = [[f"o{k}_{at}" for at in range(1, size + 1)] + [f"s{k}"] for k in range(1, trees + 1)]
    # Plain lists: a hundred thousand single reads of an array are slow.
    parent, partner_tree, partner = (a.tolist() for a in forest[:3])
    cost_us, selectivity = forest.cost_us.tolist(), forest.selectivity.tolist()
    result: list[Operator] = []
    for k in range(trees):
        for at in range(size):
            common = {"name": names[k][at], "cost_us": cost_us[k][at], "selectivity": selectivity[k][at]}
            source = names[k][parent[k][at]]
            if partner[k][at] >= 0:
                inputs = (source, names[partner_tree[k][at]][partner[k][at]])
                result.append(Operator(inputs=inputs, kind="join", window_s=forest.window_s, **common))
            else:
                result.append(Operator(inputs=(source,), variable=k * size + at in variable, **common))
    return result


def _draw_places(
    parameters: GraphParameters, rng: np.random.Generator, network: Places | None
) -> tuple[tuple[str, ...], Latencies | None]:
    """The sites' names, and the latencies between them if there are any."""
    if network is not None:
        if parameters.plane_ms is not None:
            raise InputError("found both a network and a plane to scatter the sites over", field="plane_ms")
        drawn = network.drawn(parameters.sites, rng)
        return drawn.names, drawn.latency_ms
    names = tuple(f"site{i}" for i in range(1, parameters.sites + 1))
    if parameters.plane_ms is None:
        return names, None
    where = rng.uniform(0.0, parameters.plane_ms, (parameters.sites, 2))
    return names, Coordinates(where, np.zeros(parameters.sites))


def _draw_queries(
    parameters: GraphParameters, forest: _Forest, sites: tuple[Site, ...], rng: np.random.Generator
) -> tuple[Query, ...]:
    if not parameters.queries:
        return ()
    trees, size = forest.parent.shape
    read = np.zeros((trees, size + 1), dtype=bool)
    read[np.arange(trees)[:, None], forest.parent] = True
    read[forest.partner_tree, forest.partner] = True
    tree, last = np.nonzero(~read[:, :size])
    chosen = rng.integers(0, len(last), parameters.queries)
    at = rng.integers(0, len(sites), parameters.queries)
    return tuple(
        Query(name=f"q{n}", reads=f"o{tree[c] + 1}_{last[c] + 1}", site=sites[i].name)
        for n, (c, i) in enumerate(zip(chosen, at, strict=True), start=1)
    )
