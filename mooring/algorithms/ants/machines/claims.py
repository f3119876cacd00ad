"""Checks of ants' messages (`coordination/claims.py`): their path must be possible and their content that
of ants. Sites send their own ants to themselves, so an ant from another site is on its way.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.machines.messages import (
    ChainSpec,
    Discouraging,
    RoutingAnt,
    RoutingReturn,
    ScoutAnt,
    Segment,
)
from mooring.algorithms.ants.machines.running_messages import (
    AllHeld,
    AskColony,
    DeployedAnt,
    HoldingAnt,
    KnownColony,
    NotAllHeld,
)
from mooring.algorithms.ants.machines.scout_encoding import LightScout, ReturningScout, WalkingScout
from mooring.contracts.site_machine import Data
from mooring.coordination.claims import (
    are_sites,
    is_site,
    lengths_differ,
    not_negative,
    of_id,
    plain_claims,
)

TASK_COLUMNS, SIDE_COLUMNS = 9, 6
MOST_TASKS = 256
"""Of a chain, and as many sides: what a site reckons of an ant grows with both."""
LEAST_FIGURE, MOST_FIGURE = 1e-12, 1e12
"""Of a task that are not zero: messages per second, seconds, cores, MB. Formulas of queues neither overflow
nor divide by nothing between them."""


def ants_claims(sender: int, receiver: int, sites: int, message: Data) -> str | None:
    if why := plain_claims(sender, receiver, sites, message):
        return why
    match message:
        case KnownColony() if sender != sites:
            return "only the mover may send the problem"
        case AskColony() if receiver != sites:
            return "only the mover answers requests for the problem"
        case ScoutAnt():
            return "only its leader may send a scout with its chain"
        case WalkingScout(scout=scout):
            return _walking(scout, receiver, sites)
        case ReturningScout():
            return _returning(message, receiver, sites)
        case RoutingAnt():
            return _routing(message, sites) or _is_at(message.path[-1], receiver)
        case RoutingReturn(ant=ant, position=position):
            return _routing(ant, sites) or _back(ant.path, position, receiver)
        case Discouraging(destination=destination, path=path, position=position):
            if not are_sites((destination, *path), sites) or len(path) > sites + 1:
                return "its path is invalid"
            return _back(path, position, receiver)
        case DeployedAnt(chain=chain, segments=segments, position=position):
            stops = [*(segment.site for segment in segments), chain.destination, chain.source]
            if not _are_figures((message.variability,)) or message.cost < 0.0:
                return "its cost is not a number"
            return (
                _chain(chain, sites)
                or _segments(segments, len(chain.tasks), sites, whole=True)
                or _at_stop(stops, position, receiver)
            )
        case HoldingAnt(id=id, chain=chain, segments=segments, position=position):
            if id[0] != chain.source or len(message.fragments) != len(chain.tasks):
                return "it holds for another chain than its own"
            return (
                of_id(id, sites)
                or _chain(chain, sites)
                or _segments(segments, len(chain.tasks), sites, whole=True)
                or _at_stop([segment.site for segment in segments], position, receiver)
            )
        case AllHeld(id=id) | NotAllHeld(id=id):
            return of_id(id, sites) or (None if id[0] == receiver else "only the owner of its id may send it")
    return None


def _is_at(site: int, receiver: int) -> str | None:
    return None if site == receiver else f"it is on its way to site {site}"


def _at_stop(stops: Sequence[int], position: int, receiver: int) -> str | None:
    if not 0 <= position < len(stops):
        return f"it is at stop {position} of {len(stops)}"
    return _is_at(stops[position], receiver)


def _back(path: Sequence[int], position: int, receiver: int) -> str | None:
    if not 0 <= position < len(path) - 1:
        return f"it is at site {position} of a way of {len(path)}"
    return _is_at(path[position], receiver)


def _routing(ant: RoutingAnt, sites: int) -> str | None:
    if not are_sites((ant.destination, *ant.path), sites) or len(ant.path) < 2:
        return "its path is invalid"
    if len(set(ant.path)) < len(ant.path) or lengths_differ(ant.path, ant.elapsed_s, ant.age_s):
        return "its path has a cycle or takes no time"
    if ant.destination in ant.path[:-1] or ant.path[0] == ant.destination:
        return "its path visits a site twice"
    times = (*ant.elapsed_s, ant.now_s), (*ant.age_s, ant.clock_s)
    if any(list(each) != sorted(each) or each[0] < 0.0 for each in times):
        return "its times run backwards"
    return _state(ant.state)


def _state(state: int) -> str | None:
    return None if 0 < state < rules.MODULUS else "the state of its generator is invalid"


def _chain(chain: ChainSpec, sites: int) -> str | None:
    if not is_site(chain.source, sites) or not is_site(chain.destination, sites):
        return "its chain lacks a beginning or an end"
    if not 1 <= len(chain.tasks) <= MOST_TASKS or len(chain.sides) > MOST_TASKS:
        return f"its chain has {len(chain.tasks)} tasks and {len(chain.sides)} sides"
    rows = [(row, TASK_COLUMNS) for row in chain.tasks] + [(row, SIDE_COLUMNS) for row in chain.sides]
    if any(len(row) != columns or not _are_figures(row) for row, columns in rows):
        return "its tasks are invalid"
    if not _are_figures((chain.variability, chain.end_weight)):
        return "its variability is not a number"
    return None


def _are_figures(values: Sequence[float]) -> bool:
    return all(value == 0.0 or LEAST_FIGURE <= value <= MOST_FIGURE for value in values)


def _segments(segments: Sequence[Segment], tasks: int, sites: int, *, whole: bool) -> str | None:
    """One after the other, from the chain's first task on."""
    at = 0
    for segment in segments:
        if segment.first != at or not at <= segment.last < tasks or not is_site(segment.site, sites):
            return f"its tasks {segment.first} to {segment.last} are at site {segment.site}"
        if not 0 <= segment.shared <= segment.last + 1 - segment.first:
            return "it shares more than exists"
        if not _are_figures((segment.variability,)):
            return "the variability of its messages is not a number"
        at = segment.last + 1
    return "it has not placed its chain" if whole and at != tasks else None


