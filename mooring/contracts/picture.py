"""A picture of a run: what is known of it now, in the terms of the load model.

Rates, capacities and statistics are those that were observed. A fragment that does not run loads nothing and
is not moved; a lost site has no room for anything.

Placements are compared by one figure, the tuples under way: those on links (rate times latency) and those in
queues (Little's law makes each a tuple-second per second). A site that cannot keep up collects more and more
of them, and counts with what it has on average over the time that a decision is made for. The figure is the
mean of that at the measured rates and at rates higher by the room that there should be, so that it tells a
site close to its edge from one that is not. Where fragments run in micro-batches and a decider reckons with
them, those in batches are counted instead of those in queues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from mooring.arrays import Bools, Floats, Ints
from mooring.contracts.decider import Prediction, Proposal, ProposedMove, Stall
from mooring.model.deployment.moves import Move
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.batch_time import growth_by_batch_time
from mooring.model.load.feasible.headroom import Growth, growth_of_all
from mooring.model.load.feasible.memory import StateMemory, growth_by_memory
from mooring.model.load.micro_batches import BatchTimes, micro_batches
from mooring.model.load.model import LoadModel
from mooring.model.placement.links import node_bytes, problem_links
from mooring.model.placement.network_metrics import query_latencies_ms
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem

NOTHING_CORES = 1e-9
ROOM = 1.25
"""There should be room for all rates to grow by this factor."""
FULL = 0.95
"""The share of its capacity from which a site is too full."""
HORIZON_S = 600.0
"""The horizon of a decision in seconds: rates are not expected to last longer."""
MOST_LATENCIES = 2000
"""Fragments up to which the latencies of queries are predicted too; it takes a walk through the graph."""


@dataclass(frozen=True, eq=False)
class _Flows:
    """At some rates, wherever fragments are."""

    arc_rates: Floats
    """Tuples per second on every arc of the load model."""
    cores: Floats
    """Per fragment, crossings left out."""
    inputs: Floats
    """Tuples per second that enter each fragment."""


@dataclass(frozen=True, eq=False)
class Picture:
    problem: Problem
    """At the observed rates, with the observed capacities."""
    model: LoadModel
    """Of that problem, with what does not run taken out."""
    sites: Ints
    """Per fragment: where it is, or belongs."""
    low_rates: Floats
    """Per stream: the lower end of its likely mean rate, from its observed variation."""
    running: Bools
    """Per fragment."""
    lost: Bools
    """Per site."""
    held: Bools | None = None
    """Per fragment: not to be moved now; None: all may move."""
    rate_errors: Floats | None = None
    """Per stream: how far the rate may be off, as the median of few looks; None: it is exact."""
    trigger_s: float = 0.0
    """Between the micro-batches that are reckoned with; 0: queues are."""
    statistics: str = "as the problem states them"
    """The source of costs and selectivities, in words."""
    capacity_bounds: tuple[Floats, Floats] | None = None
    """Per site, the least and the most that it may count with, by its measured load; None: it is exact."""
    batches: BatchTimes | None = None
    """How long batches take, held against the model; None: not measured."""
    memory: StateMemory | None = None
    """What sites hold, and how much of it is state; None: not measured."""
    refreshed: frozenset[str] = frozenset()
    """Fragments that refresh materialized views."""
    behind: Mapping[str, Stall] = field(default_factory=dict)
    """Site -> what falls behind most there."""
    quota_cores: Floats | None = None
    """Per site: what it may use, whatever its neighbours leave it and however much it keeps up with now."""
    late_ms: Mapping[str, float] = field(default_factory=dict)
    """Query -> how far its latency was beyond its limit, the median of the last looks; no others."""

    @property
    def rates(self) -> Floats:
        """Of the streams, tuples per second."""
        return self.model.present[: self.model.stream_count]

    @cached_property
    def movable(self) -> Bools:
        """Fragments that run and may be moved."""
        problem = self.problem
        free = np.array([all(problem.operators[j].movable for j in members) for members in problem.fragments])
        still = np.zeros_like(free) if self.held is None else self.held
        return np.asarray(free & self.running & (self.model.pinned_site < 0) & ~still)

    @cached_property
    def loads_cores(self) -> Floats:
        """Per fragment, what grows with the rates."""
        return np.asarray(self.model.coefficients @ self.model.present).ravel()

    @cached_property
    def input_rates(self) -> Floats:
        """Per fragment, tuples per second that enter it."""
        return np.asarray(self._inputs @ self.model.present).ravel()

    @cached_property
    def placement(self) -> Placement:
        return Placement(self.problem, self.sites)

    @property
    def at_low_rates(self) -> Picture:
        """The same, were the rates as low as they may be."""
        present = self.model.variable_values(self.low_rates)
        problem = self.problem.in_circumstances(
            rates=self.low_rates,
            capacity_cores=self.problem.capacity_cores,
            latency_ms=self.problem.network.latency_ms,
        )
        return replace(self, problem=problem, model=replace(self.model, present=present))

    def excess_cores(self, sites: Ints) -> Floats:
        """Per site, what it lacks not to be too full, were the rates as low as they may be."""
        loads = self.model.site_loads(sites, self.low_rates)
        return np.maximum(loads - FULL * self.model.capacity_cores, 0.0)

    def too_full(self, sites: Ints) -> Ints:
        """Sites that are, the fullest first."""
        excess = self.excess_cores(sites) / self.model.capacity_cores
        full = np.flatnonzero(excess > 0.0)
        return np.asarray(full[np.argsort(-excess[full], kind="stable")])

    def low_headroom(self, sites: Ints) -> float:
        """Of a placement, were the rates as low as they may be."""
        return self.at_low_rates.growth(sites).factor

    def growth(self, sites: Ints) -> Growth:
        """Of all rates, until a site has no CPU or memory left or a batch takes longer than its trigger."""
        growth = growth_of_all(self.model, sites, self.rates)
        if self.memory is not None:
            rooms = growth_by_memory(self.model, sites, self.memory)
            fullest = int(np.argmin(rooms))
            if rooms[fullest] < growth.factor:
                growth = Growth(float(rooms[fullest]), fullest)
        if self.batches is None:
            return growth
        times = growth_by_batch_time(self.model, sites, self.rates, self.batches)
        slowest = int(np.argmin(times))
        if times[slowest] >= growth.factor:
            return growth
        return Growth(float(times[slowest]), int(sites[slowest]))

    def predict(self, sites: Ints, *, in_full: bool = False) -> Prediction:
        """The effect of a placement at the observed rates; `in_full` with latencies, which take time."""
        growth = self.growth(sites)
        loads = self.model.site_loads(sites, self.rates)
        return Prediction(
            growth.factor,
            None if growth.site is None else self.problem.sites[growth.site].name,
            {site.name: float(load) for site, load in zip(self.problem.sites, loads, strict=True)},
            self.tuples_under_way(sites) if in_full else None,
            self._latency_ms(sites) if in_full else {},
            self.bytes_in_flight(sites) if in_full else None,
        )

    def propose(self, to: Mapping[str, str], reason: str) -> Proposal:
        """Moves of fragments to sites, in this order; with none, everything stays where it is."""
        sites, moves = self.sites.copy(), list[ProposedMove]()
        rows = {name: f for f, name in enumerate(self.problem.fragment_names)}
        for fragment, site in to.items():
            f = rows[fragment]
            move = Move(fragment, self.problem.sites[sites[f]].name, site)
            sites[f] = self.problem.site_index[site]
            moves.append(ProposedMove(move, self.predict(sites, in_full=True)))
        return Proposal(self.predict(self.sites, in_full=True), tuple(moves), reason)

    def tuples_under_way(self, sites: Ints, of: Bools | None = None) -> float:
        """In queues and on links: the mean of that at the measured rates, and at those higher by `ROOM`.
        `of`: only those that come from or go to these fragments.
        """
        ends, arcs = self.model.arcs.ends(sites), self.model.arcs
        latency_ms = self.problem.network.latency_ms
        far_s = None if latency_ms is None else latency_ms[ends] / 1e3
        if of is not None and far_s is not None:
            own = (arcs.source_fragment >= 0) & of[arcs.source_fragment]
            own |= (arcs.target_fragment >= 0) & of[arcs.target_fragment]
            far_s = np.where(own, far_s, 0.0)
        total = 0.0
        for flows in self._flows:
            # Not `@`: on a busy machine, threads of a dot product wait for each other longer than it takes.
            total += 0.0 if far_s is None else float((flows.arc_rates * far_s).sum())
            queued = self._in_queues(sites, ends, flows)
            if of is not None:
                arriving, ours = (
                    np.bincount(sites, inputs, self.model.site_count)
                    for inputs in (flows.inputs, np.where(of, flows.inputs, 0.0))
                )
                queued = queued * (ours / np.maximum(arriving, 1e-300))
            total += float(queued.sum())
        return total / len(self._flows)

    def bytes_in_flight(self, sites: Ints, of: Bools | None = None) -> float | None:
        """On links; None where latencies, or the sizes of tuples, are not stated."""
        latency_ms = self.problem.network.latency_ms
        if latency_ms is None or self._byte_links is None:
            return None
        source, target, rate = self._byte_links
        ends = [np.where(end >= 0, sites[np.maximum(end, 0)], ~end) for end in (source, target)]
        on_link = rate * latency_ms[ends[0], ends[1]] / 1e3
        if of is not None:
            own = sum((end >= 0) & of[np.maximum(end, 0)] for end in (source, target)) > 0
            on_link = np.where(own, on_link, 0.0)
        return float(on_link.sum())

    @cached_property
    def _byte_links(self) -> tuple[Ints, Ints, Floats] | None:
        """Source and target (a fragment, or ~site) and bytes per second of all flows of what runs."""
        if any(size is None for size in node_bytes(self.problem)):
            return None
        links = problem_links(self.problem, np.full(self.model.fragment_count, -1, dtype=np.int64))
        source = np.array([link.source for link in links], dtype=np.int64)
        target = np.array([link.target for link in links], dtype=np.int64)
        flows = np.array([link.rate for link in links], dtype=np.float64)
        for end in (source, target):
            flows = np.where((end >= 0) & ~self.running[np.maximum(end, 0)], 0.0, flows)
        return source, target, flows

    def bytes_into(self, fragment: int) -> float:
        """Per second; zero where sizes are not stated."""
        if self._byte_links is None:
            return 0.0
        _, target, rate = self._byte_links
        return float(rate[target == fragment].sum())

    def queries_with(self, fragments: Bools) -> Bools:
        """All fragments of the queries that these are part of."""
        source, target = self.model.arcs.source_fragment, self.model.arcs.target_fragment
        inner = (source >= 0) & (target >= 0)
        source, target = source[inner], target[inner]
        found = fragments.copy()
        for begin, end in ((source, target), (target, source)):
            # First what is downstream of them, then all that this depends on.
            count = 0
            while count < found.sum():
                count = int(found.sum())
                found[end[found[begin]]] = True
        return found

    @cached_property
    def _flows(self) -> tuple[_Flows, ...]:
        """The parts that do not depend on the placement, at both rates: placements are compared by dozens."""
        values = [self.model.variable_values(factor * self.rates) for factor in (1.0, ROOM)]
        return tuple(
            _Flows(
                np.asarray(self.model.arcs.rates @ at),
                np.asarray(self.model.coefficients @ at),
                np.asarray(self._inputs @ at),
            )
            for at in values
        )

    def _in_queues(self, sites: Ints, ends: tuple[Ints, Ints], flows: _Flows) -> Floats:
        """Per site."""
        model = self.model
        room = np.maximum(model.site_capacity_left(sites), NOTHING_CORES)
        used = (np.bincount(sites, flows.cores, model.site_count) + self._crossing_cores(ends, flows)) / room
        arriving = np.bincount(sites, flows.inputs, model.site_count)
        behind = arriving * np.clip(1.0 - 1.0 / np.maximum(used, 1e-12), 0.0, None) * HORIZON_S / 2.0
        # Close to its edge a queue is bounded by what can gather within the time looked at.
        below = np.minimum(used, 1.0 - 1e-12)
        if self.trigger_s > 0.0:
            busy = 1.0 - room * (1.0 - below) / np.maximum(model.capacity_cores, NOTHING_CORES)
            waiting = arriving * self.trigger_s * busy
        else:
            waiting = np.minimum(below / (1.0 - below), arriving * HORIZON_S / 2.0)
        return np.where(used < 1.0, waiting, np.maximum(behind, arriving))

    def _crossing_cores(self, ends: tuple[Ints, Ints], flows: _Flows) -> Floats:
        """Per site, what it does for tuples that come from or go to another one (ROD, section 6.3)."""
        arcs, count = self.model.arcs, self.model.site_count
        if arcs.comm_us == 0.0 or not len(arcs.source_site):
            return np.zeros(count)
        source, target = ends
        crossing = source != target
        rates = flows.arc_rates[crossing] * (arcs.comm_us / 1e6)
        ends_there = np.concatenate([source[crossing], target[crossing]])
        return np.asarray(np.bincount(ends_there, np.tile(rates, 2), count), dtype=np.float64)

    @cached_property
    def _inputs(self) -> csr_array:
        """Fragments x variables: tuples per second that enter a fragment, per unit of the variable."""
        return fragment_inputs(self.problem, self.model)

    def _latency_ms(self, sites: Ints) -> dict[str, float]:
        if self.problem.network.latency_ms is None or len(sites) > MOST_LATENCIES:
            return {}
        found: Sequence[float]
        if self.trigger_s > 0.0:
            batches = micro_batches(self.problem, self.model, sites, self.trigger_s)
            found = (1e3 * batches.query_s).tolist()
        else:
            channel_ms = self.problem.network.channel_ms
            found = query_latencies_ms(Placement(self.problem, sites), channel_ms=channel_ms)
        named = zip(self.problem.queries, found, strict=True)
        # A query behind a site that cannot keep up has no latency that it would settle at.
        return {query.name: latency for query, latency in named if np.isfinite(latency)}


def picture_of(problem: Problem, placement: Placement, rates: npt.ArrayLike | None = None) -> Picture:
    """The picture of a problem as stated, with everything running: for planning without a run."""
    known = np.asarray(problem.rates if rates is None else rates, dtype=np.float64)
    model = build_load_model(problem)
    return Picture(
        problem.with_rates(known),
        replace(model, present=model.variable_values(known)),
        placement.site_of_fragment,
        known,
        np.ones(model.fragment_count, dtype=bool),
        np.zeros(model.site_count, dtype=bool),
    )


def fragment_inputs(problem: Problem, model: LoadModel) -> csr_array:
    """Fragments x variables: what enters each fragment, from others and from streams."""
    arcs, shape = model.arcs, (model.fragment_count, len(model.variables))
    inner = np.flatnonzero(arcs.target_fragment >= 0)
    gather = csr_array(
        (np.ones(len(inner)), (arcs.target_fragment[inner], inner)),
        shape=(model.fragment_count, len(arcs.target_fragment)),
    )
    everywhere = {k for k, stream in enumerate(problem.streams) if stream.site is None}
    entries = [
        (f, node, problem.operators[j].share)
        for f, members in enumerate(problem.fragments)
        for j in members
        for port in problem.graph.ports[j]
        for node in port
        if node in everywhere
    ]
    rows, columns, shares = zip(*entries, strict=True) if entries else ((), (), ())
    direct = csr_array((np.array(shares, dtype=float), (rows, columns)), shape=shape)
    return csr_array(gather @ arcs.rates + direct) if len(inner) else direct


def without_fragments(model: LoadModel, running: Bools) -> LoadModel:
    """The same model with fragments that do not run loading nothing."""
    if running.all():
        return model
    keep = diags_array(running.astype(float))
    arcs = model.arcs
    flows = np.ones(len(arcs.source_fragment))
    for ends in (arcs.source_fragment, arcs.target_fragment):
        flows *= np.where(ends >= 0, running[ends], True)
    return replace(
        model,
        coefficients=csr_array(keep @ model.coefficients),
        fixed_cores=np.where(running, model.fixed_cores, 0.0),
        arcs=replace(arcs, rates=csr_array(diags_array(flows) @ arcs.rates)) if len(flows) else arcs,
    )
