"""RELAXATION (section 3.1): put operators where the springs of their data flows come to rest, then on the
nearest site.

Sites get coordinates from the latencies of a few neighbours each, as they would by measuring (Vivaldi). The
defaults are the paper's; `mapping=estimated` and `probes` go beyond it (see `mapping.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mooring.algorithms.relaxation.limited_sites import LimitedSites
from mooring.algorithms.relaxation.mapping import Mapper, MappingParams, MappingReport, Ranking
from mooring.algorithms.relaxation.spring_params import SpringParams
from mooring.algorithms.relaxation.springs import Springs, problem_springs, virtual_positions
from mooring.arrays import Floats, Ints
from mooring.contracts.policy import Context
from mooring.errors import InfeasibleError
from mooring.model.evaluation.explanation import Subject
from mooring.model.load.model import LoadModel
from mooring.model.network.cost_space import CostSpace, LoadScale
from mooring.model.network.embedding import Embedding, embed
from mooring.model.network.vivaldi import VivaldiParams
from mooring.model.placement.placement import Placement
from mooring.model.placement.signatures import fragment_signatures
from mooring.model.problem.latencies import Latencies, both_ways
from mooring.model.problem.problem import Problem


@dataclass(frozen=True)
class Relaxation:
    name: ClassVar[str] = "relaxation"
    about: ClassVar[Subject] = "network"

    mapping: Ranking = "nearest"
    """Ranking of candidate sites: by distance in the cost space (the paper), or by estimated cost of the
    links."""
    probes: int = 0
    """Sites measured per operator before choosing the cheapest, however many `candidates` there are; 0
    believes the coordinates, as the paper does. 25 bring network usage within 2% of the optimum on
    transit-stub networks."""
    candidates: int = 10
    """k: sites contacted at first (more if more are to be measured), doubled while none has the resources
    (section 3.1.3)."""
    shortlist: int = 200
    """Sites ranked by estimated cost."""
    passes: int = 1
    """Times all operators are mapped; from the second on, their neighbours' real sites are known."""
    damping: float = 0.1
    """delta of section 3.1.3."""
    threshold_ms: float = 1.0
    """F_t of section 3.1.3."""
    load_ms: float = 0.0
    """Milliseconds that a fully loaded site lies further away (the load dimension, section 3.1.1); 0 leaves
    it out."""
    dimensions: int = 3
    """Latency dimensions of the cost space (section 3.1.1)."""
    height: bool = True
    """Coordinates with a height for the access link: 15% over the optimum instead of 26%."""
    neighbours: int = 32
    """Sites that each site measures to find its coordinate."""
    reuse: bool = False
    """Bring operators that compute the same to the same site, where one of them lies within the candidates of
    the other (section 3.2): their inputs are then sent there once, and an engine that can share runs one of
    them."""
    least_saving: float = 0.0
    """With a running placement: the share of an operator's network usage a move must save (section 3.2)."""

    def unsupported(self, problem: Problem) -> str | None:
        if problem.network.latency_ms is None and len(problem.sites) > 1:
            return "it states no latency_ms between its sites"
        return None

    def place(self, problem: Problem, context: Context) -> Placement:
        return self.place_with_report(problem, context)[0]

    def place_with_report(self, problem: Problem, context: Context) -> tuple[Placement, MappingReport]:
        """The placement, and what mapping it took."""
        latency_ms = _symmetric(problem)
        springs = problem_springs(problem, context.load.pinned_site)
        embedding = self._embed(latency_ms, context.rng)
        virtual_ms = virtual_positions(
            springs, embedding, context.rng, SpringParams(self.damping, self.threshold_ms)
        )
        order = _in_order(problem)
        try:
            mapper = self._map(problem, context.load, springs, virtual_ms, embedding, order)
        except InfeasibleError:
            # Nearest-first may fill sites badly; the largest first is the usual order of bin packing.
            needs = np.asarray(context.load.coefficients @ context.load.present).ravel()
            hardest = order[np.argsort(-(needs + context.load.fixed_cores)[order], kind="stable")]
            mapper = self._map(problem, context.load, springs, virtual_ms, embedding, hardest)
        sites = mapper.site_of
        if context.current is not None:
            sites = self._moved(problem, springs, context, sites)
        return Placement(problem, sites), mapper.report

    def _embed(self, latency_ms: Latencies, rng: np.random.Generator) -> Embedding:
        params = VivaldiParams(dimensions=self.dimensions, height=self.height)
        return embed(latency_ms, rng, params, neighbours=self.neighbours)

    def _map(
        self,
        problem: Problem,
        model: LoadModel,
        springs: Springs,
        virtual_ms: Floats,
        embedding: Embedding,
        order: Ints,
    ) -> Mapper:
        latency_ms = _symmetric(problem)
        equal = fragment_signatures(problem) if self.reuse else None
        sites = LimitedSites(model, problem.network, springs, latency_ms, equal)
        pinned = np.flatnonzero(model.pinned_site >= 0)
        for fragment in pinned.tolist():
            sites.take(fragment, int(model.pinned_site[fragment]))
        params = MappingParams(self.mapping, self.candidates, self.shortlist, self.probes)
        names = problem.fragment_names
        mapper = Mapper(springs, virtual_ms, CostSpace(embedding), sites, params, model.pinned_site, names)
        scale = LoadScale(self.load_ms)
        for later in range(max(self.passes, 1)):
            for fragment in order.tolist():
                if model.pinned_site[fragment] >= 0:
                    continue
                if later:
                    sites.take(fragment, int(mapper.site_of[fragment]), sign=-1.0)
                    mapper.site_of[fragment] = -1
                if self.load_ms > 0.0:
                    load = 1.0 - sites.cores_left / model.capacity_cores
                    mapper.space = CostSpace(embedding, load, scale)
                chosen = mapper.place(fragment)
                if sites.site_of[fragment] < 0:  # found running, so nobody was asked to accept it
                    sites.take(fragment, chosen)
        return mapper

    def _moved(self, problem: Problem, springs: Springs, context: Context, wanted: Ints) -> Ints:
        """From the running placement, the single moves towards the wanted one that save most, one after the
        other."""
        assert context.current is not None
        sites, latency_ms = context.current.site_of_fragment.copy(), _symmetric(problem)
        still = {
            f for f, own in enumerate(problem.fragments) if not all(problem.operators[j].movable for j in own)
        }
        limits = LimitedSites(context.load, problem.network, springs, latency_ms)
        for fragment, site in enumerate(sites.tolist()):
            limits.take(fragment, site)
        budget = len(sites) if context.max_moves is None else context.max_moves
        saving, without_room = np.full(len(sites), -np.inf), dict[int, list[int]]()

        def renew(fragment: int) -> None:
            here = _usage_at(springs, sites, latency_ms, fragment, int(sites[fragment]))
            there = _usage_at(springs, sites, latency_ms, fragment, int(wanted[fragment]))
            saves = fragment not in still and here - there > self.least_saving * here
            saving[fragment] = here - there if saves else -np.inf

        for fragment in np.flatnonzero(sites != wanted).tolist():
            renew(fragment)
        moved = 0
        while moved < budget:
            fragment = len(saving) - 1 - int(saving[::-1].argmax())
            if not saving[fragment] > -np.inf:
                break
            left, site = int(sites[fragment]), int(wanted[fragment])
            if limits.lacking(fragment, np.array([site]))[0]:
                saving[fragment] = -np.inf
                without_room.setdefault(site, []).append(fragment)
                continue
            limits.take(fragment, left, sign=-1.0)
            limits.take(fragment, site)
            sites[fragment], moved = site, moved + 1
            # Its neighbours' ways change, and where it was, or over links that it used, there is room again.
            freed = [left] if limits.bandwidth_left is None else list(without_room)
            again = {int(other) for other in springs.other[springs.of_operator(fragment)] if other >= 0}
            again.update(other for free in freed for other in without_room.pop(free, ()))
            for other in sorted({fragment, *again}):
                renew(other)
        # Fragments that only gain by moving together are moved together, if all of them may.
        differing = np.flatnonzero(context.current.site_of_fragment != wanted)
        if len(differing) <= budget and not still.intersection(differing.tolist()):
            reached, possible = (_total_usage(springs, each, latency_ms) for each in (sites, wanted))
            if possible < reached * (1.0 - self.least_saving):
                return wanted
        return sites


