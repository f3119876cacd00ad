"""A problem made ready for searches by latency: its arcs, fragments and chains as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mooring.arrays import Bools, Ints
from mooring.load.model import LoadModel
from mooring.load.queued.many_placements import ManyPlacements
from mooring.placement.ants import descent_kernels
from mooring.placement.ants.chains import Chain, chains_of
from mooring.placement.ants.descent_kernels import Chains, FragmentFlows
from mooring.placement.ants.inside import fragment_flows, until_made
from mooring.problem.problem import Problem

KEEP = 12
"""Sites per fragment that are judged by the whole model, the most promising by estimate."""


@dataclass(frozen=True)
class LatencySearch:
    problem: Problem
    model: LoadModel
    many: ManyPlacements

    @classmethod
    def of(cls, problem: Problem, model: LoadModel) -> LatencySearch:
        return cls(problem, model, ManyPlacements.of(problem))

    @cached_property
    def chains(self) -> list[Chain]:
        return chains_of(self.problem, self.model, self.many)

    @cached_property
    def fragments(self) -> FragmentFlows:
        template, weights = self.many.template, self.many.weights
        ends: list[dict[int, float]] = [{} for _ in self.problem.fragments]
        path = np.zeros(len(ends))
        for a, arc in enumerate(self.many.arcs):
            source = int(template.fragment_of[arc.producer])
            if arc.reader is None:
                target = ~int(template.query_site[arc.query or 0])
            else:
                target = int(template.fragment_of[arc.reader])
            if target >= 0:
                path[target] += weights[a] * until_made(arc)
            if source == target:
                continue
            if source < 0 and (site := int(template.stream_site[arc.producer])) >= 0:
                ends[target][~site] = ends[target].get(~site, 0.0) + float(weights[a])
            elif source >= 0:
                ends[source][target] = ends[source].get(target, 0.0) + float(weights[a])
                if target >= 0:
                    ends[target][source] = ends[target].get(source, 0.0) + float(weights[a])
        return FragmentFlows(
            self.model.pinned_site.astype(np.int64),
            np.ascontiguousarray(self.model.memory_mb, dtype=np.float64),
            np.ascontiguousarray(self.model.memory_limit_mb, dtype=np.float64),
            fragment_flows(self.problem, self.many),
            _starts([len(own) for own in ends]),
            np.array([other for own in ends for other in own], dtype=np.int64),
            np.array([weight for own in ends for weight in own.values()], dtype=np.float64),
            path,
        )

    @cached_property
    def allowed(self) -> Bools:
        """Per fragment and site: pins."""
        sites, pinned = np.arange(len(self.problem.sites)), self.model.pinned_site
        return np.asarray((pinned[:, None] < 0) | (pinned[:, None] == sites[None, :]))

    def mean_latency_s(self, sites: Ints) -> float:
        """Of all queries; a million and more where something is overloaded."""
        count = len(self.problem.sites)
        query_s = np.zeros(len(self.problem.queries))
        objective = descent_kernels.objective
        return float(objective(self.many.template, sites, query_s, np.zeros(count), np.zeros(count)))

    def shortest_ways(self, sites: Ints | None = None, chains: Sequence[Chain] | None = None) -> Ints | None:
        """Chain after chain on its quickest way, given those before and where else fragments are (-1: nowhere
        yet); None where one finds no room."""
        found: Ints = (self.model.pinned_site if sites is None else sites).astype(np.int64)
        arrays = _chain_arrays(self.chains if chains is None else chains)
        stuck = descent_kernels.shortest_ways(self.many.template, arrays, self.fragments, found)
        return found if stuck < 0 else None

    def descend(
        self,
        sites: Ints,
        *,
        passes: int,
        allowed: Bools | None = None,
        home: Ints | None = None,
        most_moves: int | None = None,
        keep: int = KEEP,
    ) -> tuple[Ints, float]:
        """Each fragment in turn where the mean latency is least, until nothing changes; and that latency."""
        found: Ints = sites.copy()
        latency_s, _, _ = descent_kernels.descend(
            self.many.template,
            self.fragments,
            found,
            self._order(),
            self.allowed if allowed is None else allowed & self.allowed,
            keep,
            passes,
            found.copy() if home is None else home,
            len(found) if most_moves is None else most_moves,
        )
        return found, float(latency_s)

    def _order(self) -> Ints:
        """Chain by chain, each along its way."""
        return np.array([f for chain in self.chains for f in chain.fragments], dtype=np.int64)


def _chain_arrays(chains: Sequence[Chain]) -> Chains:
    return Chains(
        _starts([len(chain.fragments) for chain in chains]),
        np.concatenate([np.zeros((0, 9)), *(chain.tasks for chain in chains)]),
        np.array([f for chain in chains for f in chain.fragments], dtype=np.int64),
        np.array([chain.start.site for chain in chains], dtype=np.int64),
        np.array([chain.start.fragment for chain in chains], dtype=np.int64),
        np.array([chain.end.site for chain in chains], dtype=np.int64),
        np.array([chain.end.fragment for chain in chains], dtype=np.int64),
        np.array([chain.end_weight for chain in chains], dtype=np.float64),
    )


def _starts(counts: list[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
