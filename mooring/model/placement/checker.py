"""One checker for the placements of all policies: what is wrong with a placement, in words."""

from __future__ import annotations

import numpy as np

from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.placement.site_limits import SLACK
from mooring.model.problem.problem import Problem


def violations(problem: Problem, model: LoadModel, placement: Placement) -> list[str]:
    """Every rule the placement breaks; empty when it is allowed.

    Independent of how policies keep the rules: it looks at operators and sites of the problem, and takes only
    the fixed load and memory of fragments from the model.
    """
    sites = placement.site_of_fragment
    unknown = [
        f"fragment {problem.fragment_names[f]!r} is at site number {site}, which does not exist"
        for f, site in enumerate(sites)
        if not 0 <= site < len(problem.sites)
    ]
    if unknown:
        return unknown
    return [*_pins(problem, placement), *_limits(problem, model, placement)]


def _pins(problem: Problem, placement: Placement) -> list[str]:
    where = placement.as_dict()
    return [
        f"operator {operator.name!r} is pinned to {operator.site!r} but placed at {where[operator.name]!r}"
        for operator in problem.operators
        if operator.site is not None and where[operator.name] != operator.site
    ]


def _limits(problem: Problem, model: LoadModel, placement: Placement) -> list[str]:
    sites = placement.site_of_fragment
    found: list[str] = []
    for i, site in enumerate(problem.sites):
        here = np.flatnonzero(sites == i)
        fixed_cores, memory_mb = float(model.fixed_cores[here].sum()), float(model.memory_mb[here].sum())
        if fixed_cores > site.capacity * (1.0 + SLACK):
            found.append(
                f"site {site.name!r} has {site.capacity:.4g} cores, "
                f"its fragments need {fixed_cores:.4g} at rate zero"
            )
        if site.memory_mb is not None and memory_mb > site.memory_mb * (1.0 + SLACK):
            found.append(
                f"site {site.name!r} has {site.memory_mb:.4g} MB, its fragments need {memory_mb:.4g} MB"
            )
    return found
