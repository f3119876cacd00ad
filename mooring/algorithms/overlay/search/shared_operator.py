"""An operator as plans see it: what it needs, what it reads, and the queries that wait for its output.

Queries share operators, so an operator belongs to every query that reads it or anything downstream of it, and
its placement has to keep the limits of all of them (`Q_o` in the paper).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

NOWHERE = -1
"""The site of an operator that does not run yet."""


class QueryEnd(msgspec.Struct, frozen=True):
    """Where a query's results go from an operator, and when they have to be there.

    That is the query's own site, or an operator that stays where it is while others are placed.
    """

    query: int
    site: int
    """`NOWHERE` where nothing is delivered: only the operator is wanted."""
    limit_ms: float
    """QoS of the query; infinite where it has no limit."""
    rate: float = 0.0
    """Bytes per second that count as bandwidth if they leave the operator's site; the paper counts none."""
    beyond_ms: float = 0.0
    """How long results take from that site on."""


class Source(msgspec.Struct, frozen=True):
    """Where a stream enters."""

    site: int
    rate: float = 0.0
    """Bytes per second that count as bandwidth if the operator is elsewhere; the paper counts none."""


class SharedOperator(msgspec.Struct, frozen=True):
    operator: int
    publishers: tuple[int, ...] = ()
    """The operators that it reads (`pub` in the paper)."""
    sources: tuple[Source, ...] = ()
    """Where the streams that it reads enter."""
    ends: tuple[QueryEnd, ...] = ()
    """Queries that read this operator itself."""
    output_rate: float = 0.0
    """Bytes per second."""
    cores: float = 0.0
    memory_mb: float = 0.0
    pinned_site: int = NOWHERE
    """The only site where it may run."""
    tuples: float = 0.0
    """Per second, that it reads."""


Subscribers = Mapping[int, tuple[int, ...]]


def upstream_first(operators: Iterable[SharedOperator]) -> list[SharedOperator]:
    """The same operators, publishers before subscribers; publishers that are not among them do not count."""
    waiting = {own.operator: own for own in operators}
    ordered: list[SharedOperator] = []
    while waiting:
        ready = [own for own in waiting.values() if not any(p in waiting for p in own.publishers)]
        if not ready:
            raise ValueError(f"operators {sorted(waiting)} read each other in a circle")
        for own in ready:
            del waiting[own.operator]
        ordered += ready
    return ordered


def subscribers_of(operators: Iterable[SharedOperator]) -> Subscribers:
    """Who reads each operator (`sub` in the paper)."""
    known = list(operators)
    found: dict[int, list[int]] = {own.operator: [] for own in known}
    for own in known:
        for publisher in own.publishers:
            if publisher in found:
                found[publisher].append(own.operator)
    return {operator: tuple(readers) for operator, readers in found.items()}


def queries_of(operators: Sequence[SharedOperator]) -> dict[int, dict[int, float]]:
    """Operator -> the queries that share it, with their limits."""
    return queries_along(upstream_first(operators), subscribers_of(operators))


def queries_along(ordered: Sequence[SharedOperator], readers: Subscribers) -> dict[int, dict[int, float]]:
    """The same, for who has them publishers first, with their readers."""
    found: dict[int, dict[int, float]] = {}
    for own in reversed(ordered):
        shared: dict[int, float] = {}
        behind = [(end.query, end.limit_ms) for end in own.ends]
        behind += [each for reader in readers[own.operator] for each in found[reader].items()]
        for query, limit_ms in behind:
            shared[query] = min(limit_ms, shared.get(query, limit_ms))
        found[own.operator] = dict(sorted(shared.items()))
    return found
