"""Operator clustering before ROD: arcs that are costly to cut stay inside one site (ROD paper, section 6.3).

The clustering ratio of an arc is what its crossing would cost, over what the cheaper of its two ends costs.
Two greedy approaches merge along the arcs whose ratio is at least a threshold, either the largest ratio first
or the lightest pair first; both stop short of clusters heavier than a cap. Neither wins on all graphs, so the
sweep tries several thresholds and caps with both and keeps the plan with the largest plane distance,
communication included.

Costs are measured as everywhere in ROD, by the norm of normalised coefficients, so that no rates have to be
assumed; for an arc of a single stream this is the paper's ratio of costs. Weights are in node shares: a
cluster of weight 1 has as much of a variable as one of n equal sites should get.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from mooring.arrays import Floats, Ints
from mooring.model.load.model import Arcs, LoadModel

Approach = Literal["ratio", "weight"]

# The thresholds of the sweep are these quantiles of the graph's own clustering ratios, so that every step
# leaves out a good part of the arcs whatever the costs are.
SWEEP_QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9)
# Dear arcs need clusters of two to four node shares. Where crossing is cheap, one to one and a half gave
# up to 16% more on section 7.1 graphs of 100 operators; above four, clusters become the bottleneck. That is
# where a fragment is a small part of a share: the caps grow with the heaviest fragments, or nothing merges.
SWEEP_CAPS = (1.0, 1.5, 2.0, 3.0, 4.0)
FRAGMENT_CAPS = (2.0, 3.0, 4.0, 6.0)
"""In heavy fragments, where one of them is more than half a node share."""
HEAVY = 0.9
"""The quantile of the fragments' weights that counts as heavy."""


@dataclass(frozen=True)
class Clustering:
    """One way to cluster."""

    approach: Approach
    threshold: float
    """Arcs with a smaller clustering ratio are left alone."""
    weight_cap: float
    """The heaviest cluster allowed, in node shares."""


def sweep(model: LoadModel) -> Iterator[Clustering]:
    """Both approaches over several thresholds and caps."""
    ratios = clustering_ratios(model)
    if not len(ratios):
        return
    finite = np.where(np.isfinite(ratios), ratios, np.finfo(np.float64).max)
    thresholds = sorted(set(np.quantile(finite, SWEEP_QUANTILES, method="lower").tolist()))
    approaches: tuple[Approach, ...] = ("ratio", "weight")
    for approach, threshold, cap in itertools.product(approaches, thresholds, sweep_caps(model)):
        yield Clustering(approach, threshold, cap)


def sweep_caps(model: LoadModel) -> tuple[float, ...]:
    """In node shares: those that pay off for small fragments, and multiples of a heavy one."""
    totals = np.where(model.totals > 0.0, model.totals, np.inf)
    squares = np.asarray(model.coefficients.power(2) @ (1.0 / totals**2)).ravel()
    heavy = float(np.sqrt(np.quantile(squares, HEAVY))) * model.site_count
    more = (times * heavy for times in FRAGMENT_CAPS) if heavy > 0.5 else ()
    return tuple(sorted({*SWEEP_CAPS, *(cap for cap in more if cap < model.site_count)}))


def clustering_ratios(model: LoadModel) -> Floats:
    """Of every pair of fragments with an arc between them, in no particular order."""
    graph = _ClusterGraph(model)
    return np.array([graph.ratio(a, b) for a in graph.alive() for b in graph.neighbours(a) if a < b])


def cluster(model: LoadModel, how: Clustering) -> Ints:
    """The cluster of every fragment, numbered from zero in the order of their first fragments."""
    graph = _ClusterGraph(model)
    cap = how.weight_cap / model.site_count
    queue: list[tuple[float, int, int, int, int]] = []

    def push(a: int, b: int) -> None:
        ratio, weight = graph.ratio(a, b), graph.merged_norm(a, b)
        if ratio >= how.threshold and weight <= cap and graph.may_merge(a, b):
            key = -ratio if how.approach == "ratio" else weight
            a, b = min(a, b), max(a, b)
            heapq.heappush(queue, (key, a, b, graph.version[a], graph.version[b]))

    for a in graph.alive():
        for b in graph.neighbours(a):
            if a < b:
                push(a, b)
    while queue:
        _, a, b, version_a, version_b = heapq.heappop(queue)
        # Clusters only grow, so a pair that changed was pushed anew or is too heavy by now.
        if graph.version[a] == version_a and graph.version[b] == version_b:
            merged = graph.merge(a, b)
            for other in graph.neighbours(merged):
                push(merged, other)
    return graph.numbering()


