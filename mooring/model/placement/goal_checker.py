"""What a placement breaks of a problem's hard goals, in words; independent of how searches keep them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from mooring.arrays import Floats, Ints
from mooring.model.load.model import LoadModel
from mooring.model.placement.admission import upstream_fragments
from mooring.model.placement.links import node_bytes
from mooring.model.placement.network_metrics import deliveries, query_latencies_ms
from mooring.model.placement.placement import Placement
from mooring.model.placement.site_limits import SLACK
from mooring.model.problem.problem import Problem
from mooring.quantity import decimal, milliseconds, quantity


def broken_goals(problem: Problem, model: LoadModel, placement: Placement) -> list[str]:
    return [
        *_places(problem, placement),
        *_apart(problem, placement),
        *_together(problem, placement),
        *_critical(problem, model, placement),
        *_used(problem, model, placement),
        *_resources(problem, model, placement),
        *_late(problem, placement),
        *_links(problem, placement),
    ]


def has_goals(problem: Problem) -> bool:
    """Whether anything hard is stated beside capacities, memory and pins."""
    return (
        bool(msgspec.structs.replace(problem.goals, prefer=None))
        or any(site.max_utilisation < 1.0 or site.reserve > 0.0 for site in problem.sites)
        or any(query.critical for query in problem.queries)
        or any(operator.needs for operator in problem.operators)
    )


def fragments_of(problem: Problem, name: str) -> list[int]:
    """The fragments of an operator, one per instance; none where the problem has it no longer."""
    nodes = problem.nodes_by_name.get(name, [])
    first = len(problem.streams)
    return sorted({int(problem.fragment_of_operator[node - first]) for node in nodes if node >= first})


def sites_named(problem: Problem, places: tuple[str, ...]) -> Ints:
    """Those with one of the names or labels."""
    wanted = set(places)
    return np.array(
        [i for i, site in enumerate(problem.sites) if site.name in wanted or wanted & set(site.labels)],
        dtype=np.int64,
    )


def most_used(problem: Problem) -> Floats:
    """Per site, the largest share of its cores that goals allow to be in use."""
    return np.array(
        [min(s.max_utilisation, 1.0 - s.reserve, 1.0 - problem.goals.reserve) for s in problem.sites]
    )


def outsiders(problem: Problem, model: LoadModel, query: str) -> tuple[set[int], set[int]]:
    """The fragments that a query needs, and those that could endanger it: they load something, and it needs
    them not."""
    reads = next(each.reads for each in problem.queries if each.name == query)
    needed = upstream_fragments(problem, reads)
    loads = np.diff(model.coefficients.indptr) > 0
    loading = np.flatnonzero(loads | (model.fixed_cores > 0.0))
    return needed, set(loading.tolist()) - needed


def _places(problem: Problem, placement: Placement) -> Iterator[str]:
    goals = problem.goals
    for rule, wanted in ((goals.allowed, True), (goals.excluded, False)):
        for name, places in rule.items():
            sites = sites_named(problem, places)
            for fragment in fragments_of(problem, name):
                at = int(placement.site_of_fragment[fragment])
                if (at in sites) != wanted:
                    how = "is allowed" if wanted else "is excluded from"
                    yield (
                        f"operator {name!r} {how} {'only ' if wanted else ''}"
                        f"{'at ' if wanted else ''}{', '.join(places)}, and is at {problem.sites[at].name!r}"
                    )


def _apart(problem: Problem, placement: Placement) -> Iterator[str]:
    for group in problem.goals.apart:
        at: dict[int, str] = {}
        for name in group:
            for site in {int(placement.site_of_fragment[f]) for f in fragments_of(problem, name)}:
                if site in at:
                    both = f"{at[site]!r} and {name!r}"
                    yield f"{both} are to be apart, and are both at {problem.sites[site].name!r}"
                at[site] = name


def _together(problem: Problem, placement: Placement) -> Iterator[str]:
    for group in problem.goals.together:
        fragments = [f for name in group for f in fragments_of(problem, name)]
        sites = sorted({int(placement.site_of_fragment[f]) for f in fragments})
        if len(sites) > 1:
            names = ", ".join(repr(problem.sites[i].name) for i in sites)
            yield f"{', '.join(map(repr, group))} are to be together, and are at {names}"


def _critical(problem: Problem, model: LoadModel, placement: Placement) -> Iterator[str]:
    for query in problem.queries:
        if not query.critical:
            continue
        needed, others = outsiders(problem, model, query.name)
        sites = placement.site_of_fragment
        own = {int(sites[f]) for f in needed}
        for fragment in sorted(others):
            if int(sites[fragment]) in own:
                other, site = problem.fragment_names[fragment], problem.sites[int(sites[fragment])].name
                beside = f"{other!r}, which it does not need, runs beside it at {site!r}"
                yield f"query {query.name!r} is critical, and {beside}"


def _used(problem: Problem, model: LoadModel, placement: Placement) -> Iterator[str]:
    most = most_used(problem)
    if (most >= 1.0).all():
        return
    rates = np.vstack([problem.rates, problem.min_rates])
    used = (model.site_loads(placement.site_of_fragment, rates) / model.capacity_cores).max(axis=0)
    for i in np.flatnonzero((used > most * (1.0 + SLACK)) & (most < 1.0)).tolist():
        name = problem.sites[i].name
        yield f"site {name!r} may use {most[i]:.0%} of its cores, and uses {used[i]:.1%} at the present rates"


def _resources(problem: Problem, model: LoadModel, placement: Placement) -> Iterator[str]:
    values = np.maximum(model.variable_values(problem.rates), model.variable_values(problem.min_rates))
    for resource in model.resources:
        used = resource.used(placement.site_of_fragment, values)
        for i in np.flatnonzero(used > resource.limit * (1.0 + SLACK) + 1e-12).tolist():
            yield (
                f"site {problem.sites[i].name!r} has {decimal(resource.limit[i])} {resource.name}, and its "
                f"fragments take {decimal(used[i])}"
            )


def _late(problem: Problem, placement: Placement) -> Iterator[str]:
    if "latency" not in problem.goals.limits:
        return
    found = query_latencies_ms(placement, channel_ms=problem.network.channel_ms)
    for query, latency_ms in zip(problem.queries, found, strict=True):
        if query.max_latency_ms is not None and latency_ms > query.max_latency_ms * (1.0 + SLACK):
            yield (
                f"query {query.name!r} may take {milliseconds(query.max_latency_ms)}, and takes "
                f"{milliseconds(latency_ms)}"
            )


def _links(problem: Problem, placement: Placement) -> Iterator[str]:
    most = problem.network.bandwidth
    if "bandwidth" not in problem.goals.limits or most is None:
        return
    size = node_bytes(problem)
    flow = np.zeros((len(problem.sites), len(problem.sites)))
    for each in deliveries(placement):
        flow[each.source_site, each.target_site] += each.rate * (size[each.node] or 0.0)
    for i, j in zip(*np.nonzero(flow > most * (1.0 + SLACK)), strict=True):
        yield (
            f"the link from {problem.sites[int(i)].name!r} to {problem.sites[int(j)].name!r} carries "
            f"{quantity(float(most[i, j]), 'B/s')}, and is to carry {quantity(float(flow[i, j]), 'B/s')}"
        )
