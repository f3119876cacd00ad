"""Which operators compute the same thing: equal signatures over equal inputs (section 3.2).

A signature given by the user stands for what the operator does; without one it is made of kind and
parameters. Either way the inputs belong to it, so that sub-queries that are equal from the streams on have
equal signatures.
"""

from __future__ import annotations

from mooring.model.placement.placement import Placement
from mooring.model.problem.operator import Operator
from mooring.model.problem.problem import Problem

Signature = int
"""Equal numbers compute the same, within one problem."""


def signatures(problem: Problem) -> tuple[Signature, ...]:
    """Per operator. One that forbids reuse is like no other.

    A number stands for what an operator does and reads, inputs being numbers themselves: spelled out, a deep
    graph whose outputs are read twice would double in length with every step.
    """
    graph = problem.graph
    numbers: dict[tuple[object, ...], Signature] = {}
    found = [numbers.setdefault(("stream", k), len(numbers)) for k in range(graph.stream_count)]
    found += [-1] * len(problem.operators)
    part = _parts(problem)
    for j in graph.order:
        node = graph.stream_count + j
        inputs = tuple(tuple(found[source] for source in port) for port in graph.ports[j])
        key = (*_own(problem.operators[j]), part.get(node), inputs)
        found[node] = numbers.setdefault(key, len(numbers))
    return tuple(found[graph.stream_count :])


def fragment_signatures(problem: Problem) -> tuple[tuple[Signature, ...], ...]:
    """Per fragment, those of its operators: equal fragments compute the same, operator by operator."""
    own = signatures(problem)
    return tuple(tuple(own[j] for j in members) for members in problem.fragments)


def _parts(problem: Problem) -> dict[int, tuple[int, int]]:
    """Which keys the instances of split operators get: an instance's number, and one for how they are cut."""
    cuts: dict[tuple[float, ...], int] = {}
    result: dict[int, tuple[int, int]] = {}
    for nodes in problem.nodes_by_name.values():
        if len(nodes) > 1:
            shares = tuple(problem.operators[node - problem.graph.stream_count].share for node in nodes)
            cut = cuts.setdefault(shares, len(cuts))
            result |= {node: (number, cut) for number, node in enumerate(nodes)}
    return result


def _own(operator: Operator) -> tuple[object, ...]:
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
    """Operators that need not run, since one that computes the same runs at the same site: that one's name
    for each."""
    problem, sites = placement.problem, placement.site_of_operator
    first: dict[tuple[Signature, int], str] = {}
    shared: dict[str, str] = {}
    for operator, signature, site in zip(problem.operators, signatures(problem), sites.tolist(), strict=True):
        runs = first.setdefault((signature, site), operator.name)
        if runs != operator.name:
            shared[operator.name] = runs
    return shared
