"""The rules of a problem as arrays: one place that says what a placement has to keep, for every search.

They come in tiers, each a thousand times as heavy as the next, so that a sum of what is broken compares
placements in the right order:

1. what makes a placement invalid: fixed load and memory beyond a site, and broken goals that are hard;
2. the present: the load at the present and at the minimum rates, and flows beyond the bandwidth of a link;
3. the margin: the same loads with a reserve left free at every site.

A feasible set says nothing about the present rates, which lie somewhere in the ideal set. So a search keeps
the rules first, and maximises among the placements that break them least.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from mooring.arrays import Bools, Floats, Ints
from mooring.model.goals import rule_kernels
from mooring.model.goals.rule_kernels import ANYWHERE, ENOUGH, HeldRules, RuleArrays
from mooring.model.load.model import LoadModel
from mooring.model.placement.goal_checker import fragments_of, most_used, outsiders, sites_named
from mooring.model.placement.links import node_flows
from mooring.model.placement.site_limits import SLACK
from mooring.model.problem.problem import Problem
from mooring.model.problem.query import Query

INVALID, PRESENT, MARGIN = 1e6, 1e3, 1.0
TIERS = (INVALID, PRESENT, MARGIN)
RESERVE = 0.03
"""Of every site, which plans leave free at the present rates where they can; with little left in all, half of
what is left."""


@dataclass(frozen=True, eq=False)
class Plane:
    """A load that every site has a capacity for."""

    name: str
    demand: Floats
    """Of every fragment."""
    capacity: Floats
    """Of every site."""
    tier: float
    crossing: Floats | None = None
    """Of every arc that crosses, at each end."""


class RuleBook:
    """The rules of one problem, or of a load model alone."""

    def __init__(
        self,
        model: LoadModel,
        problem: Problem | None = None,
        reserve: float = RESERVE,
        *,
        flows: bool = False,
        soft_limits: bool = False,
    ) -> None:
        """`flows`: keep the bytes in flight; `soft_limits`: of queries, where goals do not state them."""
        self.model, self.problem = model, problem
        self.planes = load_planes(model, reserve)
        if problem is not None:
            self.planes += goal_planes(model, problem)
        self.rules = _arrays(model, problem, self.planes, flows, soft_limits)

    @cached_property
    def free(self) -> Ints:
        """Fragments that may be at more than one site."""
        choice = self.rules.allowed.sum(axis=1)[self.rules.kind] > 1
        return np.flatnonzero((self.model.pinned_site < 0) & choice)

    def at_home(self, sites: Ints) -> Ints:
        """The placement with everything that may be at one site only there, and nothing where it may not."""
        rules, model = self.rules, self.model
        found = np.where(model.pinned_site >= 0, model.pinned_site, sites)
        first = rules.allowed.argmax(axis=1)[rules.kind]
        choice = np.asarray(rules.allowed.any(axis=1))
        wrong = ~rules.allowed[rules.kind, found] & choice[rules.kind]
        return np.where(wrong & (model.pinned_site < 0), first, found)

    @cached_property
    def typical(self) -> float:
        """What a mean fragment takes of a mean site."""
        shares = [
            float(plane.demand.mean() / plane.capacity[np.isfinite(plane.capacity)].mean())
            for plane in self.planes
        ]
        return max(shares, default=1.0) or 1.0

    def down_to(self, tier: float) -> RuleArrays:
        """The rules of a tier and of heavier ones."""
        rules = self.rules
        counts = np.array([plane.tier >= tier for plane in self.planes], dtype=np.float64)
        return rules._replace(
            weight=rules.weight * counts,
            link_weight=rules.link_weight if rules.link_weight >= tier else 0.0,
            limit_weight=np.where(rules.limit_weight >= tier, rules.limit_weight, 0.0),
        )

    def least_broken(self, rules: RuleArrays) -> float:
        """No placement breaks less: loads beyond all sites together, and fragments larger than any."""
        total = 0.0
        for p, plane in enumerate(self.planes):
            beyond_all = float(plane.demand.sum() - rules.capacity[:, p].sum())
            alone = np.maximum(plane.demand - rules.capacity[:, p].max(), 0.0).sum()
            total += float(rules.weight[p]) * max(beyond_all, float(alone), 0.0)
        return total

    def held(self, sites: Ints, rules: RuleArrays | None = None) -> HeldRules:
        """What searches keep up to date, for this placement."""
        rules = self.rules if rules is None else rules
        count = rules.capacity.shape[0]
        held = HeldRules(
            np.array(sites, dtype=np.int64),
            np.zeros((count, len(rules.weight))),
            np.zeros((len(rules.isolates), count, 2), dtype=np.int64),
            np.zeros(rules.bandwidth.shape),
            np.zeros(5),
            np.zeros(count),
            np.zeros(count),
            np.zeros(len(rules.owner)),
            np.zeros(len(rules.limit)),
        )
        rule_kernels.hold(rules, held, held.sites.copy())
        return held

    def broken(self, sites: Ints, rules: RuleArrays | None = None) -> float:
        """How far a placement is from keeping the rules; zero where it keeps them all."""
        found = float(rule_kernels.violation(self.held(sites, rules)))
        return found if found > ENOUGH else 0.0


def load_planes(model: LoadModel, reserve: float) -> tuple[Plane, ...]:
    """Fixed load, memory, and the loads at the present and at the minimum rates."""
    capacity = model.capacity_cores.astype(np.float64)
    planes: list[Plane] = []
    if model.fixed_cores.any():
        planes.append(Plane("fixed load", model.fixed_cores, capacity, INVALID))
    if np.isfinite(model.memory_limit_mb).any():
        planes.append(Plane("memory", model.memory_mb, model.memory_limit_mb, INVALID))
    rates = {"the present rates": model.present, "the minimum rates": model.lower}
    for name, values in rates.items():
        if not values.any():
            continue
        load = np.asarray(model.coefficients @ values + model.fixed_cores)
        crossing = None
        if _crossings_load(model):
            crossing = np.asarray(model.arcs.rates @ values) * (model.arcs.comm_us / 1e6)
        planes.append(Plane(name, load, capacity, PRESENT, crossing))
        left = 1.0 - float(load.sum() / capacity.sum())
        margin = min(reserve, left / 2.0)
        if margin > 0.0:
            planes.append(Plane(f"{name}, with a reserve", load, capacity * (1.0 - margin), MARGIN, crossing))
    return tuple(planes)


def _crossings_load(model: LoadModel) -> bool:
    return model.arcs.comm_us > 0.0 and len(model.arcs.source_site) > 0


def goal_planes(model: LoadModel, problem: Problem) -> tuple[Plane, ...]:
    """The largest utilisation of sites, and named resources."""
    planes, most = [], most_used(problem)
    values = np.maximum(model.present, model.lower)
    if (most < 1.0).any():
        load = np.asarray(model.coefficients @ values + model.fixed_cores)
        crossing = None
        if _crossings_load(model):
            crossing = np.asarray(model.arcs.rates @ values) * (model.arcs.comm_us / 1e6)
        limit = np.where(most < 1.0, most * model.capacity_cores, np.inf)
        planes.append(Plane("utilisation", load, limit, INVALID, crossing))
    for resource in model.resources:
        taken = np.asarray(resource.coefficients @ values + resource.fixed)
        planes.append(Plane(resource.name, taken, resource.limit, INVALID))
    return tuple(planes)


def _arrays(
    model: LoadModel,
    problem: Problem | None,
    planes: tuple[Plane, ...],
    flows: bool,
    soft_limits: bool,
) -> RuleArrays:
    fragments, sites = model.fragment_count, model.site_count
    arcs = len(model.arcs.source_site) if _crossings_load(model) else 0
    demand = np.zeros((fragments + arcs, len(planes)))
    capacity, weight = np.full((sites, len(planes)), np.inf), np.zeros(len(planes))
    for p, plane in enumerate(planes):
        demand[:fragments, p] = plane.demand
        if plane.crossing is not None:
            demand[fragments:, p] = plane.crossing
        capacity[:, p] = plane.capacity * (1.0 + SLACK)
        limited = plane.capacity[np.isfinite(plane.capacity)]
        weight[p] = plane.tier / (float(limited.mean()) or 1.0)
    limits = _limits(problem, soft_limits)
    wanted = flows or len(limits["limit"]) > 0
    return RuleArrays(
        demand=demand,
        capacity=capacity,
        weight=weight,
        **_charged_arcs(model, arcs),
        **_kinds(model, problem),
        **_groups(model, problem),
        group_weight=INVALID,
        **_flows(model, problem, wanted),
        **limits,
    )


def _kinds(model: LoadModel, problem: Problem | None) -> dict[str, Any]:
    """Where fragments may be: those with the same choice share a row."""
    fragments, sites = model.fragment_count, model.site_count
    kind, rows = np.zeros(fragments, dtype=np.int64), [np.ones(sites, dtype=np.bool_)]
    if problem is not None:
        own: dict[int, Bools] = {}
        for rule, wanted in ((problem.goals.allowed, True), (problem.goals.excluded, False)):
            for name, places in rule.items():
                named = np.isin(np.arange(sites), sites_named(problem, places))
                for fragment in fragments_of(problem, name):
                    row = own.get(fragment, rows[0])
                    own[fragment] = row & (named if wanted else ~named)
        known: dict[bytes, int] = {}
        for fragment, row in own.items():
            kind[fragment] = known.setdefault(row.tobytes(), len(rows))
            if kind[fragment] == len(rows):
                rows.append(row)
    return {"kind": kind, "allowed": np.array(rows)}


def _groups(model: LoadModel, problem: Problem | None) -> dict[str, Any]:
    """What is apart, as sets of fragments that share no site."""
    pairs: list[tuple[list[int], list[int]]] = []
    if problem is not None:
        for group in problem.goals.apart:
            members = [fragments_of(problem, name) for name in group]
            pairs += list(combinations(members, 2))
        for query in problem.queries:
            if query.critical:
                needed, others = outsiders(problem, model, query.name)
                pairs.append((sorted(needed), sorted(others)))
    of: list[list[tuple[int, int]]] = [[] for _ in range(model.fragment_count)]
    for number, sides in enumerate(pairs):
        for side, own in enumerate(sides):
            for fragment in own:
                of[fragment].append((number, side))
    flat = [each for own in of for each in own]
    return {
        "group_start": starts([len(own) for own in of]),
        "group_of": np.array([number for number, _ in flat], dtype=np.int64),
        "group_side": np.array([side for _, side in flat], dtype=np.int64),
        "isolates": np.ones(len(pairs), dtype=np.bool_),
    }


def _charged_arcs(model: LoadModel, arcs: int) -> dict[str, Any]:
    if not arcs:
        empty = np.zeros(0, dtype=np.int64)
        none = np.zeros((0, 2), dtype=np.int64)
        return {
            "arc_start": np.zeros(model.fragment_count + 1, dtype=np.int64),
            "arc_of": empty,
            "arc_ends": none,
        }
    own = model.arcs
    source = np.where(own.source_fragment >= 0, own.source_fragment, ~own.source_site)
    target = np.where(own.target_fragment >= 0, own.target_fragment, ~own.target_site)
    return {
        **_by_owner(model.fragment_count, [source, target]),
        "arc_ends": np.column_stack([source, target]),
    }


def _by_owner(fragments: int, ends: list[Ints]) -> dict[str, Any]:
    number = np.tile(np.arange(len(ends[0])), len(ends))
    owner = np.concatenate(ends)
    kept = owner >= 0
    order = np.argsort(owner[kept], kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(owner[kept], minlength=fragments))])
    return {"arc_start": start.astype(np.int64), "arc_of": number[kept][order].astype(np.int64)}


def _flows(model: LoadModel, problem: Problem | None, wanted: bool) -> dict[str, Any]:
    """The flows between nodes, where they or the links count."""
    if problem is None:
        return no_flows(model.fragment_count)
    limited = problem.network.bandwidth is not None and node_flows(problem)[1] == "B"
    if not wanted and not limited:
        return no_flows(model.fragment_count)
    found = flows_of(problem, model)
    if not limited:
        found["bandwidth"] = np.zeros((0, 0))
    if "bandwidth" in problem.goals.limits:
        found["link_weight"] = INVALID
    return found


def no_flows(fragments: int) -> dict[str, Any]:
    empty, none = np.zeros(0, dtype=np.int64), np.zeros(0)
    return {
        "owner": empty,
        "flow": none,
        "read_start": np.zeros(1, dtype=np.int64),
        "reader": empty,
        "reader_of": empty,
        "reader_share": none,
        "beside_start": np.zeros(fragments + 1, dtype=np.int64),
        "beside": empty,
        "latency": np.zeros((0, 0)),
        "bandwidth": np.zeros((0, 0)),
        "link_weight": 0.0,
    }


def flows_of(problem: Problem, model: LoadModel) -> dict[str, Any]:
    """Who reads the output of each node, and how much of it there is."""
    graph, fragment_of = problem.graph, problem.fragment_of_operator.tolist()
    flow, _ = node_flows(problem)
    owner = [
        ANYWHERE if s.site is None else ~problem.site_index[s.site] for s in problem.streams
    ] + fragment_of
    readers: list[list[tuple[int, int, float]]] = [[] for _ in owner]
    logical: dict[str, int] = {}
    for j, ports in enumerate(graph.ports):
        operator = problem.operators[j]
        number = logical.setdefault(operator.logical_name, len(logical))
        for node in (node for port in ports for node in port):
            if owner[node] != fragment_of[j]:
                readers[node].append((number, fragment_of[j], operator.share))
    for q, query in enumerate(problem.queries):
        for node in problem.nodes_by_name[query.reads]:
            readers[node].append((len(problem.operators) + q, ~problem.site_index[query.site], 1.0))
    beside: list[set[int]] = [set() for _ in problem.fragments]
    for node, own in enumerate(readers):
        own.sort(key=lambda each: each[0])
        if owner[node] == ANYWHERE or not own:
            continue
        for end in (owner[node], *(end for _, end, _ in own)):
            if end >= 0:
                beside[end].add(node)
    flat = [each for own in readers for each in own]
    count = len(problem.sites)
    latency = np.zeros((count, count)) if problem.network.latency_ms is None else dense(problem)
    bandwidth = problem.network.bandwidth
    return {
        "owner": np.array(owner, dtype=np.int64),
        "flow": np.array(flow, dtype=np.float64),
        "read_start": starts([len(own) for own in readers]),
        "reader": np.array([end for _, end, _ in flat], dtype=np.int64),
        "reader_of": np.array([number for number, _, _ in flat], dtype=np.int64),
        "reader_share": np.array([share for _, _, share in flat], dtype=np.float64),
        "beside_start": starts([len(own) for own in beside]),
        "beside": np.array([node for own in beside for node in sorted(own)], dtype=np.int64),
        "latency": latency,
        "bandwidth": np.zeros((0, 0))
        if bandwidth is None
        else np.ascontiguousarray(bandwidth, dtype=np.float64),
        "link_weight": PRESENT,
    }


def dense(problem: Problem) -> Floats:
    """The latencies between all sites."""
    latency_ms, count = problem.network.latency_ms, len(problem.sites)
    assert latency_ms is not None
    every = np.arange(count)
    return np.ascontiguousarray(
        np.asarray(latency_ms[np.repeat(every, count), np.tile(every, count)], dtype=np.float64).reshape(
            count, count
        )
    )


def starts(counts: list[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _limits(problem: Problem | None, soft: bool) -> dict[str, Any]:
    """Limits of queries, where goals state that they are hard, or a search keeps them where it can."""
    empty, none = np.zeros(0, dtype=np.int64), np.zeros(0)
    hard = problem is not None and "latency" in problem.goals.limits
    if problem is None or not (hard or soft) or problem.network.latency_ms is None:
        queries: tuple[Query, ...] = ()
    else:
        queries = problem.queries
    if problem is None or all(query.max_latency_ms is None for query in queries):
        return {
            "hop_from": empty,
            "hop_to": empty,
            "hop_ms": none,
            "end_node": empty,
            "end_query": empty,
            "query_site": empty,
            "limit": none,
            "limit_weight": none,
        }
    graph, fragment_of = problem.graph, problem.fragment_of_operator.tolist()
    streams, channel_ms = graph.stream_count, problem.network.channel_ms
    hops = [(node, streams + j) for j in graph.order for port in graph.ports[j] for node in port]
    between = [
        node >= streams and fragment_of[node - streams] != fragment_of[here - streams] for node, here in hops
    ]
    ends = [(node, q) for q, query in enumerate(queries) for node in problem.nodes_by_name[query.reads]]
    limits = [np.inf if query.max_latency_ms is None else query.max_latency_ms for query in queries]
    return {
        "hop_from": np.array([node for node, _ in hops], dtype=np.int64),
        "hop_to": np.array([here for _, here in hops], dtype=np.int64),
        "hop_ms": np.where(between, channel_ms, 0.0),
        "end_node": np.array([node for node, _ in ends], dtype=np.int64),
        "end_query": np.array([q for _, q in ends], dtype=np.int64),
        "query_site": np.array([problem.site_index[query.site] for query in queries], dtype=np.int64),
        "limit": np.array(limits) * (1.0 + SLACK),
        "limit_weight": np.full(len(queries), INVALID if hard else MARGIN),
    }
