"""Scouting ants: a hypothetical placement along a path, and balance on the way back (section 3.7).

At every site a scout places as many of the next tasks as its greediness and its load limit allow, or passes
it by. As long as it has placed none anew, it shares next ones that run there already for another chain, at no
further load (section 3.10); later ones it does not, since what feeds them would then run for nobody. When all
have a site it goes to the destination, and from there back over the sites it has chosen: one task may go to
the site before or after, where the two together then cost less.
"""

from __future__ import annotations

import math

import msgspec

from mooring.placement.ants import rules
from mooring.placement.ants.ant_params import AntParams
from mooring.protocols.ants.deployed import Deployed
from mooring.protocols.ants.messages import ChainSpec, ScoutAnt, ScoutReturn, Segment


def new_scout(chain: ChainSpec, attempt: int, number: int, seed: int, params: AntParams) -> ScoutAnt:
    """Greediness, load limit and the share of sites it passes by are drawn for every scout."""
    state = rules.next_random(rules.ant_seed(seed, chain.number, number))
    greed = 1 + int(state / rules.MODULUS * len(chain.tasks))
    state = rules.next_random(state)
    limit = params.least_limit + state / rules.MODULUS * (params.most_limit - params.least_limit)
    state = rules.next_random(state)
    skipped = state / rules.MODULUS * params.most_skipped
    return ScoutAnt(
        chain, attempt, number, state, greed, limit, skipped, (chain.source,), (), 0, chain.variability
    )


def visit(scout: ScoutAnt, site: int, deployed: Deployed) -> ScoutAnt:
    """Place here what goes here."""
    if not has_arrived(scout, site):
        scout = msgspec.structs.replace(scout, state=rules.next_random(scout.state))
        if scout.state / rules.MODULUS < scout.skipped:
            return scout
    elif scout.segments and scout.segments[0].site == site:
        return scout  # it began here: a site has one segment of a chain
    chain, first = scout.chain, scout.placed
    before = scout.segments[-1].site if scout.segments else chain.source
    waits = not (chain.from_fragment and first == 0 and site == chain.source)
    shared = 0
    if all(segment.is_all_shared for segment in scout.segments):
        shared = deployed.tasks_that_run(chain, first, len(chain.tasks) - 1)
    most = max(min(scout.greed, len(chain.tasks) - first), shared)
    for many in range(most, max(shared - 1, 0), -1):
        last = first + many - 1
        cost, effect, left = deployed.cost(
            chain, first, last, scout.variability, before, waits=waits, limit=scout.limit, shared=shared
        )
        if cost < math.inf:
            segment = Segment(site, first, last, scout.variability, cost, effect, shared)
            return msgspec.structs.replace(
                scout, segments=(*scout.segments, segment), placed=last + 1, variability=left
            )
    return scout


def has_arrived(scout: ScoutAnt, site: int) -> bool:
    """A chain may begin where it ends, and still have its tasks elsewhere."""
    return site == scout.chain.destination and len(scout.path) > 1


def turned(scout: ScoutAnt, deployed: Deployed) -> ScoutReturn:
    """At the destination, with all tasks placed."""
    end_cost = deployed.end_cost(scout.chain, scout.segments[-1].site)
    return ScoutReturn(scout, end_cost, len(scout.segments) - 1)


def balanced(back: ScoutReturn, deployed: Deployed) -> ScoutReturn:
    """At the site of a segment: settle the border with the one behind it, and prepare that with the one
    before."""
    scout, at = back.scout, back.position
    segments = list(scout.segments)
    if back.shifted:
        segments[at : at + 2] = _settled(scout, at, back.shifted, deployed)
        scout = msgspec.structs.replace(scout, segments=tuple(segments))
    shifted = () if at == 0 else tuple(_behind(scout, at, shift, deployed) for shift in (-1, 1))
    return ScoutReturn(scout, back.end_cost, at - 1, shifted)


def _behind(scout: ScoutAnt, at: int, shift: int, deployed: Deployed) -> tuple[float, float]:
    """Cost and effect here if the first task went to the site before (-1), or its last one came here (1).
    What is shared stays where it runs."""
    own, other = scout.segments[at], scout.segments[at - 1]
    first, last = own.first - shift, other.last - shift
    if first > own.last or last < other.first or own.shared or other.shared:
        return math.inf, 0.0
    return deployed.cost(
        scout.chain, first, own.last, own.variability, other.site, waits=True, limit=scout.limit
    )[:2]


def _settled(
    scout: ScoutAnt, at: int, shifted: tuple[tuple[float, float], ...], deployed: Deployed
) -> tuple[Segment, Segment]:
    """This segment and the one behind it, as they cost least."""
    chain, own, behind = scout.chain, scout.segments[at], scout.segments[at + 1]
    earlier = scout.segments[at - 1].site if at > 0 else chain.source
    waits = not (chain.from_fragment and at == 0 and own.site == chain.source)
    best, found = own.cost + behind.cost, (own, behind)
    for shift, (cost, effect) in zip((-1, 1), shifted, strict=True):
        last = own.last - shift
        if not cost < math.inf or last < own.first:
            continue
        here = deployed.cost(chain, own.first, last, own.variability, earlier, waits=waits, limit=scout.limit)
        if cost + here[0] < best:
            best = cost + here[0]
            found = (
                msgspec.structs.replace(own, last=last, cost=here[0], effect=here[1]),
                msgspec.structs.replace(behind, first=behind.first - shift, cost=cost, effect=effect),
            )
    return found


def reported(back: ScoutReturn) -> tuple[float, float]:
    """Cost and effect of the whole placement."""
    cost, effect = back.end_cost, 0.0
    for segment in back.scout.segments:
        cost += segment.cost
        effect += segment.effect
    return cost, effect
