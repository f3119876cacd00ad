"""Queries that join a run: where their fragments go without moving others, or which number is short.

Each fragment goes where the fewest tuples are under way with it, of the sites that keep room to grow with
it, or at least keep up. A query for which no site has room, or that would miss its limit wherever its
fragments go, is rejected, and what runs stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from mooring.arrays import Bools, Ints
from mooring.contracts.picture import ROOM, Picture, picture_of, without_fragments
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.model.problem.query import Query
from mooring.quantity import decimal, milliseconds

_ROUNDS = 2


@dataclass(frozen=True)
class Joined:
    sites: Mapping[str, str] = field(default_factory=dict)
    """Where the fragments that come go."""
    rejected: str = ""
    """The number that is short, in words; empty: it is admitted."""


def joined(
    problem: Problem,
    sites: FragmentSites,
    running: Collection[str],
    coming: Collection[str],
    lost: Collection[str] = (),
    query: Query | None = None,
) -> Joined:
    """`problem` as it is observed, `sites` where everything is or was; `coming` are fragments that start, and
    `running` those that run already and are not moved.
    """
    if not coming:
        return Joined()
    runs = np.array([name in running or name in coming for name in problem.fragment_names])
    start = Placement.from_fragments(problem, sites)
    stated = picture_of(problem, start)
    closed = np.array([site.name in lost for site in problem.sites])
    seen = replace(stated, model=without_fragments(stated.model, runs), running=runs, lost=closed)
    own = seen.loads_cores + seen.model.fixed_cores
    rows = [f for f, name in enumerate(problem.fragment_names) if name in coming]
    rows.sort(key=lambda f: -float(own[f]))
    at = start.site_of_fragment.copy()
    without = seen.model.site_loads(at, seen.rates) - np.bincount(at[rows], own[rows], len(closed))
    for number in range(_ROUNDS):
        for f in rows:
            # In the first round those that have no place yet take none.
            waiting = np.zeros(len(own), dtype=bool)
            waiting[rows[rows.index(f) + 1 :] if number == 0 else []] = True
            best = _best_site(seen, at, f, waiting, query)
            if best is None:
                left = np.where(closed, -np.inf, seen.model.capacity_cores - without)
                most = int(np.argmax(left))
                return Joined(rejected=_short(problem, f, float(own[f]), most, float(left[most])))
            at[f] = best
    late_ms = 0.0 if query is None else _late_ms(seen, at, query)
    if query is not None and late_ms > 0.0:
        limit_ms = query.max_latency_ms or 0.0
        return Joined(
            rejected=f"it would take {milliseconds(limit_ms + late_ms)} where its limit is "
            f"{milliseconds(limit_ms)}: {milliseconds(late_ms)} too long"
        )
    return Joined({problem.fragment_names[f]: problem.sites[at[f]].name for f in rows})


def _best_site(picture: Picture, at: Ints, fragment: int, waiting: Bools, query: Query | None) -> int | None:
    model = picture.model
    if waiting.any():
        picture = replace(picture, model=without_fragments(model, ~waiting))
        model = picture.model
    pinned = int(model.pinned_site[fragment])
    found: tuple[tuple[float, bool, float, int], int] | None = None
    for site in range(model.site_count) if pinned < 0 else [pinned]:
        trial = at.copy()
        trial[fragment] = site
        load = float(model.site_loads(trial, picture.rates)[site])
        used_mb = float(model.memory_mb[(trial == site) & ~waiting].sum())
        full = load > model.capacity_cores[site] or used_mb > model.memory_limit_mb[site]
        if picture.lost[site] or (full and pinned < 0):
            continue
        crowded = ROOM * load > model.capacity_cores[site]
        late_ms = 0.0 if query is None else _late_ms(picture, trial, query)
        key = late_ms, crowded, picture.tuples_under_way(trial), site
        if found is None or key < found[0]:
            found = key, site
    return None if found is None else found[1]


def _late_ms(picture: Picture, at: Ints, query: Query) -> float:
    if query.max_latency_ms is None:
        return 0.0
    ms = picture.predict(at, in_full=True).latency_ms.get(query.name)
    return 0.0 if ms is None else max(0.0, ms - query.max_latency_ms)


def _short(problem: Problem, fragment: int, needs: float, site: int, left: float) -> str:
    name, short = problem.fragment_names[fragment], max(needs - left, 0.0)
    if short == 0.0:
        return f"{name} needs more memory than any site has left"
    most = f"{decimal(max(left, 0.0), 2)} left ({problem.sites[site].name})"
    return (
        f"{name} needs {decimal(needs, 2)} cores, and no site has more than {most}: "
        f"{decimal(short, 2)} cores short"
    )
