"""Goals that no placement keeps together, told by a smallest set: without one of it, the rest can be kept.

A set of goals is shown to be impossible by trying all placements, where what is broken already cuts off most
of them. One goal after the other is then left out; those that make no difference stay out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import numpy as np

from mooring.arrays import Floats
from mooring.model.goals import rule_kernels
from mooring.model.goals.mending import mended
from mooring.model.goals.merging import merged, pinned_apart
from mooring.model.goals.rules import INVALID, RuleBook
from mooring.model.load.build import build_load_model
from mooring.model.problem.operator import Operator
from mooring.model.problem.problem import Problem
from mooring.quantity import decimal, milliseconds

MOST_LOOKED_AT = 2_000_000
"""Partial placements, before a set of goals counts as possible for want of a proof."""
MEND_STEPS = 20_000


@dataclass(frozen=True)
class Stated:
    """One thing that a problem asks of placements."""

    field: str
    words: str
    without: Callable[[Problem], Problem]


def conflict(problem: Problem) -> tuple[Stated, ...] | None:
    """A smallest set of goals that no placement keeps; None where some placement keeps them all, or none is
    proven not to."""
    if possible(problem) is not False:
        return None
    kept, left = problem, list(stated(problem))
    needed: list[Stated] = []
    for each in left:
        without = each.without(kept)
        if possible(without) is False:
            kept = without
        else:
            needed.append(each)
    return tuple(needed)


def possible(problem: Problem) -> bool | None:
    """Whether some placement keeps all that is hard; None: not known."""
    whole = merged(problem)
    if pinned_apart(whole):
        return False
    model = build_load_model(whole)
    book = RuleBook(model, whole, reserve=0.0)
    rules = book.down_to(INVALID)
    pinned, free = model.pinned_site, np.flatnonzero(model.pinned_site < 0)
    held_at = np.flatnonzero(pinned >= 0)
    if not rules.allowed[rules.kind[held_at], pinned[held_at]].all() or not rules.allowed.any(axis=1).all():
        return False
    if book.least_broken(rules) > rule_kernels.ENOUGH:
        return False
    start = np.where(pinned >= 0, pinned, 0)
    found = mended(book, start, np.random.default_rng(0), steps=MEND_STEPS, lightest=INVALID)
    if book.broken(found, rules) == 0.0:
        return True
    wide = _with_nowhere(rules)
    sites = np.where(pinned >= 0, pinned, model.site_count)
    held = book.held(sites, wide)
    order = free[np.argsort(-_bulk(book)[free], kind="stable")]
    answer = int(rule_kernels.look_everywhere(wide, held, order, MOST_LOOKED_AT))
    return None if answer < 0 else bool(answer)


def _bulk(book: RuleBook) -> Floats:
    """How hard fragments are to place: by what they take of sites, and by how many others they avoid."""
    rules, fragments = book.rules, book.model.fragment_count
    share = (rules.demand[:fragments] * rules.weight / INVALID).max(axis=1, initial=0.0)
    return np.asarray(share + np.diff(rules.group_start) + 1.0 / rules.allowed.sum(axis=1)[rules.kind])


def _with_nowhere(rules: rule_kernels.RuleArrays) -> rule_kernels.RuleArrays:
    """One site more, where nothing counts: what has no site yet is there."""
    more = np.full((1, rules.capacity.shape[1]), np.inf)

    def wider(matrix: Floats, fill: float) -> Floats:
        return np.pad(matrix, ((0, 1), (0, 1)), constant_values=fill) if matrix.size else matrix

    return rules._replace(
        capacity=np.vstack([rules.capacity, more]),
        latency=wider(rules.latency, 0.0),
        bandwidth=wider(rules.bandwidth, np.inf),
    )


def stated(problem: Problem) -> Iterator[Stated]:
    """Everything that can make placements impossible, the least specific first, so that they are left out
    first."""
    yield from _capacities(problem)
    yield from _of_goals(problem)
    yield from _of_entries(problem)


def _capacities(problem: Problem) -> Iterator[Stated]:
    if any(operator.fixed_cores for operator in problem.operators):
        yield Stated(
            "operators",
            "the fixed load of fragments fits the cores of their sites",
            lambda p: _operators(p, lambda each: msgspec.structs.replace(each, fixed_cores=0.0)),
        )
    if any(site.memory_mb is not None for site in problem.sites):
        yield Stated(
            "sites",
            "the memory of operators fits the memory_mb of their sites",
            lambda p: _operators(p, lambda each: msgspec.structs.replace(each, memory_mb=0.0)),
        )
    for name in dict.fromkeys(name for each in problem.operators for name in each.needs or ()):
        has = ", ".join(f"{s.name} {decimal((s.resources or {}).get(name, 0.0))}" for s in problem.sites[:8])

        def needless(each: Operator, name: str = name) -> Operator:
            needs = {key: need for key, need in (each.needs or {}).items() if key != name}
            return msgspec.structs.replace(each, needs=needs or None)

        yield Stated(
            f"operators.needs.{name}",
            f"operators need {name}, of which the sites have: {has}",
            partial(_operators, change=needless),
        )


def _of_goals(problem: Problem) -> Iterator[Stated]:
    goals = problem.goals
    if goals.reserve > 0.0:
        words = f"{goals.reserve:.0%} of every site stays free at the present rates"
        yield Stated("goals.reserve", words, partial(_goal, field="reserve", value=0.0))
    if "bandwidth" in goals.limits and problem.network.bandwidth is not None:
        yield Stated("network.bandwidth", "every link carries no more than its bandwidth", _unlimited_links)
    for field in ("allowed", "excluded"):
        for name, places in getattr(goals, field).items():
            how = "may run only at" if field == "allowed" else "may not run at"
            words = f"{name} {how} {', '.join(places)}"
            yield Stated(f"goals.{field}.{name}", words, partial(_without_key, field=field, key=name))
    for field in ("apart", "together"):
        for i, group in enumerate(getattr(goals, field)):
            words = f"{', '.join(group)} are {field}"
            yield Stated(f"goals.{field}[{i}]", words, partial(_without_group, field=field, group=group))


def _of_entries(problem: Problem) -> Iterator[Stated]:
    for i, site in enumerate(problem.sites):
        most = min(site.max_utilisation, 1.0 - site.reserve)
        if most < 1.0:
            key = "max_utilisation" if site.max_utilisation < 1.0 else "reserve"
            words = f"site {site.name} uses at most {most:.0%} of its cores"
            yield Stated(f"sites.{site.name}.{key}", words, partial(_site, i=i))
    for q, query in enumerate(problem.queries):
        if query.critical:
            words = f"query {query.name} is critical: nothing that it does not need runs where it runs"
            without = partial(_query, q=q, field="critical", value=False)
            yield Stated(f"queries.{query.name}.critical", words, without)
        if query.max_latency_ms is not None and "latency" in problem.goals.limits:
            words = f"query {query.name} takes at most {milliseconds(query.max_latency_ms)}"
            without = partial(_query, q=q, field="max_latency_ms", value=None)
            yield Stated(f"queries.{query.name}.max_latency_ms", words, without)
    pins = {each.logical_name: each.site for each in problem.operators if each.site is not None}
    for name, at in pins.items():
        change = partial(_unpinned, name=name)
        yield Stated(
            f"operators.{name}.site", f"{name} is pinned to {at}", partial(_operators, change=change)
        )


def _unpinned(operator: Operator, name: str) -> Operator:
    return msgspec.structs.replace(operator, site=None) if operator.logical_name == name else operator


def _operators(problem: Problem, change: Callable[[Operator], Operator]) -> Problem:
    return replace(problem, operators=tuple(map(change, problem.operators)))


def _unlimited_links(problem: Problem) -> Problem:
    return replace(problem, network=replace(problem.network, bandwidth=None))


def _goal(problem: Problem, field: str, value: object) -> Problem:
    return replace(problem, goals=msgspec.structs.replace(problem.goals, **{field: value}))


def _without_key(problem: Problem, field: str, key: str) -> Problem:
    left = {name: places for name, places in getattr(problem.goals, field).items() if name != key}
    return _goal(problem, field, left)


def _without_group(problem: Problem, field: str, group: tuple[str, ...]) -> Problem:
    left = tuple(each for each in getattr(problem.goals, field) if each is not group)
    return _goal(problem, field, left)


def _site(problem: Problem, i: int) -> Problem:
    sites = list(problem.sites)
    sites[i] = msgspec.structs.replace(sites[i], max_utilisation=1.0, reserve=0.0)
    return replace(problem, sites=tuple(sites))


def _query(problem: Problem, q: int, field: str, value: object) -> Problem:
    queries = list(problem.queries)
    queries[q] = msgspec.structs.replace(queries[q], **{field: value})
    return replace(problem, queries=tuple(queries))
