"""Checks of messages about plans, the directory and leases (`coordination/claims.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mooring.algorithms.overlay.leases.adaptation_messages import Arrives, LatencyIs, NeedPlan
from mooring.algorithms.overlay.leases.lease_messages import (
    Held,
    HoldLocks,
    KnownOperators,
    LeasePlan,
    LockDenied,
    LockGranted,
    LockLost,
    Released,
    ReleaseLock,
    RequestLock,
)
from mooring.algorithms.overlay.protocol import messages as m
from mooring.algorithms.overlay.protocol.directory import (
    WHOLE,
    Advert,
    Advertise,
    Answer,
    Sampled,
    Search,
    Splits,
    is_node,
)
from mooring.algorithms.overlay.search.plan_choice import CongestedLink
from mooring.algorithms.overlay.search.shared_operator import SharedOperator, upstream_first
from mooring.contracts.site_machine import Data
from mooring.coordination.claims import (
    are_sites,
    claims_to_mover,
    is_place,
    is_site,
    lengths_differ,
    no_number,
    not_negative,
    of_id,
    of_place,
)

MOST_OPERATORS = 1_000
"""Of one plan."""
Why = str | None


def overlay_claims(dimensions: int) -> Callable[[int, int, int, Data], Why]:
    """`dimensions`: of coordinates."""
    attributes = dimensions + 2

    def claims(sender: int, receiver: int, sites: int, message: Data) -> Why:
        if why := no_number(message, infinite=True) or claims_to_mover(sender, sites, message):
            return why
        if isinstance(message, KnownOperators):
            return None if sender == sites else "only the mover may send the operators"
        return (
            _of_directory(sender, sites, attributes, message)
            or _of_exchange(sender, sites, dimensions, message)
            or _of_plans(sender, sites, dimensions, message)
            or _of_lease(sender, sites, message)
        )

    return claims


# The directory.


def _of_directory(sender: int, sites: int, attributes: int, message: Data) -> Why:
    match message:
        case Advertise(advert=advert, low=low, high=high, hops=hops):
            if not is_node(low, high, sites) or hops < 0:
                return "no box of the directory"
            return _adverts((advert,), sites, attributes)
        case Search(asker=asker, ranges=ranges, low=low, high=high):
            if not is_node(low, high, sites) or not is_site(asker, sites):
                return "no box of the directory"
            if not 0 < message.weight <= WHOLE or min(message.hops, message.most) < 0:
                return "no part of a search"
            if len(ranges) > 2 * attributes or not all(0 <= r.attribute < attributes for r in ranges):
                return "no attribute of a site"
        case Answer(adverts=adverts, weight=weight, hops=hops):
            if not 0 <= weight <= WHOLE or hops < 0:
                return "no part of a search"
            return _adverts(adverts, sites, attributes)
        case Sampled(low=low, high=high, points=points, count=count):
            if low != sender or not is_node(low, high, sites):
                return f"only site {low} may report its half"
            if count < 0 or any(len(point) != attributes for point in points):
                return "no sample of adverts"
        case Splits(splits=splits):
            if len(splits) > sites or not splits or splits[0].low != sender:
                return "only the first site of a half may split it"
            whole = splits[0]
            if not all(
                is_node(s.low, s.high, sites)
                and whole.low <= s.low < s.high <= whole.high
                and 0 <= s.attribute < attributes
                for s in splits
            ):
                return "no split of its half"
    return None


def _adverts(adverts: Sequence[Advert], sites: int, attributes: int) -> Why:
    if not are_sites((advert.site for advert in adverts), sites):
        return "an advert of no site"
    if any(len(advert.attributes) != attributes for advert in adverts):
        return "an advert of other attributes"
    if not all(advert.note is not None and is_place(advert.note, attributes - 2) for advert in adverts):
        return "an advert without a coordinate"
    return None


# The exchange of plans.


def _of_exchange(sender: int, sites: int, dimensions: int, message: Data) -> Why:
    match message:
        case m.EchoBack(coordinate=coordinate):
            return None if is_place(coordinate, dimensions) else "no coordinate"
        case m.WhereIs() | m.Describe() | m.Leave() | m.ReleaseRoom():
            return _own_round(sender, message.round)
        case m.RunsAt(site=site, round=round_):
            return _own_round(sender, round_) or _all(sites, (site,), or_nowhere=True)
        case m.FoundAt(site=site):
            return _all(sites, (site,), or_nowhere=True)
        case m.Description(operator=operator, hosted=hosted, here=here):
            if here.site != sender or (hosted is not None and hosted.operator.operator != operator):
                return "it describes another object"
            told = _candidates((here,), sites, dimensions)
            return told or (None if hosted is None else _hosted(hosted, sites))
        case m.Take(operator=own, near_sites=near):
            return _own_round(sender, message.round) or _operators((own,), sites) or _all(sites, near)
        case m.Taken(latency_ms=pairs):
            return _all(sites, (s for s, _ in pairs)) or _times(ms for _, ms in pairs)
        case m.Commit(hosted=hosted):
            return _own_round(sender, message.round) or _hosted(hosted, sites)
        case m.PublisherMoved(site=site, latency_ms=ms):
            return _all(sites, (site,)) or _times((ms,))
    return None


def _of_plans(sender: int, sites: int, dimensions: int, message: Data) -> Why:
    match message:
        case m.Prepare(operator=own):
            told = (*message.sources, *message.ends, *message.homes, *message.found)
            agents = [agent for _, agent in (*message.publishers, *message.subscribers)]
            if why := _own_round(sender, message.round):
                return why
            if lengths_differ(own.publishers, {operator for operator, _ in message.publishers}):
                return "agents of other publishers"
            hosted = None if message.hosted is None else _hosted(message.hosted, sites)
            return (
                _operators((own,), sites)
                or _all(sites, agents)
                or _all(sites, (message.home,), or_nowhere=True)
                or _candidates(told, sites, dimensions)
                or hosted
            )
        case m.Refer(candidates=candidates):
            return _candidates(candidates, sites, dimensions)
        case m.AheadIs(step=step, ahead_ms=ahead):
            return _times(ms for _, each in ahead for ms in each) or (None if step >= 0 else "no step")
        case m.PlansOf():
            return _plans(message, sites, dimensions)
    return None


def _plans(plans: m.PlansOf, sites: int, dimensions: int) -> Why:
    own, rows = plans.operators, plans.sites
    if not own or own[-1].operator != plans.operator or lengths_differ(own, plans.homes):
        return "plans of other operators"
    columns = (plans.latency_ms, plans.cost, *(ms for _, ms in plans.settled_ms))
    if any(lengths_differ(own, row) for row in rows) or lengths_differ(rows, *columns):
        return "plans that are not equally long"
    if not all(is_place(place, dimensions) for _, place in plans.places) or plans.explored < 0:
        return "no coordinate"
    return (
        _operators(own, sites)
        or _all(sites, (site for row in rows for site in row))
        or _all(sites, plans.homes, or_nowhere=True)
        or _all(sites, (site for site, _ in plans.places))
        or _times(ms for column in columns for ms in column)
    )


def _own_round(sender: int, round_: m.Round) -> Why:
    return None if round_.coordinator == sender else f"only site {round_.coordinator} may coordinate"


def _hosted(hosted: m.HostedOperator, sites: int) -> Why:
    readers = hosted.subscribers
    return (
        _operators((hosted.operator,), sites)
        or _all(sites, (site for _, site in hosted.publishers), or_nowhere=True)
        or _all(sites, (reader.site for reader in readers), or_nowhere=True)
        or _times(ms for reader in readers for _, ms in reader.rest_ms)
        or _times((hosted.latency_ms, *(ms for _, ms in hosted.limits_ms)))
    )


def _operators(operators: Sequence[SharedOperator], sites: int) -> Why:
    if len({own.operator for own in operators}) < len(operators) or len(operators) > MOST_OPERATORS:
        return "operators twice, or too many"
    for own in operators:
        ends = [end.site for end in own.ends]
        if why := _all(sites, (*ends, own.pinned_site), or_nowhere=True):
            return why
        if why := _all(sites, (source.site for source in own.sources)):
            return why
        needs = (own.output_rate, own.cores, own.memory_mb, own.tuples)
        times = [ms for end in own.ends for ms in (end.limit_ms, end.beyond_ms)]
        if not not_negative(*needs, *times, *(source.rate for source in own.sources)):
            return f"operator {own.operator} has a negative need"
    try:
        upstream_first(operators)
    except ValueError as error:
        return str(error)
    return None


def _candidates(found: Sequence[m.CandidateSite], sites: int, dimensions: int) -> Why:
    if not all(is_place(each.coordinate, dimensions) for each in found):
        return "no coordinate"
    return _all(sites, (each.site for each in found))


def _all(sites: int, numbers: Iterable[int], *, or_nowhere: bool = False) -> Why:
    return None if are_sites(numbers, sites, or_nowhere=or_nowhere) else "it names an unknown site"


def _times(values: Iterable[float]) -> Why:
    return None if not_negative(*values) else "a time below zero"


# Leases.


def _of_lease(sender: int, sites: int, message: Data) -> Why:
    match message:
        case RequestLock(id=id, plan=plan):
            return of_id(id, sites) or lease_plan(plan, sites)
        case HoldLocks(id=id, locks=locks):
            if id[0] != sender or locks < 1:
                return f"only site {id[0]} may hold what it requested"
            return of_id(id, sites)
        case ReleaseLock(id=id, places=places):
            if id[0] != sender or not all(of_place(place, sites) for place in places):
                return f"only site {id[0]} may release what it requested"
            return of_id(id, sites)
        case LockGranted(id=id, asked=asked, latency_ms=known):
            ends = [end for a, b, _ in known for end in (a, b)]
            return (
                of_id(id, sites)
                or _all(sites, (*ends, *(site for _, site, _ in asked)))
                or _times((*(ms for _, _, ms in known), message.epoch + 1))
            )
        case LockDenied(id=id, by=by, place=place):
            if place is not None and not of_place(place, sites):
                return "its place is unknown"
            return of_id(id, sites) or (None if by is None else lease_plan(by, sites))
        case Held(id=id) | LockLost(id=id) | Released(id=id):
            return of_id(id, sites)
        case Arrives(latency_ms=ms):
            return _times((ms,))
        case LatencyIs(latency_ms=ms, over_links_ms=over_links_ms):
            return _times((ms, over_links_ms))
        case NeedPlan(congested=congested, avoid=avoid, instead_of=moves):
            return (
                _congested(congested, sites)
                or _times((message.latency_ms,))
                or _all(sites, (to for _, to in moves), or_nowhere=True)
                or _all(sites, message.asked)
                or ("sites twice" if len(set(message.asked)) < len(message.asked) else None)
                or (None if avoid is None else lease_plan(avoid, sites))
            )
    return None


def _congested(links: Sequence[CongestedLink], sites: int) -> Why:
    if not all(link.crossings >= 0 for link in links):
        return "a link with a negative number of crossings"
    return _all(sites, (end for link in links for end in (link.a, link.b)))


def lease_plan(plan: LeasePlan, sites: int) -> Why:
    ends = [end for move in plan.moves for end in (move.from_site, move.to_site)]
    if len({move.fragment for move in plan.moves}) < len(plan.moves) or len(plan.moves) > MOST_OPERATORS:
        return "it moves a fragment twice, or too many"
    if any(move.fragment < 0 or move.epoch < 0 for move in plan.moves):
        return "it moves an unknown fragment"
    if any(not cores >= 0.0 for _, cores in plan.cores):
        return "its need is negative"
    return _all(sites, ends, or_nowhere=True)
