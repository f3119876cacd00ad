"""The predicted effect of a leased plan: latencies, loads, and tuples under way that it saves (decision
0041).

Computed from the replies of the sites that granted its locks. On links it is Little's law: tuples per second
times the time that they take. At the sites that something leaves or goes to it is what waits there, and where
more comes than can be done, what gathers over the time that a decision is made for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mooring.algorithms.overlay.leases.copies import cores_of
from mooring.algorithms.overlay.leases.lease_messages import LeasePlan, LockGranted
from mooring.algorithms.overlay.leases.revalidation import Measured, link
from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings, Served
from mooring.coordination.move_messages import FragmentMove, Promise

HORIZON_S = 600.0
"""For which a decision is made; the guards' figure."""


def promised(
    plan: LeasePlan,
    around: OverlaySurroundings,
    granted: Iterable[tuple[int, LockGranted]],
    measured: Measured,
    latency_ms: Mapping[int, float],
) -> Promise:
    """`granted`: with the site that said it; `latency_ms`: of the affected queries, after the plan."""
    served, after = around.after(plan)
    now = {number: place.site for number, place in around.where.items()}
    saved = _on_links(around.served, now, measured) - _on_links(served, after, measured)
    loads: dict[int, float] = {}
    concerned = {site for move in plan.moves for site in (move.from_site, move.to_site)}
    for site, said in granted:
        if site in concerned and site not in loads and said.usable_cores > 0.0:
            loads[site] = said.used_cores + _arriving_cores(plan, site)
            saved += _waiting(said.used_cores / said.usable_cores, _arriving(around.served, now, site))
            saved -= _waiting(loads[site] / said.usable_cores, _arriving(served, after, site))
    return Promise(saved, tuple(sorted(loads.items())), tuple(sorted(latency_ms.items())))


def _arriving_cores(plan: LeasePlan, site: int) -> float:
    cores = dict(plan.cores)
    come = sum(cores.get(move.fragment, 0.0) for move in plan.moves if move.to_site == site)
    return come - sum(cores.get(move.fragment, 0.0) for move in plan.moves if move.from_site == site)


def _on_links(served: Served, sites: Mapping[int, int], measured: Measured) -> float:
    """Tuples on the way to operators whose links were measured."""
    total = 0.0
    for number, own in served.own.items():
        here = sites.get(number)
        ends = [sites.get(publisher) for publisher in own.publishers] + [s.site for s in own.sources]
        hops = [measured.get(link(end, here), 0.0) for end in ends if end is not None and here is not None]
        total += own.tuples * max(hops, default=0.0) / 1e3
    return total


def _arriving(served: Served, sites: Mapping[int, int], site: int) -> float:
    return sum(own.tuples for number, own in served.own.items() if sites.get(number) == site)


def _waiting(used: float, arriving: float) -> float:
    """Tuples at a site that is used to this share."""
    most = arriving * HORIZON_S / 2.0
    if used < 1.0:
        return min(used / (1.0 - used), most) if used > 0.0 else 0.0
    return max(most * (1.0 - 1.0 / used), arriving)


def migration(
    around: OverlaySurroundings,
    query: int,
    moves: Sequence[tuple[int, int]],
    change_ms: tuple[tuple[int, float], ...] = (),
) -> LeasePlan | None:
    """A stored plan as a lease is requested for it: from where operators are known to run, to where they
    shall run. None where there is nothing to do.
    """
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