def _symmetric(problem: Problem) -> Latencies:
    """Latency of a link as coordinates see it: the mean of both ways."""
    latency_ms = problem.network.latency_ms
    if latency_ms is None:
        return np.zeros((len(problem.sites), len(problem.sites)))
    return both_ways(latency_ms)


def _in_order(problem: Problem) -> Ints:
    """Fragments, producers before readers (by their first operator)."""
    rank = np.empty(len(problem.operators), dtype=np.int64)
    rank[list(problem.graph.order)] = np.arange(len(problem.operators))
    return np.argsort([min(rank[j] for j in members) for members in problem.fragments], kind="stable")


def _total_usage(springs: Springs, sites: Ints, latency_ms: Latencies) -> float:
    """Rate x latency over all links; those between fragments come up at both ends."""
    owner = np.repeat(np.arange(len(springs)), np.diff(springs.start))
    between = springs.other >= 0
    ends = np.where(between, sites[np.maximum(springs.other, 0)], ~springs.other)
    each = latency_ms[sites[owner], ends] * springs.rate
    return float(np.sum(np.where(between, each / 2.0, each)))


def _usage_at(springs: Springs, sites: Ints, latency_ms: Latencies, fragment: int, site: int) -> float:
    """Rate x latency of a fragment's links with it at a site and everything else where it is."""
    own = springs.of_operator(fragment)
    other = springs.other[own]
    ends = np.where(other >= 0, sites[np.maximum(other, 0)], ~other)
    return float(latency_ms[site, ends] @ springs.rate[own])
