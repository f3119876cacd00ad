"""Makes a failing scenario small: fewer faults and requests, then shorter and plainer ones.

Delta debugging (Zeller and Hildebrandt 2002): try without whole chunks first, then ever smaller ones,
keeping every removal after which the scenario still fails; in the end no single item can go. Then each
fault is tried in its simpler forms, and the scenario without the sites that no fault or request names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from lab.faults.faults import Crash, Fault, Partition, Pause
from lab.faults.scenario import Request, Scenario

Item = Fault | Request
T = TypeVar("T")


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], most_runs: int = 1000) -> Scenario:
    """The smallest failing scenario found; `fails` says whether one still breaks the same invariant."""
    left = most_runs

    def still_fails(items: list[Item]) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(with_items(scenario, items))

    items = without_needless(items_of(scenario), still_fails)
    smaller = with_items(scenario, with_simpler(items, still_fails, _simpler))
    for site in reversed(range(scenario.sites)):
        candidate = without_site(smaller, site)
        left -= 1
        if candidate is not None and left >= 0 and fails(candidate):
            smaller = candidate
    return smaller


def items_of(scenario: Scenario) -> list[Item]:
    return [*scenario.faults, *scenario.requests]


def with_items(scenario: Scenario, items: list[Item]) -> Scenario:
    faults = tuple(item for item in items if not isinstance(item, Request))
    requests = tuple(item for item in items if isinstance(item, Request))
    return msgspec.structs.replace(scenario, faults=faults, requests=requests)


def without_needless(items: list[T], still_fails: Callable[[list[T]], bool]) -> list[T]:
    """A part of `items` that still fails and of which no single item can be left out."""
    chunk = max(1, len(items) // 2)
    while items:
        start, removed = 0, False
        while start < len(items):
            rest = items[:start] + items[start + chunk :]
            if still_fails(rest):
                items, removed = rest, True
            else:
                start += chunk
        if chunk == 1 and not removed:
            break
        chunk = max(1, chunk // 2)
    return items


def with_simpler(
    items: list[T], still_fails: Callable[[list[T]], bool], simpler: Callable[[T], Iterable[T]]
) -> list[T]:
    """The same items, each in the simplest form that still fails; `simpler` gives the next simpler ones."""
    for position in range(len(items)):
        simplified = True
        while simplified:
            simplified = False
            for form in simpler(items[position]):
                candidate = [*items[:position], form, *items[position + 1 :]]
                if still_fails(candidate):
                    items, simplified = candidate, True
                    break
    return items


def _simpler(item: Item) -> Iterable[Item]:
    return () if isinstance(item, Request) else item.simpler()


def without_site(scenario: Scenario, site: int) -> Scenario | None:
    """The scenario with one site fewer, the later ones moved up; None if a fault or a request needs the
    site.
    """
    if scenario.sites == 1:
        return None
    items: list[Item] = []
    for item in items_of(scenario):
        if isinstance(item, Partition):
            side = tuple(other - (other > site) for other in item.side if other != site)
            if not side:
                return None
            items.append(msgspec.structs.replace(item, side=side))
        elif isinstance(item, Crash | Pause | Request):
            if item.site == site:
                return None
            items.append(msgspec.structs.replace(item, site=item.site - (item.site > site)))
        else:
            items.append(item)
    kept = [other for other in range(scenario.sites) if other != site]
    latency_ms = tuple(tuple(scenario.latency_ms[a][b] for b in kept) for a in kept)
    bare = msgspec.structs.replace(scenario, latency_ms=latency_ms, faults=(), requests=())
    return with_items(bare, items)
