"""The explanation of latencies: the parts of links, queues and processing, the slowest query, the site
with the longest queue, and the limits that are not met.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.model.evaluation.headroom_sentence import headroom_sentences
from mooring.model.evaluation.metrics import Metrics
from mooring.model.load.build import build_load_model
from mooring.model.load.micro_batches import micro_batches
from mooring.model.load.queued.latencies import LatencyParts, queued_latencies
from mooring.model.placement.network_metrics import ways_ms
from mooring.model.placement.placement import Placement
from mooring.model.placement.shared import as_shared
from mooring.model.problem.problem import Problem
from mooring.quantity import milliseconds


@dataclass(frozen=True)
class LatencyExplanation:
    mean_ms: float
    """Of all queries, queues included; infinite where a site or link on the way of one is full."""
    way_ms: float
    """The part of it that network, channels and transfers take."""
    slowest: int
    """A query, by number."""
    busiest: int
    """The site where messages wait longest, by number."""
    sentences: tuple[str, ...]


def explain_latency(placement: Placement, metrics: Metrics) -> LatencyExplanation:
    problem = placement.problem
    if problem.network.trigger_s > 0.0:
        return _in_batches(placement, metrics)
    found = queued_latencies(problem, placement.site_of_operator.tolist())
    total_ms = 1e3 * found.query_s
    ways_ms = 1e3 * found.way_s
    slowest, busiest = int(np.argmax(total_ms)), int(np.argmax(found.site_wait_s))
    sentences = [
        _mean(total_ms, ways_ms),
        *_slowest(problem, slowest, total_ms, ways_ms),
        *_busiest(problem, busiest, found),
        *_limits(problem, total_ms),
        *_shared(placement),
        *headroom_sentences(metrics),
    ]
    mean_ms, way_ms = float(total_ms.mean()), float(ways_ms.mean())
    return LatencyExplanation(mean_ms, way_ms, slowest, busiest, tuple(sentences))


def _in_batches(placement: Placement, metrics: Metrics) -> LatencyExplanation:
    """Of a project: what passes until results are there is mostly the wait for triggers."""
    problem, trigger_s = placement.problem, placement.problem.network.trigger_s
    model = build_load_model(problem)
    found = micro_batches(problem, model, placement.site_of_fragment, trigger_s)
    total_ms, ways = 1e3 * found.query_s, np.array(ways_ms(placement))
    slowest, longest = int(np.argmax(total_ms)), int(np.argmax(found.batch_s))
    endless = int((~np.isfinite(total_ms)).sum())
    name, site = problem.fragment_names[longest], problem.sites[placement.site_of_fragment[longest]].name
    if endless:
        sentences = [
            f"The latency of {endless} of {len(total_ms)} queries grows without bound: a site on the way is "
            "full."
        ]
    else:
        sentences = [
            f"Queries take {milliseconds(total_ms.mean())} on average, {milliseconds(ways.mean())} of it on "
            f"links and in waits for triggers of {trigger_s:g} s.",
            f"Query {problem.queries[slowest].name} is the slowest: {milliseconds(total_ms[slowest])}.",
            f"The longest batches are those of {name} at {site}: "
            f"{milliseconds(1e3 * float(found.batch_s[longest]))}.",
        ]
    sentences += [*_limits(problem, total_ms), *headroom_sentences(metrics)]
    return LatencyExplanation(
        float(total_ms.mean()),
        float(ways.mean()),
        slowest,
        int(placement.site_of_fragment[longest]),
        tuple(sentences),
    )


def _mean(total_ms: np.ndarray, ways_ms: np.ndarray) -> str:
    endless = int((~np.isfinite(total_ms)).sum())
    if endless:
        return (
            f"The latency of {endless} of {len(total_ms)} queries grows without bound: a site or link "
            "on the way is full."
        )
    queued_ms = float(total_ms.mean() - ways_ms.mean())
    return (
        f"Queries take {milliseconds(total_ms.mean())} on average, {milliseconds(queued_ms)} of it in queues "
        "and in processing, the rest on links."
    )


def _slowest(problem: Problem, q: int, total_ms: np.ndarray, ways_ms: np.ndarray) -> list[str]:
    if len(total_ms) < 2 or not np.isfinite(total_ms[q]):
        return []
    name = problem.queries[q].name
    return [
        f"Query {name} is the slowest: {milliseconds(total_ms[q])}, "
        f"{milliseconds(ways_ms[q])} of it on links."
    ]


def _busiest(problem: Problem, site: int, found: LatencyParts) -> list[str]:
    wait_ms, used = 1e3 * float(found.site_wait_s[site]), float(found.site_utilisation[site])
    if wait_ms <= 0.0:
        return []
    if not np.isfinite(wait_ms):
        return [f"Site {problem.sites[site].name} is full: its queue grows without bound."]
    name = problem.sites[site].name
    return [f"Messages wait longest at {name}: {milliseconds(wait_ms)} at a utilisation of {used:.0%}."]


def _shared(placement: Placement) -> list[str]:
    """What it would be if operators that compute the same at one site ran once."""
    running = as_shared(placement)
    if running is placement:
        return []
    found = queued_latencies(running.problem, running.site_of_operator.tolist())
    mean_ms, busiest = 1e3 * float(found.query_s.mean()), int(np.argmax(found.site_utilisation))
    wait = (
        f"take {milliseconds(mean_ms)} on average" if np.isfinite(mean_ms) else "still have unbounded latency"
    )
    return [
        f"With equal operators shared, queries {wait}; the busiest site is then "
        f"{running.problem.sites[busiest].name}, at {found.site_utilisation[busiest]:.0%}."
    ]


def _limits(problem: Problem, total_ms: np.ndarray) -> list[str]:
    limited = [(q, query.max_latency_ms) for q, query in enumerate(problem.queries)]
    late = {q: total_ms[q] - limit for q, limit in limited if limit is not None and total_ms[q] > limit}
    if not late:
        return []
    worst, count = max(late, key=lambda q: late[q]), sum(limit is not None for _, limit in limited)
    verb = "is" if len(late) == 1 else "are"
    return [
        f"{len(late)} of {count} latency limits {verb} not met with queues; {problem.queries[worst].name} "
        f"exceeds its limit by {milliseconds(late[worst])}."
    ]
