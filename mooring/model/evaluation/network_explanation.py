"""The explanation of bytes in flight: the lower bound, the dominant link, the query with the longest
detour, and the operator that contributes most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.model.bounds.network_bound import is_affordable, least_network_usage
from mooring.model.evaluation.fragment_usage import Flight, flights, usage_at_sites, usage_by_fragment
from mooring.model.evaluation.headroom_sentence import headroom_sentences
from mooring.model.evaluation.metrics import Metrics
from mooring.model.load.model import LoadModel
from mooring.model.placement.checker import violations
from mooring.model.placement.links import node_flows
from mooring.model.placement.network_metrics import direct_latencies_ms, query_latencies_ms, ways_ms
from mooring.model.placement.placement import Placement
from mooring.model.problem.latencies import Latencies, why_no_matrix
from mooring.model.problem.problem import Problem
from mooring.quantity import milliseconds, quantity

ALIKE = 5e-4
"""Relative difference that is not worth a word."""
MOST_FRAGMENTS, MOST_TRIED = 5, 50
"""Fragments that are looked at for the one that matters most, and sites for one with room."""


@dataclass(frozen=True)
class Dominant:
    """The link with the most in flight."""

    source: int
    target: int
    usage: float
    per_second: float
    node: int
    """Whose output is most of it."""


@dataclass(frozen=True)
class Detour:
    """The query whose way over its operators is longest compared with the direct one."""

    query: int
    way_ms: float
    direct_ms: float


@dataclass(frozen=True)
class Choice:
    """The fragment with the most in flight that is free to be elsewhere, and where that would be."""

    fragment: int
    usage: float
    """In flight because of it where it is: what nobody else would have sent there."""
    next_best: int | None
    """The best other site with room; None where no other has any."""
    next_usage: float
    full: int | None
    """A better site that has no room; None where there is none."""
    full_usage: float


@dataclass(frozen=True)
class NetworkExplanation:
    usage: float
    least: float | None
    """No placement has less. None: left out, as it would take longer than the rest."""
    unit: str
    """B, or tuples where sizes are not known."""
    dominant: Dominant | None
    detour: Detour | None
    choice: Choice | None
    sentences: tuple[str, ...]


def explain_network(
    model: LoadModel, placement: Placement, metrics: Metrics, *, thorough: bool = False
) -> NetworkExplanation:
    """`thorough`: with the bound, however long that takes."""
    problem = placement.problem
    latency_ms = problem.network.latency_ms
    assert latency_ms is not None
    _, unit = node_flows(problem)
    found = flights(placement, latency_ms)
    usage = sum(flight.usage for flight in found)
    has_bound = why_no_matrix(latency_ms) is None and (thorough or is_affordable(problem))
    bound = least_network_usage(problem, model.pinned_site) if has_bound else None
    least = None if bound is None else min(bound, usage)
    dominant, detour = _dominant(found), _detour(placement)
    choice = _choice(model, placement, found, latency_ms) if usage > 0.0 else None
    sentences = [_in_flight(usage, least, unit, why_no_matrix(latency_ms) is None)]
    if dominant is not None:
        sentences.append(_link(problem, dominant, usage, unit))
    if problem.queries:
        sentences.append(_delay(problem, detour))
    sentences += _limits(placement)
    if choice is not None:
        sentences.append(_site(placement, choice, usage, unit))
    sentences += headroom_sentences(metrics)
    return NetworkExplanation(usage, least, unit, dominant, detour, choice, tuple(sentences))


def _dominant(found: list[Flight]) -> Dominant | None:
    links: dict[tuple[int, int], list[Flight]] = {}
    for flight in found:
        links.setdefault((flight.source_site, flight.target_site), []).append(flight)
    if not links:
        return None
    ends = max(links, key=lambda each: sum(flight.usage for flight in links[each]))
    own = links[ends]
    return Dominant(
        *ends,
        sum(flight.usage for flight in own),
        sum(flight.per_second for flight in own),
        max(own, key=lambda flight: flight.usage).node,
    )


def _detour(placement: Placement) -> Detour | None:
    """None where no query waits longer than the direct way takes."""
    ways, direct = query_latencies_ms(placement, channel_ms=0.0), direct_latencies_ms(placement.problem)
    over = [q for q in range(len(ways)) if direct[q] > 0.0 and ways[q] > direct[q] * (1.0 + ALIKE)]
    if not over:
        return None
    worst = max(over, key=lambda q: ways[q] / direct[q])
    return Detour(worst, ways[worst], direct[worst])


def _choice(
    model: LoadModel, placement: Placement, found: list[Flight], latency_ms: Latencies
) -> Choice | None:
    """The fragment to look at, and the best other site for it; one that is better but full is told apart."""
    by_fragment = np.where(model.pinned_site < 0, usage_by_fragment(placement, found), 0.0)
    heaviest = np.argsort(-by_fragment, kind="stable")[:MOST_FRAGMENTS]
    at_sites = {int(f): usage_at_sites(placement, f, latency_ms) for f in heaviest if by_fragment[f] > 0.0}
    usages = {f: float(at[placement.site_of_fragment[f]]) for f, at in at_sites.items()}
    fragment = max(usages, key=lambda each: usages[each], default=None)
    if fragment is None or usages[fragment] <= 0.0 or len(placement.problem.sites) < 2:
        return None
    at, here = at_sites[fragment], int(placement.site_of_fragment[fragment])
    others = [int(site) for site in np.argsort(at, kind="stable") if site != here][:MOST_TRIED]
    roomy = next((site for site in others if _has_room(model, placement, fragment, site)), None)
    full = others[0] if others[0] != roomy and at[others[0]] < at[here] * (1.0 - ALIKE) else None
    return Choice(
        fragment,
        float(at[here]),
        roomy,
        np.inf if roomy is None else float(at[roomy]),
        full,
        np.inf if full is None else float(at[full]),
    )


def _has_room(model: LoadModel, placement: Placement, fragment: int, site: int) -> bool:
    """At the present rates, and by every rule of the problem; limits on bandwidth included."""
    problem = placement.problem
    sites = placement.site_of_fragment.copy()
    sites[fragment] = site
    moved = Placement(problem, sites)
    rows = model.some_site_coefficients(sites, np.array([site]))
    left = float(model.site_capacity_left(sites)[site])
    load = float((rows @ model.variable_values(problem.rates))[0]) + float(model.capacity_cores[site]) - left
    if load > model.capacity_cores[site] * (1.0 + 1e-9) or violations(problem, model, moved):
        return False
    bandwidth, latency_ms = problem.network.bandwidth, problem.network.latency_ms
    if bandwidth is None or latency_ms is None:
        return True
    carried = np.zeros_like(bandwidth)
    for flight in flights(moved, latency_ms):
        carried[flight.source_site, flight.target_site] += flight.per_second
    touched = carried[site] <= bandwidth[site] * (1.0 + 1e-9)
    return bool((touched & (carried[:, site] <= bandwidth[:, site] * (1.0 + 1e-9))).all())


def _in_flight(usage: float, least: float | None, unit: str, has_matrix: bool) -> str:
    if usage <= 0.0:
        return "Nothing is in flight between sites."
    said = f"{quantity(usage, unit)} are in flight between sites"
    if least is None and not has_matrix:
        return f"{said}. The lower bound is left out, because it needs a matrix of latencies."
    if least is None:
        return f"{said}. The lower bound is left out at this size; --all computes it."
    if usage <= least * (1.0 + ALIKE):
        return f"{said}, which equals the lower bound of all placements."
    if least <= 0.0:
        return f"{said}."
    more, than = _compared(usage, least)
    return f"{said}, {more} {than} the lower bound of {quantity(least, unit)}."


def _compared(value: float, base: float) -> tuple[str, str]:
    """How much more one is, in words that fit how much it is, and what comes before the other.

    >>> _compared(1.5, 1.0), _compared(5.0, 2.0)
    (('50.0% more', 'than'), ('2.5 times as much', 'as'))
    """
    if value < 2.0 * base:
        return f"{value / base - 1.0:.1%} more", "than"
    return f"{value / base:.1f} times as much", "as"


def _link(problem: Problem, dominant: Dominant, usage: float, unit: str) -> str:
    source, target = problem.sites[dominant.source].name, problem.sites[dominant.target].name
    latency_ms = 1e3 * dominant.usage / dominant.per_second
    return (
        f"The link from {source} to {target} carries the most, {dominant.usage / usage:.1%} of it: "
        f"{quantity(dominant.per_second, f'{unit}/s')} over {milliseconds(latency_ms)}, mostly from "
        f"{_name(problem, dominant.node)}."
    )


def _name(problem: Problem, node: int) -> str:
    streams = len(problem.streams)
    return problem.streams[node].name if node < streams else problem.operators[node - streams].name


def _delay(problem: Problem, detour: Detour | None) -> str:
    if detour is None:
        return "No query takes longer than the direct way from its farthest stream."
    name, longer = problem.queries[detour.query].name, detour.way_ms / detour.direct_ms
    return (
        f"Query {name} has the longest detour: {milliseconds(detour.way_ms)} over its operators, "
        f"{longer:.1f} times the {milliseconds(detour.direct_ms)} of the direct way."
    )


def _limits(placement: Placement) -> list[str]:
    """Latency limits that are not met; channels count here, as they do for the limits."""
    problem = placement.problem
    ways = ways_ms(placement)
    limited = [(q, query.max_latency_ms) for q, query in enumerate(problem.queries)]
    late = {q: ways[q] - limit for q, limit in limited if limit is not None and ways[q] > limit}
    if not late:
        return []
    worst = max(late, key=lambda q: late[q])
    count = sum(limit is not None for _, limit in limited)
    verb = "is" if len(late) == 1 else "are"
    return [
        f"{len(late)} of {count} latency limits {verb} not met; {problem.queries[worst].name} exceeds its "
        f"limit by {milliseconds(late[worst])}."
    ]


def _site(placement: Placement, choice: Choice, usage: float, unit: str) -> str:
    problem = placement.problem
    names = [site.name for site in problem.sites]
    here = names[placement.site_of_fragment[choice.fragment]]
    said = (
        f"{problem.fragment_names[choice.fragment]} contributes most: at {here} it has "
        f"{quantity(choice.usage, unit)} in flight, {choice.usage / usage:.1%} of the total"
    )
    if choice.full is not None:
        less = 1.0 - choice.full_usage / choice.usage
        said += (
            f"; at {names[choice.full]} it would have {less:.1%} less, but {names[choice.full]} has no room"
        )
    if choice.next_best is None:
        return f"{said}; no other site has room for it."
    name, there = names[choice.next_best], quantity(choice.next_usage, unit)
    if choice.next_usage < choice.usage * (1.0 - ALIKE):
        less = 1.0 - choice.next_usage / choice.usage
        return f"{said}; at {name} it would have {there}, {less:.1%} less."
    if choice.next_usage <= choice.usage * (1.0 + ALIKE):
        return f"{said}; at {name} it would have as much."
    more, _ = _compared(choice.next_usage, choice.usage)
    return f"{said}; at the next best site, {name}, it would have {there}, {more}."
