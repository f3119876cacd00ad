"""Placement of the fragments of lost sites: the policy places them, all running fragments stay.

The policy sees the whole problem with the survivors pinned where they are and the lost sites too small for
anything; fragments that may run nowhere but at a lost site wait there, without load, until it returns, and so
do those for which no other site has room.

Sites that are kept empty on purpose are planned around in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import msgspec
import numpy as np

from mooring.errors import InfeasibleError
from mooring.model.load.build import build_load_model
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.operator import Operator
from mooring.model.problem.problem import Problem

NOTHING_CORES = 1e-9


def replace_lost(
    problem: Problem,
    sites: FragmentSites,
    lost: Collection[str],
    plan: Callable[[Problem], Placement],
) -> FragmentSites:
    """`sites` with the fragments at lost sites placed anew by `plan`."""
    if {site.name for site in problem.sites} <= set(lost):
        raise InfeasibleError("every site is lost", remedy="the run continues when a site is back")
    waiting = {name for name in _pinned(problem) if _pinned(problem)[name] in lost}
    orphans = [name for name, site in sites.items() if site in lost and name not in waiting]
    if not orphans:
        return sites
    reduced = _reduced(problem, sites, lost, waiting)
    try:
        chosen = plan(reduced).by_fragment()
    except Exception:  # such as: their fixed load alone is more than the sites left can take
        chosen = FragmentSites({})
    result = dict(sites)
    for name in orphans:
        to = chosen.get(name)
        if to is None or to in lost:
            to = _least_used_with_room(problem, result, lost, name)
        result[name] = sites[name] if to is None else to
    return FragmentSites(result)


def closed_problem(problem: Problem, closed: Collection[str]) -> Problem:
    """The problem as a plan sees it that is to leave sites empty: they are too small for anything, and what
    may run nowhere else loads nothing.
    """
    if not closed:
        return problem
    waiting = {name for name, site in _pinned(problem).items() if site in closed}
    everywhere = FragmentSites({name: next(iter(closed)) for name in problem.fragment_names})
    return _reduced(problem, everywhere, closed, waiting)


def off_closed(problem: Problem, sites: FragmentSites, closed: Collection[str]) -> FragmentSites:
    """The same placement with what a plan has put at closed sites all the same, because it loads nothing
    there, moved to where there is room.
    """
    pinned, result = _pinned(problem), dict(sites)
    for name, site in sites.items():
        if site in closed and pinned.get(name) != site:
            to = _least_used_with_room(problem, result, closed, name)
            if to is None:
                raise InfeasibleError(
                    f"{', '.join(sorted(closed))} is kept empty, and no other site has room for {name!r}",
                    remedy="`mooring moves PROJECT --return SITE` opens it again",
                )
            result[name] = to
    return FragmentSites(result)


def bound_fragments(problem: Problem) -> set[str]:
    """Fragments that stay where they are: pinned, or `movable: false`."""
    immovable = {
        name
        for name, members in zip(problem.fragment_names, problem.fragments, strict=True)
        if not all(problem.operators[j].movable for j in members)
    }
    return immovable | set(_pinned(problem))


def _pinned(problem: Problem) -> dict[str, str]:
    """Fragments that may run at one site only."""
    pins = {
        name: next((site for j in members if (site := problem.operators[j].site) is not None), None)
        for name, members in zip(problem.fragment_names, problem.fragments, strict=True)
    }
    return {name: site for name, site in pins.items() if site is not None}


def _reduced(
    problem: Problem, sites: FragmentSites, lost: Collection[str], waiting: Collection[str]
) -> Problem:
    operators = list(problem.operators)
    for name, members in zip(problem.fragment_names, problem.fragments, strict=True):
        for j in members:
            if name in waiting:
                operators[j] = _without_load(operators[j])
            elif sites[name] not in lost:
                operators[j] = msgspec.structs.replace(operators[j], site=sites[name])
    return replace(
        problem,
        sites=tuple(
            msgspec.structs.replace(site, capacity=NOTHING_CORES) if site.name in lost else site
            for site in problem.sites
        ),
        operators=tuple(operators),
    )


def _without_load(operator: Operator) -> Operator:
    return msgspec.structs.replace(
        operator,
        cost_us=0.0,
        fixed_cores=0.0,
        per_input=None,
        load=None if operator.load is None else dict.fromkeys(operator.load, 0.0),
    )


def _least_used_with_room(
    problem: Problem, sites: Mapping[str, str], lost: Collection[str], fragment: str
) -> str | None:
    """The surviving site of which the smallest share is in use once the fragment is there too, at the present
    rates. None where every one would be overfull: one fragment that waits harms less than a site on which
    nothing keeps up.
    """
    shares = shares_with(problem, sites, lost, fragment)
    roomy = {name: share for name, share in shares.items() if share <= 1.0}
    return min(roomy, key=roomy.__getitem__, default=None)


def shares_with(
    problem: Problem, sites: Mapping[str, str], closed: Collection[str], fragment: str
) -> dict[str, float]:
    """Per open site with memory for a fragment: the share of it in use once the fragment is there too."""
    model = build_load_model(problem)
    loads = model.coefficients @ model.present + model.fixed_cores
    at = [problem.site_index[sites[name]] for name in problem.fragment_names]
    used, used_mb = (np.bincount(at, own, len(problem.sites)) for own in (loads, model.memory_mb))
    row = problem.fragment_names.index(fragment)
    return {
        site.name: float(used[i] + loads[row]) / site.capacity
        for i, site in enumerate(problem.sites)
        if site.name not in closed and used_mb[i] + model.memory_mb[row] <= model.memory_limit_mb[i]
    }
