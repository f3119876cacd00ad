"""A stored plan as a lease is sought for it: from where operators are known to be, to where they shall be."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.algorithms.overlay.leases.copies import cores_of
from mooring.algorithms.overlay.leases.lease_messages import LeasePlan
from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings
from mooring.coordination.move_messages import FragmentMove


def migration(
    around: OverlaySurroundings,
    query: int,
    moves: Sequence[tuple[int, int]],
    change_ms: tuple[tuple[int, float], ...] = (),
) -> LeasePlan | None:
    """None where nothing is to be done."""
    places = [(around.where.get(operator), to_site) for operator, to_site in moves]
    found = tuple(
        FragmentMove(place.fragment, place.site, to_site, place.epoch)
        for place, to_site in places
        if place is not None and place.site != to_site
    )
    if not found:
        return None
    affected = around.served.affected_by(found)
    return LeasePlan("migrate", query, found, affected, (), change_ms, cores_of(around, found))
