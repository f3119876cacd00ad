"""Replicas: copies of shared operators that serve one query alone (section 3.5).

A replica is an operator with a number of its own, known beforehand and running nowhere (`NOWHERE`) until
it is needed. So starting one is a move from nowhere, and ending it a move back. Which operators a query reads
follows from which of its replicas run: of an operator and its replica the replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from mooring.algorithms.overlay.search.shared_operator import SharedOperator, queries_of

_PER_QUERY = 1_000_000
"""More operators than any problem has."""


def replica_number(operator: int, query: int) -> int:
    """
    >>> replica_number(3, 0), original_of(1_000_003), original_of(3)
    (1000003, (3, 0), (3, None))
    """
    return (query + 1) * _PER_QUERY + operator


def original_of(number: int) -> tuple[int, int | None]:
    """The operator, and the query that its replica serves; None of an operator itself."""
    query, operator = divmod(number, _PER_QUERY)
    return operator, (query - 1 if query > 0 else None)


def as_served(operators: Sequence[SharedOperator], running: Iterable[int]) -> list[SharedOperator]:
    """The operators as queries read them now: replicas that run in the place of what they are copies of.

    An operator that serves one query alone needs no replica: it reads those of its publishers.
    """
    replicas = {number for number in running if number >= _PER_QUERY}
    if not replicas:
        return list(operators)
    shared = queries_of(operators)
    found: list[SharedOperator] = []
    for own in operators:
        own_queries = shared[own.operator]
        left = [e for e in own.ends if replica_number(own.operator, e.query) not in replicas]
        alone = next(iter(own_queries)) if len(own_queries) == 1 else None
        publishers = _read_by(own, alone, replicas)
        found.append(msgspec.structs.replace(own, ends=tuple(left), publishers=publishers))
        for query in own_queries:
            number = replica_number(own.operator, query)
            if number in replicas:
                ends = tuple(end for end in own.ends if end.query == query)
                read = _read_by(own, query, replicas)
                found.append(msgspec.structs.replace(own, operator=number, publishers=read, ends=ends))
    return found


def _read_by(own: SharedOperator, query: int | None, replicas: set[int]) -> tuple[int, ...]:
    if query is None:
        return own.publishers
    copies = [replica_number(publisher, query) for publisher in own.publishers]
    return tuple(
        copy if copy in replicas else publisher
        for publisher, copy in zip(own.publishers, copies, strict=True)
    )


def copied_for(
    operators: Sequence[SharedOperator], query: int, needed: Callable[[int], bool]
) -> tuple[int, ...]:
    """What has to be copied so that a query reads copies of the needed operators, upstream first: these, and
    every shared operator between them and the query. `operators`: publishers first."""
    shared, copied = queries_of(operators), set[int]()
    found: list[int] = []
    for own in operators:
        if query not in shared[own.operator] or own.operator >= _PER_QUERY:
            continue
        behind = any(publisher in copied for publisher in own.publishers)
        if len(shared[own.operator]) > 1 and (behind or needed(own.operator)):
            copied.add(own.operator)
            found.append(own.operator)
    return tuple(found)
