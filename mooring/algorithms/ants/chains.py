"""A query graph cut into chains, the longest first (section 3.3 of the ants paper).

A chain is a path of fragments without a site between two ends that have one: a stream or a fragment, and a
query or a fragment. Once it is placed, its fragments are ends for others: side chains towards joins, and
from fan-out points on. Where a fragment has several inputs, the chain follows one; the others come along as
sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from mooring.algorithms.ants.inside import Inside
from mooring.algorithms.ants.rules import PATH, SIDE_WEIGHT, WEIGHT
from mooring.arrays import Floats, Ints
from mooring.model.load.model import LoadModel
from mooring.model.load.queued.many_placements import ManyPlacements
from mooring.model.problem.problem import Problem

NOWHERE = -1


@dataclass(frozen=True)
class End:
    """Where a chain begins or ends: a fragment's site, or a site; or nowhere."""

    fragment: int = NOWHERE
    site: int = NOWHERE

    def site_in(self, site_of_fragment: Ints) -> int:
        return self.site if self.fragment < 0 else int(site_of_fragment[self.fragment])


@dataclass(frozen=True)
class Chain:
    fragments: tuple[int, ...]
    start: End
    end: End
    tasks: Floats
    """A row of `rules` per fragment."""
    sides: Floats
    """A row of `rules` per flow that enters beside the chain."""
    start_variability: float
    end_weight: float
    """As a task's, of the way to the end."""
    queries: tuple[int, ...]
    """Whose results depend on it."""
    weights: Floats
    """Per fragment, by how much a second's pause of it delays the mean query."""
    sure_s: float = 0.0
    """What it takes wherever its fragments are, in seconds of the mean query."""


def chains_of(problem: Problem, model: LoadModel, many: ManyPlacements) -> list[Chain]:
    """Every fragment that is not pinned, in exactly one chain; a chain's ends are placed before it."""
    return _Cut(problem, model, many).chains()


def in_batches(chain: Chain, ends: Floats, begun_s: Floats, trigger_s: float) -> Chain:
    """The same chain where every fragment runs in micro-batches.

    Wherever it is, tuples have an age when the batch of its first fragment begins (`begun_s`, per fragment),
    and wait a trigger at every channel. How long a batch takes counts where its results go to queries
    (`ends`, per fragment: their part of the mean query).
    """
    tasks, sides = chain.tasks.copy(), chain.sides.copy()
    tasks[:, WEIGHT], tasks[:, PATH] = ends[list(chain.fragments)], 0.0
    sides[:, SIDE_WEIGHT] = 0.0
    waits_s = np.full(len(tasks), trigger_s)
    waits_s[0] = begun_s[chain.fragments[0]]
    return replace(chain, tasks=tasks, sides=sides, sure_s=float(chain.weights @ waits_s))


