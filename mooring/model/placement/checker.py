"""One checker for the placements of all policies: what is wrong with a placement, in words."""

from __future__ import annotations

import numpy as np

from mooring.model.load.model import LoadModel
from mooring.model.placement.goal_checker import broken_goals, has_goals
from mooring.model.placement.placement import Placement
from mooring.model.placement.site_limits import SLACK
from mooring.model.problem.problem import Problem
from mooring.quantity import decimal


def violations(problem: Problem, model: LoadModel, placement: Placement) -> list[str]:
    """Every rule the placement breaks; empty when it is allowed.

    Independent of how policies keep the rules: it looks at operators and sites of the problem, and takes only
    the fixed load and memory of fragments from the model.
    """
    sites = placement.site_of_fragment
    unknown = [
        f"fragment {problem.fragment_names[f]!r} is at site number {sites[f]}, which does not exist"
        for f in np.flatnonzero((sites < 0) | (sites >= len(problem.sites))).tolist()
    ]
    if unknown:
        return unknown
    found = [*_pins(problem, placement), *_limits(problem, model, placement)]
    return found + broken_goals(problem, model, placement) if has_goals(problem) else found


def _pins(problem: Problem, placement: Placement) -> list[str]:
    pinned = [j for j, operator in enumerate(problem.operators) if operator.site is not None]
    where = placement.site_of_operator[pinned].tolist() if pinned else []
    found: list[str] = []
    for j, site in zip(pinned, where, strict=True):
        operator, name = problem.operators[j], problem.sites[site].name
        if operator.site != name:
            found.append(f"operator {operator.name!r} is pinned to {operator.site!r} but placed at {name!r}")
    return found


def _limits(problem: Problem, model: LoadModel, placement: Placement) -> list[str]:
    sites = placement.site_of_fragment
    found: list[str] = []
    fixed = np.bincount(sites, model.fixed_cores, len(problem.sites)).tolist()
    memory = np.bincount(sites, model.memory_mb, len(problem.sites)).tolist()
    for site, fixed_cores, memory_mb in zip(problem.sites, fixed, memory, strict=True):
        if fixed_cores > site.capacity * (1.0 + SLACK):
            found.append(
                f"site {site.name!r} has {decimal(site.capacity, 4)} cores, "
                f"its fragments need {decimal(fixed_cores, 4)} at rate zero"
            )
        if site.memory_mb is not None and memory_mb > site.memory_mb * (1.0 + SLACK):
            found.append(
                f"site {site.name!r} has {decimal(site.memory_mb, 4)} MB, "
                f"its fragments need {decimal(memory_mb, 4)} MB"
            )
    return found
