"""Plans with copies: the last resort when a plan is in the way of another, and its later clean-up.

A query that cannot have shared operators moved as it needs gets copies of its own: of the operators that its
plan moves, of those that the other plan moves, and of every shared operator from there to the query.
Operators that serve it alone are moved. No other query is affected. Once the shared operators serve it well
enough again, it reads them and the copies end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.algorithms.overlay.leases.lease_messages import LeasePlan
from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings
from mooring.algorithms.overlay.search.replicas import copied_for, original_of, replica_number
from mooring.algorithms.overlay.search.shared_operator import NOWHERE, upstream_first
from mooring.coordination.move_messages import FragmentMove


def replication(
    around: OverlaySurroundings, query: int, moves: Sequence[tuple[int, int]], other: LeasePlan
) -> LeasePlan | None:
    """The plan for one query alone; None where it has copies already, or nothing to copy."""
    served = around.served
    if any(original_of(number)[1] == query for number in served.own):
        return None
    wanted: Mapping[int, int] = dict(moves)
    moving = {*wanted, *(move.fragment for move in other.moves)}
    ordered = [own for own in upstream_first(served.own.values()) if query in served.queries[own.operator]]
    copied = copied_for(upstream_first(served.own.values()), query, moving.__contains__)
    places = [
        (around.where.get(replica_number(operator, query)), wanted.get(operator, around.site_of(operator)))
        for operator in copied
    ]
    alone = [
        (around.where.get(own.operator), wanted[own.operator])
        for own in ordered
        if own.operator in wanted and own.operator not in copied
    ]
    if not copied or any(place is None for place, _ in places):
        return None
    found = tuple(
        FragmentMove(place.fragment, place.site, to_site, place.epoch)
        for place, to_site in (*places, *alone)
        if place is not None and place.site != to_site
    )
    gone = {*copied, *(move.fragment for move in found)}
    left = tuple(own.operator for own in ordered if own.operator not in gone)
    return LeasePlan("replicate", query, found, (query,), left, cores=cores_of(around, found))


def merging(around: OverlaySurroundings, query: int) -> LeasePlan | None:
    """The plan that ends a query's copies; None where it has none."""
    copies = [
        place
        for number, place in sorted(around.where.items())
        if original_of(number)[1] == query and place.site != NOWHERE
    ]
    if not copies:
        return None
    moves = tuple(FragmentMove(place.fragment, place.site, NOWHERE, place.epoch) for place in copies)
    after, _ = around.after(LeasePlan("merge", query, moves, (query,)))
    return LeasePlan("merge", query, moves, (query,), tuple(sorted(after.upstream(query))))


def cores_of(around: OverlaySurroundings, moves: Sequence[FragmentMove]) -> tuple[tuple[int, float], ...]:
    return tuple((move.fragment, around.needs(move.fragment).cores) for move in moves)
