"""Where the fragments of lost sites go: the policy places them, everything that still runs stays.

The policy sees the whole problem with the survivors pinned where they are and the lost sites too small for
anything; fragments that may run nowhere but at a lost site wait there, without load, until it returns, and so
do those for which no other site has room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import msgspec
import numpy as np

from mooring.errors import InfeasibleError, MooringError
from mooring.load.build import build_load_model
from mooring.placement.placement import FragmentSites, Placement
from mooring.problem.operator import Operator
from mooring.problem.problem import Problem

NOTHING_CORES = 1e-9


def replace_lost(
    problem: Problem,
    sites: FragmentSites,
    lost: Collection[str],
    plan: Callable[[Problem], Placement],
) -> FragmentSites:
    """`sites` with the fragments at lost sites placed anew by `plan`."""
    if {site.name for site in problem.sites} <= set(lost):
        raise InfeasibleError("every site is lost", remedy="it goes on when one of them is back")
    waiting = {name for name in _pinned(problem) if _pinned(problem)[name] in lost}
    orphans = [name for name, site in sites.items() if site in lost and name not in waiting]
    if not orphans:
        return sites
    reduced = _reduced(problem, sites, lost, waiting)
    try:
        chosen = plan(reduced).by_fragment()
    except MooringError:  # such as: their fixed load alone is more than the sites left can take
        chosen = FragmentSites({})
    result = dict(sites)
    for name in orphans:
        to = chosen.get(name)
        if to is None or to in lost:
            to = _least_used_with_room(problem, result, lost, name)
        result[name] = sites[name] if to is None else to
    return FragmentSites(result)


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
    model = build_load_model(problem)
    loads = model.coefficients @ model.present + model.fixed_cores
    at = [problem.site_index[sites[name]] for name in problem.fragment_names]
    used, used_mb = (np.bincount(at, own, len(problem.sites)) for own in (loads, model.memory_mb))
    row = problem.fragment_names.index(fragment)
    shares = {
        site.name: (used[i] + loads[row]) / site.capacity
        for i, site in enumerate(problem.sites)
        if site.name not in lost and used_mb[i] + model.memory_mb[row] <= model.memory_limit_mb[i]
    }
    roomy = {name: share for name, share in shares.items() if share <= 1.0}
    return min(roomy, key=roomy.__getitem__, default=None)
