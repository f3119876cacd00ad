"""Which operators compute the same thing: equal signatures over equal inputs (section 3.2).

A signature given by the user stands for what the operator does; without one it is made of kind and
parameters. Either way the inputs belong to it, so that sub-queries that are equal from the streams on have
equal signatures.
"""

from __future__ import annotations

from mooring.placement.placement import Placement
from mooring.problem.operator import Operator
from mooring.problem.problem import Problem

Signature = tuple[object, ...]


def signatures(problem: Problem) -> tuple[Signature, ...]:
    """Per operator. One that forbids reuse is like no other."""
    graph = problem.graph
    found: list[Signature] = [("stream", stream.name) for stream in problem.streams]
    found += [()] * len(problem.operators)
    for j in graph.order:
        operator = problem.operators[j]
        inputs = tuple(tuple(found[node] for node in port) for port in graph.ports[j])
        found[graph.stream_count + j] = (*_own(operator), operator.share, inputs)
    return tuple(found[graph.stream_count :])


def _own(operator: Operator) -> Signature:
    if operator.reuse is False or operator.load is not None:
        return ("only", operator.name)
    if isinstance(operator.reuse, str):
        return ("signature", operator.reuse)
    overrides = operator.per_input or {}
    per_input = tuple((k, overrides[name]) for k, name in enumerate(operator.inputs) if name in overrides)
    return (
        operator.kind,
        operator.cost_us,
        operator.selectivity,
        operator.window_s,
        operator.variable,
        operator.bytes,
        operator.state_bytes,
        per_input,
    )


def shared_operators(placement: Placement) -> dict[str, str]:
    """Operators that need not run: one that computes the same runs at the same site. That one's name for
    each."""
    problem, sites = placement.problem, placement.site_of_operator
    first: dict[tuple[Signature, int], str] = {}
    shared: dict[str, str] = {}
    for operator, signature, site in zip(problem.operators, signatures(problem), sites.tolist(), strict=True):
        runs = first.setdefault((signature, site), operator.name)
        if runs != operator.name:
            shared[operator.name] = runs
    return shared
