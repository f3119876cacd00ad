"""Queries that a policy turned away, and the problem that is left without them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mooring.errors import InfeasibleError
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


def upstream_fragments(problem: Problem, reads: str) -> set[int]:
    """The fragments that a query needs: those it reads, and all that these read."""
    graph = problem.graph
    fragment_of = {j: f for f, members in enumerate(problem.fragments) for j in members}
    found: set[int] = set()
    todo = [node - graph.stream_count for node in problem.nodes_by_name[reads] if node >= graph.stream_count]
    while todo:
        fragment = fragment_of[todo.pop()]
        if fragment not in found:
            found.add(fragment)
            read = [node for j in problem.fragments[fragment] for port in graph.ports[j] for node in port]
            todo += [node - graph.stream_count for node in read if node >= graph.stream_count]
    return found


def without_queries(problem: Problem, rejected: Collection[str]) -> Problem:
    """The problem without some queries, and without the operators that nobody but they needed.

    A fragment stays whole. Operators that no query needs stay too: nobody has turned them away.
    """
    if not rejected:
        return problem
    needs = {query.name: upstream_fragments(problem, query.reads) for query in problem.queries}
    kept = [query for query in problem.queries if query.name not in rejected]
    wanted = set().union(*(needs[query.name] for query in kept))
    dropped = set().union(*(needs[name] for name in rejected)) - wanted
    dropped_operators = {j for f in dropped for j in problem.fragments[f]}
    # An operator that no query needs may read one that only rejected queries needed.
    for j in reversed(problem.graph.order):
        readers = problem.graph.readers[problem.graph.stream_count + j]
        if j in dropped_operators and any(reader not in dropped_operators for reader in readers):
            dropped_operators.discard(j)
    return replace(
        problem,
        queries=tuple(kept),
        operators=tuple(own for j, own in enumerate(problem.operators) if j not in dropped_operators),
    )


def require_all_queries(placement: Placement, what: str) -> None:
    """Raise `InfeasibleError` for a placement that leaves queries out where all have to run."""
    for query, reason in placement.rejected.items():
        raise InfeasibleError(
            f"{what} rejects query {query!r}: {reason}",
            remedy="raise its limit, add capacity, remove the query, or choose another policy",
        )