def clustered(model: LoadModel, cluster_of: Ints) -> LoadModel:
    """The same load with every cluster as one fragment."""
    count = int(cluster_of.max()) + 1
    gather = _gather(cluster_of, count)
    pinned = np.full(count, -1, np.int64)
    np.maximum.at(pinned, cluster_of, model.pinned_site)
    return replace(
        model,
        coefficients=csr_array(gather @ model.coefficients),
        fixed_cores=gather @ model.fixed_cores,
        memory_mb=gather @ model.memory_mb,
        pinned_site=pinned,
        arcs=_outer_arcs(model.arcs, cluster_of),
        resources=tuple(
            replace(each, coefficients=csr_array(gather @ each.coefficients), fixed=gather @ each.fixed)
            for each in model.resources
        ),
    )


def plane_distance(model: LoadModel, site_of_fragment: Ints) -> float:
    """The least plane distance of all sites, communication included (section 6.1 with lower bounds).

    As the feasible set's, but sparse: a sweep over many streams must not need sites x streams of memory.
    """
    gather = _gather(site_of_fragment, model.site_count)
    loads = gather @ model.coefficients
    if model.arcs.comm_us > 0.0:
        source, target = model.arcs.ends(site_of_fragment)
        crossing = np.flatnonzero(source != target)
        ends = _gather(source[crossing], model.site_count) + _gather(target[crossing], model.site_count)
        loads = loads + ends @ model.arcs.rates[crossing] * (model.arcs.comm_us / 1e6)
    parts = csr_array(loads)
    parts.data /= np.where(model.totals > 0.0, model.totals, np.inf)[parts.indices]
    norms = np.sqrt(np.asarray((parts * parts).sum(axis=1)).ravel())
    room = model.site_capacity_left(site_of_fragment) / model.capacity_left_cores
    above_lower = room - parts @ (model.lower * model.totals / model.capacity_left_cores)
    used = norms > 0.0
    return float((above_lower[used] / norms[used]).min(initial=np.inf))


def _gather(group: Ints, groups: int) -> csr_array:
    return csr_array((np.ones(len(group)), (group, np.arange(len(group)))), shape=(groups, len(group)))


def _outer_arcs(arcs: Arcs, cluster_of: Ints) -> Arcs:
    source = np.where(arcs.source_fragment >= 0, cluster_of[arcs.source_fragment], -1)
    target = np.where(arcs.target_fragment >= 0, cluster_of[arcs.target_fragment], -1)
    outer = np.flatnonzero((source != target) | (source < 0))
    return Arcs(
        source_fragment=source[outer],
        source_site=arcs.source_site[outer],
        target_fragment=target[outer],
        target_site=arcs.target_site[outer],
        rates=arcs.rates[outer],
        comm_us=arcs.comm_us,
    )


class _Vector(NamedTuple):
    """Sparse parts with their square, which saves most of the work of merging; `plus` uses up both."""

    parts: dict[int, float]
    square: float

    def plus(self, other: _Vector) -> _Vector:
        large, small = (self, other) if len(self.parts) >= len(other.parts) else (other, self)
        square = self.square + other.square + 2.0 * self.dot(other)
        parts = large.parts
        for k, value in small.parts.items():
            parts[k] = parts.get(k, 0.0) + value
        return _Vector(parts, square)

    def dot(self, other: _Vector) -> float:
        large, small = (self, other) if len(self.parts) >= len(other.parts) else (other, self)
        return sum(value * large.parts.get(k, 0.0) for k, value in small.parts.items())