def _light(scout: LightScout, sites: int, *, whole: bool) -> str | None:
    if not are_sites((scout.source, scout.destination, *scout.path), sites):
        return "it comes from no site"
    if not 1 <= scout.tasks <= MOST_TASKS or not 1 <= scout.greed <= MOST_TASKS or scout.attempt < 0:
        return "its chain is invalid"
    if not not_negative(scout.limit, scout.skipped, scout.astray) or max(scout.skipped, scout.astray) > 1.0:
        return "its state does not follow from its seed"
    if not _are_figures((scout.variability,)):
        return "the variability of its messages is not a number"
    segments = [Segment(*each) for each in scout.segments]
    if scout.placed != (segments[-1].last + 1 if segments else 0):
        return "it has placed other tasks than it states"
    return _state(scout.state) or _segments(segments, scout.tasks, sites, whole=whole)


def _walking(scout: LightScout, receiver: int, sites: int) -> str | None:
    if why := _light(scout, sites, whole=False):
        return why
    if not 1 <= len(scout.path) <= sites + 1:
        return "its path is invalid"
    if scout.placed == scout.tasks:
        return _is_at(scout.destination, receiver)
    return _is_at(scout.path[-1], receiver)


def _returning(back: ReturningScout, receiver: int, sites: int) -> str | None:
    scout, at = back.scout, back.position
    if why := _light(scout, sites, whole=True):
        return why
    segments = [Segment(*each) for each in scout.segments]
    if not -1 <= at < len(segments) or (back.looks_by and at < 0):
        return f"it is at segment {at} of {len(segments)}"
    if at < 0:
        return _is_at(scout.source, receiver)
    if not back.looks_by and (why := _is_at(segments[at].site, receiver)):
        return why
    # What was worked out at the site behind: one border after the other.
    behind = at if back.looks_by else at + 1
    if back.behind and not (
        behind < len(segments)
        and behind > 0
        and len(back.behind) == segments[behind].last - segments[behind - 1].first + 2
    ):
        return f"{len(back.behind)} borders with what is behind segment {at}"
    return None
