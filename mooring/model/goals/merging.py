"""Groups that are to be together, as one fragment each: every policy then keeps them unawares."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from mooring.model.placement.admission import without_queries
from mooring.model.placement.goal_checker import fragments_of
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


def merged(problem: Problem) -> Problem:
    """The problem with the fragments of each group as one; itself where there are no groups."""
    if not problem.goals.together:
        return problem
    root = list(range(len(problem.fragments)))

    def root_of(f: int) -> int:
        while root[f] != f:
            f = root[f]
        return f

    for group in problem.goals.together:
        first, *others = [f for name in group for f in fragments_of(problem, name)] or [0]
        for f in others:
            root[root_of(f)] = root_of(first)
    members: dict[int, list[int]] = {}
    for f in range(len(root)):
        members.setdefault(root_of(f), []).append(f)
    operators = list(problem.operators)
    for own in members.values():
        if len(own) == 1:
            continue
        label = "+".join(problem.fragment_names[f] for f in own)
        # A fragment counts its fixed load once, and these are several.
        fixed = sum(max(operators[j].fixed_cores for j in problem.fragments[f]) for f in own)
        for f in own:
            for j in problem.fragments[f]:
                operators[j] = msgspec.structs.replace(operators[j], fragment=label, fixed_cores=fixed)
                fixed = 0.0
    goals = msgspec.structs.replace(problem.goals, together=())
    return replace(problem, operators=tuple(operators), goals=goals)


def on_merged(placement: Placement, problem: Problem) -> Placement:
    """A placement as one of the merged problem; groups that are torn apart are where their first is."""
    at = placement.site_of_operator
    return Placement(problem, np.array([at[members[0]] for members in problem.fragments], dtype=np.int64))


def on_whole(placement: Placement, problem: Problem) -> Placement:
    """A placement of the merged problem as one of the problem itself."""
    kept = without_queries(problem, placement.rejected)
    at = placement.as_dict()
    sites = [problem.site_index[at[kept.operators[members[0]].name]] for members in kept.fragments]
    return replace(placement, problem=kept, site_of_fragment=np.array(sites, dtype=np.int64))


def pinned_apart(problem: Problem) -> bool:
    """Whether a fragment of the merged problem is pinned to two sites, which no placement keeps."""
    return any(
        len({problem.operators[j].site for j in members} - {None}) > 1 for members in problem.fragments
    )
