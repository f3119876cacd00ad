"""A problem made ready for searches by latency: its arcs, fragments and chains as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mooring.algorithms.ants import descent_kernels
from mooring.algorithms.ants.chains import Chain, chains_of, in_batches
from mooring.algorithms.ants.descent_kernels import Allowed, Chains, FragmentFlows
from mooring.algorithms.ants.inside import fragment_flows, until_made
from mooring.arrays import Bools, Floats, Ints
from mooring.contracts.deadline import NO_DEADLINE, Deadline
from mooring.model.load.model import LoadModel
from mooring.model.load.queued.kept_latency_kernels import add_up, kept_latencies
from mooring.model.load.queued.many_placements import ManyPlacements
from mooring.model.problem.problem import Problem
from mooring.progress import Report, silent

KEEP = 12
"""Sites per fragment that are judged by the whole model, the most promising by estimate."""
STRETCH_CHAINS = 16
"""Chains that are placed between two looks at the deadline."""
STRETCH = 64
"""Fragments that descent goes through between two looks at the deadline."""


@dataclass(frozen=True)
class LatencySearch:
    problem: Problem
    model: LoadModel
    many: ManyPlacements
    trigger_s: float = 0.0
    """Between the micro-batches that ants reckon with; 0: messages queue, as for everybody else here."""
    delay_limit_s: float = 0.0
    """That ants keep to at every site (equation 11); 0: none."""

    @classmethod
    def of(
        cls, problem: Problem, model: LoadModel, trigger_s: float = 0.0, delay_limit_s: float = 0.0
    ) -> LatencySearch:
        return cls(problem, model, ManyPlacements.of(problem), trigger_s, delay_limit_s)

    @cached_property
    def chains(self) -> list[Chain]:
        chains = chains_of(self.problem, self.model, self.many)
        if self.trigger_s <= 0.0:
            return chains
        begun_s = self._begun_s()
        return [in_batches(chain, self.ends, begun_s, self.trigger_s) for chain in chains]

    @cached_property
    def ends(self) -> Floats:
        """Per fragment, by how much the mean query is delayed with the results that go from it to queries."""
        found, weights = np.zeros(len(self.problem.fragments)), self.many.weights
        for a, arc in enumerate(self.many.arcs):
            source = int(self.many.template.fragment_of[arc.producer])
            if arc.reader is None and source >= 0:
                found[source] += weights[a]
        return found

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
            self._flows(),
            _starts([len(own) for own in ends]),
            np.array([other for own in ends for other in own], dtype=np.int64),
            np.array([weight for own in ends for weight in own.values()], dtype=np.float64),
            path,
        )

    def _begun_s(self) -> Floats:
        """Per fragment, how old tuples are when its batch begins: half a trigger where they enter, and one
        more at every channel, if no batch takes longer than that."""
        fragment_of, weights = self.many.template.fragment_of, self.many.weights
        into: list[dict[int, float]] = [{} for _ in self.problem.fragments]
        for a, arc in enumerate(self.many.arcs):
            source = int(fragment_of[arc.producer])
            target = -1 if arc.reader is None else int(fragment_of[arc.reader])
            if target >= 0 and source != target:
                into[target][source] = into[target].get(source, 0.0) + float(weights[a])
        found = np.full(len(into), np.nan)

        def begun_s(fragment: int) -> float:
            if np.isnan(found[fragment]):
                found[fragment] = self.trigger_s / 2.0
                if sum(own := into[fragment].values()) > 0.0:
                    ages_s = [
                        self.trigger_s / 2.0 if source < 0 else begun_s(source) + self.trigger_s
                        for source in into[fragment]
                    ]
                    found[fragment] = np.average(ages_s, weights=list(own))
            return float(found[fragment])

        return np.array([begun_s(fragment) for fragment in range(len(into))])

    def _flows(self) -> Floats:
        flows = fragment_flows(self.problem, self.many)
        if self.trigger_s > 0.0:
            flows[:, 5] = self.ends
        return flows

    def mean_latency_s(self, sites: Ints) -> float:
        """Of all queries; a million and more where something is overloaded."""
        count = len(self.problem.sites)
        query_s = np.zeros(len(self.problem.queries))
        objective = descent_kernels.objective
        return float(objective(self.many.template, sites, query_s, np.zeros(count), np.zeros(count)))

    def shortest_ways(
        self,
        sites: Ints | None = None,
        chains: Sequence[Chain] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> Ints | None:
        """Chain after chain on its quickest way, given those before and where else fragments are (-1: nowhere
        yet); None where one finds no room.

        When half of the time is spent, task after task goes where it is quickest; when all is, the rest goes
        where the least is used.
        """
        found: Ints = (self.model.pinned_site if sites is None else sites).astype(np.int64)
        chains = self.chains if chains is None else chains
        arrays, template, fragments = _chain_arrays(chains), self.many.template, self.fragments
        totals = descent_kernels.site_totals(template, fragments, found)
        for first in range(0, len(chains), STRETCH_CHAINS):
            spent = deadline.share_spent
            if spent >= 1.0:
                break
            some = np.arange(first, min(first + STRETCH_CHAINS, len(chains)))
            one_by_one = spent > 0.5
            if (
                descent_kernels.shortest_ways(template, arrays, fragments, totals, found, some, one_by_one)
                >= 0
            ):
                return None
        else:
            return found
        return found if descent_kernels.emptiest_sites(template, fragments, totals, found) < 0 else None

    def descend(
        self,
        sites: Ints,
        *,
        passes: int,
        seen: Bools | None = None,
        home: Ints | None = None,
        most_moves: int | None = None,
        keep: int = KEEP,
        deadline: Deadline = NO_DEADLINE,
        progress: Report = silent,
    ) -> tuple[Ints, float]:
        """Each fragment in turn where the mean latency is least, until nothing changes or the time is up; and
        that latency. seen: per chain, the sites that its fragments may go to; without it, all."""
        if deadline.share_spent >= 1.0:
            return sites.astype(np.int64), self.mean_latency_s(sites)
        template, fragments, order = self.many.template, self.fragments, self._order()
        now = kept_latencies(template, self.many.weights, sites)
        home = sites.astype(np.int64) if home is None else home
        most_moves = len(sites) if most_moves is None else most_moves
        allowed = self._allowed(seen)
        scratch = np.zeros(keep, np.int64), np.zeros(keep)
        for made in range(passes):
            changed = False
            totals = descent_kernels.site_totals(template, fragments, now.sites)
            add_up(now)
            for first in range(0, len(order), STRETCH):
                part = (made + first / len(order)) / passes
                progress(max(part, deadline.share_spent), f"pass {made + 1}")
                if deadline.expired:
                    return now.sites, self.mean_latency_s(now.sites)
                some = order[first : first + STRETCH]
                changed |= descent_kernels.descend(
                    template, fragments, now, totals, some, allowed, *scratch, home, most_moves
                )
            if not changed:
                break
        return now.sites, self.mean_latency_s(now.sites)

    def _allowed(self, seen: Bools | None) -> Allowed:
        chain_of = np.full(len(self.problem.fragments), -1, np.int64)
        for number, chain in enumerate(self.chains):
            chain_of[list(chain.fragments)] = number
        return Allowed(chain_of, np.zeros((0, 0), np.bool_) if seen is None else seen)

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