class _ClusterGraph:
    """Clusters, what they need, and what crossing between each two would cost."""

    def __init__(self, model: LoadModel) -> None:
        self._model = model
        totals = np.where(model.totals > 0.0, model.totals, np.inf)
        self._load = _rows(model.coefficients, totals)
        self._crossing: list[dict[int, _Vector]] = [{} for _ in self._load]
        self._fixed_cores = model.fixed_cores.tolist()
        self._memory_mb = model.memory_mb.tolist()
        self._pin = model.pinned_site.tolist()
        self._into = list(range(len(self._load)))
        self.version = [0] * len(self._load)
        costs = _rows(model.arcs.rates, totals / (model.arcs.comm_us / 1e6)) if model.arcs.comm_us else []
        ends = zip(model.arcs.source_fragment.tolist(), model.arcs.target_fragment.tolist(), strict=True)
        for (a, b), cost in zip(ends, costs, strict=False):
            if a >= 0 and b >= 0:
                self._connect(a, b, cost)

    def _connect(self, a: int, b: int, cost: _Vector) -> None:
        known = self._crossing[a].get(b)
        total = cost if known is None else known.plus(cost)
        self._crossing[a][b] = self._crossing[b][a] = total

    def alive(self) -> list[int]:
        return [a for a, into in enumerate(self._into) if a == into]

    def neighbours(self, a: int) -> list[int]:
        return list(self._crossing[a])

    def ratio(self, a: int, b: int) -> float:
        crossing = self._crossing[a][b].square
        cheaper = min(self._load[a].square, self._load[b].square)
        return float(np.sqrt(crossing / cheaper)) if cheaper > 0.0 else float("inf")

    def merged_norm(self, a: int, b: int) -> float:
        one, other = self._load[a], self._load[b]
        return float(np.sqrt(max(one.square + other.square + 2.0 * one.dot(other), 0.0)))

    def may_merge(self, a: int, b: int) -> bool:
        """Not when pinned apart, nor when no site could hold both."""
        pins = {self._pin[a], self._pin[b]} - {-1}
        if len(pins) > 1:
            return False
        sites = list(pins) or slice(None)
        fixed_cores = self._fixed_cores[a] + self._fixed_cores[b]
        memory_mb = self._memory_mb[a] + self._memory_mb[b]
        fits = self._model.capacity_cores[sites] >= fixed_cores
        return bool((fits & (self._model.memory_limit_mb[sites] >= memory_mb)).any())

    def merge(self, a: int, b: int) -> int:
        """Merge the one with fewer neighbours into the other, which is returned."""
        if len(self._crossing[a]) < len(self._crossing[b]):
            a, b = b, a
        self._load[a] = self._load[a].plus(self._load[b])
        self._fixed_cores[a] += self._fixed_cores[b]
        self._memory_mb[a] += self._memory_mb[b]
        self._pin[a] = max(self._pin[a], self._pin[b])
        self._into[b] = a
        self.version[a] += 1
        self.version[b] += 1
        del self._crossing[a][b]
        del self._crossing[b][a]
        for other, cost in self._crossing[b].items():
            del self._crossing[other][b]
            self._connect(a, other, cost)
        self._crossing[b] = {}
        return a

    def numbering(self) -> Ints:
        roots = []
        for a in range(len(self._into)):
            root = a
            while self._into[root] != root:
                root = self._into[root]
            roots.append(root)
        numbers: dict[int, int] = {}
        return np.array([numbers.setdefault(root, len(numbers)) for root in roots], dtype=np.int64)


def _rows(matrix: csr_array, totals: Floats) -> list[_Vector]:
    values = (matrix.data / totals[matrix.indices]).tolist()
    columns, starts = matrix.indices.tolist(), matrix.indptr.tolist()
    rows = []
    for start, stop in itertools.pairwise(starts):
        parts = dict(zip(columns[start:stop], values[start:stop], strict=True))
        rows.append(_Vector(parts, sum(value * value for value in parts.values())))
    return rows