class _Cut:
    def __init__(self, problem: Problem, model: LoadModel, many: ManyPlacements) -> None:
        self.problem, self.model, self.many = problem, model, many
        self.weights = many.weights.tolist()
        self.template = many.template
        count = len(problem.fragments)
        self.into: list[list[int]] = [[] for _ in range(count)]
        """Per fragment, its arcs from elsewhere, heaviest first."""
        self.out: list[list[int]] = [[] for _ in range(count)]
        fragment_of = self.template.fragment_of.tolist()
        self.source = [fragment_of[arc.producer] for arc in many.arcs]
        self.target = [NOWHERE if arc.reader is None else fragment_of[arc.reader] for arc in many.arcs]
        for a, (source, target) in enumerate(zip(self.source, self.target, strict=True)):
            if source != target or source < 0:
                if target >= 0:
                    self.into[target].append(a)
                if source >= 0:
                    self.out[source].append(a)
        for arcs in (*self.into, *self.out):
            arcs.sort(key=lambda a: (-self.weights[a], -many.arcs[a].rate, a))
        self.inside = Inside(problem, many)
        first = {j: n for n, j in enumerate(problem.graph.order)}
        self.order = sorted(range(count), key=lambda f: min(first[j] for j in problem.fragments[f]))
        """Of fragments, as flows go: by their first operator."""
        self.rank = {f: n for n, f in enumerate(self.order)}
        self.queries = self._queries_below()

    def chains(self) -> list[Chain]:
        """Component by component, the longest way that is left first. What a chain leaves behind falls apart,
        and only the pieces of that are looked through again.
        """
        placed = self.model.pinned_site >= 0
        found: list[Chain] = []
        for component in self._components():
            waiting: list[tuple[tuple[int, float, int], list[int], list[int]]] = []
            todo = component
            while True:
                for piece in self._pieces([f for f in todo if not placed[f]]):
                    heappush(waiting, (*self._longest(piece), piece))
                if not waiting:
                    break
                _, path, todo = heappop(waiting)
                found.append(self._chain(path, placed))
                placed[path] = True
        return found

    def _pieces(self, left: Sequence[int]) -> list[list[int]]:
        """Those that flows among them connect, in the order given."""
        root = {f: f for f in left}
        for f in left:
            for a in self.into[f]:
                if (source := self.source[a]) in root:
                    root[_root(root, source)] = _root(root, f)
        groups: dict[int, list[int]] = {}
        for f in left:
            groups.setdefault(_root(root, f), []).append(f)
        return list(groups.values())

    def _components(self) -> list[list[int]]:
        """Fragments that flows connect, in topological order (by their first operator in the graph's)."""
        return self._pieces(self.order)

    def _longest(self, left: Sequence[int]) -> tuple[tuple[int, float, int], list[int]]:
        """Most fragments; of equals the heaviest way, then the first. With what ranks it among others."""
        free = set(left)
        best: dict[int, tuple[int, float, int]] = {}
        for f in left:
            best[f] = (1, 0.0, NOWHERE)
            for a in self.into[f]:
                source = self.source[a]
                if source in free and source in best and self.rank[source] < self.rank[f]:
                    length, weight, _ = best[source]
                    candidate = (length + 1, weight + self.weights[a], source)
                    if candidate[:2] > best[f][:2]:
                        best[f] = candidate
        at = max(left, key=lambda f: (*best[f][:2], -self.rank[f]))
        path = [at]
        while best[path[0]][2] >= 0:
            path.insert(0, best[path[0]][2])
        length, weight, _ = best[at]
        return (-length, -weight, self.rank[at]), path

    def _chain(self, path: list[int], placed: np.ndarray) -> Chain:
        entry, start = self._entry(path[0], placed)
        leaving, end = self._exit(path[-1], placed)
        entries = [entry]
        for before, after in pairwise(path):
            entries.append(next(a for a in self.into[after] if self.source[a] == before))
        exits = [*entries[1:], leaving]
        tasks = np.array([self._task(f, a, b) for f, a, b in zip(path, entries, exits, strict=True)])
        sides = [
            self._side(k, a, exits[k])
            for k, f in enumerate(path)
            for a in self.into[f]
            if a != entries[k] and self.many.arcs[a].rate > 0.0
        ]
        return Chain(
            tuple(path),
            start,
            end,
            tasks,
            np.array(sides).reshape(-1, 6),
            self._variability(entry),
            0.0 if leaving is None else self.weights[leaving],
            tuple(sorted(set().union(*(self.queries[f] for f in path)))),
            tasks[:, WEIGHT].copy(),
        )

    def _variability(self, entry: int | None) -> float:
        """Of what comes to the chain; a fragment before it may be anywhere."""
        found = math.nan if entry is None else float(self.template.at_source[entry])
        return 1.0 if math.isnan(found) else found

    def _entry(self, fragment: int, placed: np.ndarray) -> tuple[int | None, End]:
        """The heaviest input that comes from somewhere: a stream with a site, or a placed fragment."""
        for a in self.into[fragment]:
            producer, source = self.many.arcs[a].producer, self.source[a]
            if source < 0 and self.template.stream_site[producer] >= 0:
                return a, End(site=int(self.template.stream_site[producer]))
            if source >= 0 and placed[source]:
                return a, End(fragment=source)
        return next(iter(self.into[fragment]), None), End()

    def _exit(self, fragment: int, placed: np.ndarray) -> tuple[int | None, End]:
        for a in self.out[fragment]:
            query, target = self.many.arcs[a].query, self.target[a]
            if query is not None:
                return a, End(site=int(self.template.query_site[query]))
            if target >= 0 and placed[target]:
                return a, End(fragment=target)
        return next(iter(self.out[fragment]), None), End()

    def _task(self, fragment: int, entry: int | None, leaving: int | None) -> list[float]:
        fixed, memory = float(self.model.fixed_cores[fragment]), float(self.model.memory_mb[fragment])
        if entry is None:
            return [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, fixed, memory]
        work, variance, path, gain = self.inside.of(entry, leaving)
        part = gain - np.floor(gain)
        weight = self.weights[entry]
        rate = self.many.arcs[entry].rate
        return [rate, work, variance, path, gain, part * (1.0 - part), weight, fixed, memory]

    def _side(self, task: int, entry: int, leaving: int | None) -> list[float]:
        work, variance, _, gain = self.inside.of(entry, leaving)
        return [float(task), self.many.arcs[entry].rate, work, variance, gain, self.weights[entry]]

    def _queries_below(self) -> list[set[int]]:
        below: list[set[int]] = [set() for _ in self.into]
        for _ in range(len(below)):
            before = sum(map(len, below))
            for f in reversed(self.order):
                for a in self.out[f]:
                    query = self.many.arcs[a].query
                    below[f] |= {query} if query is not None else below[self.target[a]]
            if sum(map(len, below)) == before:
                break
        return below


def _root(root: dict[int, int], f: int) -> int:
    """Of the set that it is in; ways there become shorter."""
    while root[f] != f:
        root[f] = root[root[f]]
        f = root[f]
    return f
