"""The query graph in numbers: who reads whom, in an order in which every producer comes before its readers.

Nodes are numbered streams first, then operators. A reader of a split operator reads all its instances, so a
*port* (one named input) may have several producers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mooring.errors import InputError
from mooring.model.problem.operator import Operator
from mooring.model.problem.stream import Stream

MAX_ARCS = 20_000_000
"""Two operators of 10,000 instances each have five times as many arcs; no engine runs that."""


@dataclass(frozen=True, eq=False)
class QueryGraph:
    stream_count: int
    ports: tuple[tuple[tuple[int, ...], ...], ...]
    """Per operator, per input: the nodes that produce it."""
    order: tuple[int, ...]
    """Operators, producers before readers."""
    readers: tuple[tuple[int, ...], ...]
    """Per node: the operators that read it."""

    @classmethod
    def build(cls, streams: Sequence[Stream], operators: Sequence[Operator]) -> QueryGraph:
        producers: dict[str, tuple[int, ...]] = {s.name: (k,) for k, s in enumerate(streams)}
        instances: dict[str, list[int]] = {}
        for j, operator in enumerate(operators, start=len(streams)):
            instances.setdefault(operator.logical_name, []).append(j)
        producers.update((name, tuple(nodes)) for name, nodes in instances.items())
        ports = tuple(tuple([producers[name] for name in operator.inputs]) for operator in operators)
        if len(instances) < len(operators):
            _check_arcs(ports)
        readers: list[list[int]] = [[] for _ in range(len(streams) + len(operators))]
        for j, operator_ports in enumerate(ports):
            for port in operator_ports:
                for node in port:
                    readers[node].append(j)
        order = _topological_order(len(streams), operators, ports, readers)
        return cls(len(streams), ports, order, tuple(map(tuple, readers)))


def _check_arcs(ports: Sequence[Sequence[Sequence[int]]]) -> None:
    arcs = sum(len(port) for own in ports for port in own)
    if arcs > MAX_ARCS:
        raise InputError(
            f"found {arcs} arcs between instances of split operators, expected at most {MAX_ARCS}",
            field="operators",
            remedy="use fewer instances: each one reads every instance of its inputs",
        )


def _topological_order(
    stream_count: int,
    operators: Sequence[Operator],
    ports: Sequence[Sequence[Sequence[int]]],
    readers: Sequence[Sequence[int]],
) -> tuple[int, ...]:
    waiting = [sum(node >= stream_count for port in own for node in port) for own in ports]
    ready = deque(j for j, count in enumerate(waiting) if count == 0)
    order: list[int] = []
    while ready:
        j = ready.popleft()
        order.append(j)
        for reader in readers[stream_count + j]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(order) < len(operators):
        raise _cycle_error(stream_count, operators, ports, waiting)
    return tuple(order)


def _cycle_error(
    stream_count: int,
    operators: Sequence[Operator],
    ports: Sequence[Sequence[Sequence[int]]],
    waiting: Sequence[int],
) -> InputError:
    """Walk backwards along inputs that never became ready until an operator comes up twice."""
    at = next(j for j, count in enumerate(waiting) if count > 0)
    seen: dict[int, int] = {}
    path: list[int] = []
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = next(
            n - stream_count
            for port in ports[at]
            for n in port
            if n >= stream_count and waiting[n - stream_count]
        )
    loop = [operators[j].logical_name for j in reversed(path[seen[at] :])]
    shown = loop if len(loop) <= 8 else [*loop[:4], "...", *loop[-3:]]
    return InputError(
        f"found a cycle: {' -> '.join([*shown, shown[0]])}; expected an acyclic graph",
        field=f"operators.{loop[0]}.inputs",
        remedy="remove one of these inputs",
    )
