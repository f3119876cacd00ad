"""The placement with the fewest bytes in flight, for problems small enough.

Where every output has one reader, the free fragments form trees and the cost is a sum over links: dynamic
programming over the trees is exact in sites^2 per link, however many queries there are. Where outputs are
shared (delivered once per site) or capacity binds, branch and bound takes over: usage only grows as fragments
are added.
"""

from __future__ import annotations

import numpy as np

from mooring.algorithms.relaxation.limited_sites import LimitedSites
from mooring.algorithms.relaxation.springs import problem_springs
from mooring.arrays import Floats, Ints
from mooring.contracts.deadline import NO_DEADLINE, Deadline
from mooring.errors import InfeasibleError, UnsupportedError
from mooring.model.load.model import LoadModel
from mooring.model.placement.links import Link, problem_links
from mooring.model.placement.trees import TreeCosts, Trees
from mooring.model.problem.latencies import as_matrix
from mooring.model.problem.problem import Problem

_NODES_PER_BUDGET = 100
"""A step of this search costs about as much as a hundred of the compiled one for resilience."""
_MOST_FREE = 800
"""Fragments without a site: the search descends once for each."""


def network_optimum(
    problem: Problem, model: LoadModel, node_budget: int = 20_000_000, deadline: Deadline = NO_DEADLINE
) -> Ints:
    """Sites per fragment; `UnsupportedError` when the budget does not suffice, `InfeasibleError` when none
    fits."""
    count = len(problem.sites)
    stated = problem.network.latency_ms
    latency_ms = np.zeros((count, count)) if stated is None else as_matrix(stated)
    links = problem_links(problem, model.pinned_site)
    trees = _unlimited(links, latency_ms, model.pinned_site) if _is_a_sum(links) else None
    if trees is not None and _fits(problem, model, latency_ms, trees.sites):
        return trees.sites
    free = int((model.pinned_site < 0).sum())
    if free > _MOST_FREE:
        raise UnsupportedError(
            f"{free:,} fragments are too many to search where sites are full or readers share outputs",
            remedy="use relaxation with probes",
        )
    budget = node_budget // _NODES_PER_BUDGET
    return _Search(problem, model, links, latency_ms, trees, budget, deadline).run()


def _unlimited(links: list[Link], latency_ms: Floats, pinned_site: Ints) -> Trees | None:
    """The optimum if sites were not limited; None where links between free fragments form a cycle."""
    costs = TreeCosts(latency_ms, pinned_site)
    for link in links:
        if link.source >= 0 and link.target >= 0:
            costs.between(link.source, link.target, link.rate)
        elif link.source >= 0:
            costs.own[link.source] += link.rate * latency_ms[:, ~link.target]
        elif link.target >= 0:
            costs.own[link.target] += link.rate * latency_ms[~link.source]
    return costs.place()


def _is_a_sum(links: list[Link]) -> bool:
    """No two flows of one output could go to one site."""
    readers: dict[int, list[int]] = {}
    for link in links:
        readers.setdefault(link.node, []).append(link.target)
    return all(len(own) == 1 or (max(own) < 0 and len(set(own)) == len(own)) for own in readers.values())


def _fits(problem: Problem, model: LoadModel, latency_ms: Floats, sites: Ints) -> bool:
    limits = LimitedSites(model, problem.network, problem_springs(problem, model.pinned_site), latency_ms)
    return all(limits.accept(fragment, int(site)) for fragment, site in enumerate(sites))


