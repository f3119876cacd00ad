"""Scouting ants: a hypothetical placement along a path, and balance on the way back (section 3.7).

At every site a scout places as many of the next tasks as its greediness and its load limit allow, or passes
it by. As long as it has placed no new one, it shares next ones that run there already for another chain, at
no further load (section 3.10); later ones it does not, since their inputs would then run without a reader.
When all have a site it goes to the destination, and from there back over the sites it has chosen, balancing:
tasks go over to the site before or after, all of them if need be, where the two together then cost least; and
one neighbour of each site, drawn, may take over from it. There every scout goes up to the highest load limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.machines.colony_params import ENDLESS
from mooring.algorithms.ants.machines.deployed import Deployed
from mooring.algorithms.ants.machines.messages import ChainSpec, ScoutAnt, ScoutReturn, Segment


def new_scout(chain: ChainSpec, attempt: int, number: int, seed: int, params: AntParams) -> ScoutAnt:
    """Greediness, load limit, the share of sites it passes by and what it leaves to chance are drawn for
    every scout."""
    state = rules.next_random(rules.ant_seed(seed, chain.number, number))
    greed = 1 + int(state / rules.MODULUS * len(chain.tasks))
    state = rules.next_random(state)
    limit = params.least_limit + state / rules.MODULUS * (params.most_limit - params.least_limit)
    state = rules.next_random(state)
    skipped = state / rules.MODULUS * params.most_skipped
    state = rules.next_random(state)
    astray = state / rules.MODULUS * params.most_astray
    return ScoutAnt(
        chain,
        attempt,
        number,
        state,
        greed,
        limit,
        skipped,
        astray,
        (chain.source,),
        (),
        0,
        chain.variability,
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


def balanced(
    back: ScoutReturn, site: int, neighbours: Sequence[int], deployed: Deployed, limit: float
) -> tuple[int, ScoutReturn]:
    """Where it goes next, and as what.

    At the site of a segment the border with the one behind is settled, and that with the one before prepared.
    Then it goes on by way of a neighbour, which takes the segment over if it costs less there.
    """
    if back.looks_by:
        return _on(_looked_by(back, site, deployed, limit))
    scout, at = back.scout, back.position
    if back.behind:
        back, is_left_out = _settled(back, deployed, limit)
        if is_left_out:
            return _on(back)
        scout = back.scout
    own = scout.segments[at]
    other = -1
    if not own.shared and neighbours:
        state = rules.next_random(scout.state)
        scout = msgspec.structs.replace(scout, state=state)
        other = neighbours[int(state / rules.MODULUS * len(neighbours))]
    onward = deployed.onward_cost(scout.chain, _next(scout, at))
    behind = _behind(scout, at, deployed, limit)
    if other < 0 or not _may_go(scout, at, other):
        return _on(ScoutReturn(scout, back.end_cost, at, behind))
    return other, ScoutReturn(scout, back.end_cost, at, behind, looks_by=True, onward=onward)


def _on(back: ScoutReturn) -> tuple[int, ScoutReturn]:
    """To the site of the segment before, or home."""
    at = back.position - 1
    to = back.scout.segments[at].site if at >= 0 else back.scout.chain.source
    return to, msgspec.structs.replace(back, position=at, looks_by=False, onward=0.0)


def _next(scout: ScoutAnt, at: int) -> Segment | None:
    return scout.segments[at + 1] if at + 1 < len(scout.segments) else None


def _may_go(scout: ScoutAnt, at: int, other: int) -> bool:
    """A site has one segment of a chain. What is behind the chain, and queues where it is, is not asked what
    it would cost without it."""
    if any(segment.site == other for segment in scout.segments):
        return False
    return not _is_bound(scout, at, scout.segments[at].site, other)


def _is_bound(scout: ScoutAnt, at: int, *sites: int) -> bool:
    chain = scout.chain
    return chain.to_fragment and at + 1 == len(scout.segments) and chain.destination in sites


def _cost(
    chain: ChainSpec,
    site: int,
    first: int,
    last: int,
    variability: float,
    before: int,
    deployed: Deployed,
    limit: float,
) -> tuple[float, float]:
    waits = not (chain.from_fragment and first == 0 and site == chain.source)
    cost, effect, _ = deployed.cost(chain, first, last, variability, before, waits=waits, limit=limit)
    return min(cost, ENDLESS), effect


def _looked_by(back: ScoutReturn, site: int, deployed: Deployed, limit: float) -> ScoutReturn:
    """At a neighbour: the segment stays here if that costs less, its way onward included."""
    scout, at = back.scout, back.position
    chain, own = scout.chain, scout.segments[at]
    before = scout.segments[at - 1].site if at else chain.source
    cost, effect = _cost(chain, site, own.first, own.last, own.variability, before, deployed, limit)
    onward = deployed.onward_cost(chain, _next(scout, at))
    if not cost + onward < own.cost + back.onward:
        return back
    here = msgspec.structs.replace(own, site=site, cost=cost, effect=effect)
    scout = msgspec.structs.replace(scout, segments=(*scout.segments[:at], here, *scout.segments[at + 1 :]))
    moved = _with_way(msgspec.structs.replace(back, scout=scout), at, onward - back.onward)
    return msgspec.structs.replace(moved, behind=_behind(moved.scout, at, deployed, limit))


def _with_way(back: ScoutReturn, at: int, more: float) -> ScoutReturn:
    """The way to what comes behind a segment costs so much more."""
    segments = list(back.scout.segments)
    if at + 1 == len(segments):
        return msgspec.structs.replace(back, end_cost=back.end_cost + more)
    segments[at + 1] = msgspec.structs.replace(segments[at + 1], cost=segments[at + 1].cost + more)
    return msgspec.structs.replace(back, scout=msgspec.structs.replace(back.scout, segments=tuple(segments)))


def _behind(scout: ScoutAnt, at: int, deployed: Deployed, limit: float) -> tuple[tuple[float, float], ...]:
    """For the site before: cost and effect here by where the tasks here begin. What is shared stays where it
    runs."""
    if at == 0 or scout.segments[at].shared or scout.segments[at - 1].shared:
        return ()
    chain, own, other = scout.chain, scout.segments[at], scout.segments[at - 1]
    earlier = scout.segments[at - 2].site if at > 1 else chain.source
    found = [_cost(chain, own.site, other.first, own.last, other.variability, earlier, deployed, limit)]
    for first in range(other.first + 1, own.last + 1):
        if first == own.first:
            found.append((own.cost, own.effect))
        else:
            found.append(
                _cost(chain, own.site, first, own.last, own.variability, other.site, deployed, limit)
            )
    if _is_bound(scout, at, own.site, other.site):
        return (*found, (ENDLESS, 0.0))
    return (*found, (-deployed.onward_cost(chain, _next(scout, at)), 0.0))


def _settled(back: ScoutReturn, deployed: Deployed, limit: float) -> tuple[ScoutReturn, bool]:
    """This segment and the one behind it as they cost least; and whether this one has nothing left."""
    scout, at = back.scout, back.position
    chain, own, behind = scout.chain, scout.segments[at], scout.segments[at + 1]
    earlier = scout.segments[at - 1].site if at > 0 else chain.source
    onward = deployed.onward_cost(chain, _next(scout, at + 1))
    least, border, kept = own.cost + behind.cost, behind.first, ((own.cost, own.effect), (0.0, 0.0))
    for first, (cost, effect) in enumerate(back.behind, own.first):
        if first == behind.first or not cost < ENDLESS:
            continue
        there = (0.0, 0.0)
        if first > own.first:
            there = _cost(chain, own.site, own.first, first - 1, own.variability, earlier, deployed, limit)
        more = onward if first > behind.last else 0.0
        if cost + there[0] + more < least:
            least, border, kept = cost + there[0] + more, first, (there, (cost, effect))
    if border == behind.first:
        return back, False
    before, after = scout.segments[:at], scout.segments[at + 2 :]
    if border > behind.last:
        was = -back.behind[-1][0]
        grown = msgspec.structs.replace(own, last=behind.last, cost=kept[0][0], effect=kept[0][1])
        scout = msgspec.structs.replace(scout, segments=(*before, grown, *after))
        return _with_way(msgspec.structs.replace(back, scout=scout, behind=()), at, onward - was), False
    taken = msgspec.structs.replace(behind, first=border, cost=kept[1][0], effect=kept[1][1])
    if border == own.first:
        taken = msgspec.structs.replace(taken, variability=own.variability)
        scout = msgspec.structs.replace(scout, segments=(*before, taken, *after))
        return msgspec.structs.replace(back, scout=scout, behind=()), True
    rest = msgspec.structs.replace(own, last=border - 1, cost=kept[0][0], effect=kept[0][1])
    scout = msgspec.structs.replace(scout, segments=(*before, rest, taken, *after))
    return msgspec.structs.replace(back, scout=scout, behind=()), False


def reported(back: ScoutReturn) -> tuple[float, float]:
    """Cost and effect of the whole placement."""
    cost, effect = back.end_cost, 0.0
    for segment in back.scout.segments:
        cost += segment.cost
        effect += segment.effect
    return cost, effect
