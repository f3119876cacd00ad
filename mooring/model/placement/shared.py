"""A placement as an engine runs it that shares: of operators that compute the same at one site, only one."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from mooring.model.placement.placement import Placement
from mooring.model.placement.signatures import shared_operators
from mooring.model.problem.problem import Problem


def as_shared(placement: Placement) -> Placement:
    """Of a smaller problem, in which readers of an operator that need not run read the one that does; the
    same placement where all have to run.

    An operator split by key is left out if every instance is, each for the same part of one other operator.
    """
    problem = placement.problem
    stands_for = _stand_ins(problem, shared_operators(placement))
    if not stands_for:
        return placement
    runs = [operator for operator in problem.operators if operator.logical_name not in stands_for]
    operators = tuple(
        msgspec.structs.replace(
            operator,
            inputs=tuple(stands_for.get(name, name) for name in operator.inputs),
            per_input=None
            if operator.per_input is None
            else {stands_for.get(name, name): own for name, own in operator.per_input.items()},
        )
        for operator in runs
    )
    queries = tuple(
        msgspec.structs.replace(query, reads=stands_for.get(query.reads, query.reads))
        for query in problem.queries
    )
    smaller = replace(problem, operators=operators, queries=queries)
    where = placement.as_dict()
    return Placement.from_dict(smaller, {operator.name: where[operator.name] for operator in operators})


def _stand_ins(problem: Problem, shared: dict[str, str]) -> dict[str, str]:
    """By the names that the problem file uses."""
    logical = {operator.name: operator.logical_name for operator in problem.operators}
    found: dict[str, str] = {}
    for name, nodes in problem.nodes_by_name.items():
        instances = [
            problem.operators[n - len(problem.streams)].name for n in nodes if n >= len(problem.streams)
        ]
        others = {logical[shared[each]] for each in instances if each in shared}
        whole = instances and all(each in shared for each in instances) and len(others) == 1
        if whole and not others & found.keys():
            found[name] = others.pop()
    return found