class _Search:
    """Depth first over fragments, cheapest site first."""

    def __init__(
        self,
        problem: Problem,
        model: LoadModel,
        links: list[Link],
        latency_ms: Floats,
        trees: Trees | None,
        budget: int,
        deadline: Deadline,
    ) -> None:
        self._latency_ms, self._budget, self._steps = latency_ms, budget, 0
        self._deadline = deadline
        self._limits = LimitedSites(
            model, problem.network, problem_springs(problem, model.pinned_site), latency_ms
        )
        self._sites = model.pinned_site.copy()
        for fragment in np.flatnonzero(self._sites >= 0).tolist():
            self._limits.take(fragment, int(self._sites[fragment]))
        free = np.flatnonzero(self._sites < 0)
        # Tree after tree: those not begun yet cost at least what they would if sites were not limited.
        by_tree = free if trees is None else free[np.argsort(trees.root[free], kind="stable")]
        self._order: list[int] = by_tree.tolist()
        begins = [0.0 if trees is None or trees.root[f] != f else float(trees.cost[f]) for f in self._order]
        self._to_come = np.append(np.cumsum(begins[::-1])[::-1], 0.0)
        rank = {fragment: k for k, fragment in enumerate(self._order)}
        # A link is charged when the later of its ends is placed.
        self._charged: list[list[Link]] = [[] for _ in self._order]
        for link in links:
            last = max(rank.get(link.source, -1), rank.get(link.target, -1))
            if last >= 0:
                self._charged[last].append(link)
        self._delivered: dict[tuple[int, int], float] = {}
        self._best_cost, self._best = np.inf, self._sites

    def run(self) -> Ints:
        self._descend(0, 0.0)
        if not np.isfinite(self._best_cost):
            raise InfeasibleError(
                "no placement leaves every site within its capacity, memory and bandwidth",
                remedy="add capacity, memory or bandwidth",
            )
        return self._best

    def _descend(self, depth: int, cost: float) -> None:
        if depth == len(self._order):
            self._best_cost, self._best = cost, self._sites.copy()
            return
        self._steps += 1
        if self._steps > self._budget or self._deadline.expired:
            raise UnsupportedError(
                f"the search tried {self._steps - 1:,} partial placements without completing",
                remedy="raise node_budget, allow more time, or use relaxation with probes",
            )
        fragment = self._order[depth]
        added = self._added_cost(depth, fragment)
        everywhere = np.arange(len(added))
        added[self._limits.lacking(fragment, everywhere)] = np.inf
        for site in np.argsort(added, kind="stable").tolist():
            if not cost + added[site] + self._to_come[depth + 1] < self._best_cost:
                break
            self._sites[fragment] = site
            self._limits.take(fragment, site)
            before = self._deliver(depth)
            self._descend(depth + 1, cost + float(added[site]))
            self._delivered = before
            self._limits.take(fragment, site, sign=-1.0)
            self._sites[fragment] = -1

    def _end(self, end: int) -> int:
        return ~end if end < 0 else int(self._sites[end])

    def _added_cost(self, depth: int, fragment: int) -> Floats:
        """Per site: what the links charged at this depth add, less what is delivered there anyway."""
        added = np.zeros(len(self._latency_ms))
        into: dict[tuple[int, int], float] = {}
        fan_out: dict[int, dict[int, float]] = {}
        for link in self._charged[depth]:
            if link.target == fragment:
                key = link.node, self._end(link.source)
                into[key] = max(into.get(key, 0.0), link.rate)
            else:
                targets = fan_out.setdefault(link.node, {})
                target = self._end(link.target)
                targets[target] = max(targets.get(target, 0.0), link.rate)
        for (node, source), rate in into.items():
            already = np.zeros(len(added))
            for (known, site), flow in self._delivered.items():
                if known == node:
                    already[site] = flow
            added += np.maximum(rate - already, 0.0) * self._latency_ms[source]
        for targets in fan_out.values():
            for target, rate in targets.items():
                added += rate * self._latency_ms[:, target]
        return added

    def _deliver(self, depth: int) -> dict[tuple[int, int], float]:
        """Note what now reaches which site; returns what was known before."""
        before = self._delivered
        self._delivered = dict(before)
        for link in self._charged[depth]:
            key = link.node, self._end(link.target)
            self._delivered[key] = max(self._delivered.get(key, 0.0), link.rate)
        return before
