"""Checks of what members claim, made where a message arrives, before a machine receives it.

Types guarantee that a field is a number. The checks here guarantee that it is a possible one: sites exist,
lists that belong together are equally long, nothing is NaN, and a message in the name of a member comes from
that member. Each function returns why a message cannot be, or None. What depends on a machine's state
(whether it awaits an answer, which operators exist) the machine checks itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from mooring.contracts.site_machine import Claims, Data
from mooring.coordination.gossip import Entries, Entry, KnownVersions, Reply
from mooring.coordination.move_messages import (
    NOWHERE,
    Answer,
    FromMover,
    Inquiry,
    ProposalId,
    Proposed,
    StartedAt,
    StatedLatencies,
)
from mooring.coordination.survey import Echoed, NetworkFigures, SiteFigures
from mooring.model.network.coordinate import Coordinate
from mooring.model.network.vivaldi import VivaldiParams

LARGEST_MS = VivaldiParams().largest_latency_ms
MOST = 1e300
"""The largest number that may be said. Machines add such numbers up, and the sum is one still."""


def plain_claims(sender: int, receiver: int, sites: int, message: Data) -> str | None:
    """What holds of every protocol."""
    return no_number(message) or claims_to_mover(sender, sites, message)


def only_from_mover(sender: int, sites: int, message: Data) -> str | None:
    if isinstance(message, FromMover | StatedLatencies) and sender != sites:
        return f"only the mover may send {type(message).__name__}"
    return None


# Values.


def is_site(number: int, sites: int, *, or_nowhere: bool = False) -> bool:
    return (NOWHERE if or_nowhere else 0) <= number < sites


def are_sites(numbers: Iterable[int], sites: int, *, or_nowhere: bool = False) -> bool:
    return all(is_site(number, sites, or_nowhere=or_nowhere) for number in numbers)


def is_place(coordinate: Coordinate, dimensions: int) -> bool:
    return coordinate.unusable(dimensions, LARGEST_MS) is None


def no_number(value: Any, *, infinite: bool = False) -> str | None:
    """Where in a message there is a float that is no number, or one beyond all sense; None if nowhere.

    `infinite`: this protocol says infinity for no limit.
    """
    if isinstance(value, float):
        if abs(value) <= MOST or (infinite and abs(value) == math.inf):
            return None
        return f"{value} is not a number"
    if isinstance(value, tuple):
        return next((why for each in value if (why := no_number(each, infinite=infinite))), None)
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            if why := no_number(getattr(value, name), infinite=infinite):
                return f"{name}: {why}" if ": " not in why else why
    return None


def not_negative(*values: float) -> bool:
    return all(value >= 0.0 for value in values)


# The contract with the mover.


def of_id(id: ProposalId, sites: int) -> str | None:
    site, incarnation, number = id
    return (
        None
        if is_site(site, sites) and min(incarnation, number) >= 0
        else f"{id} is not the id of a proposal"
    )


def of_place(place: StartedAt, sites: int) -> bool:
    return place.fragment >= 0 and place.epoch >= 0 and is_site(place.site, sites, or_nowhere=True)


def claims_to_mover(sender: int, sites: int, message: Data) -> str | None:
    """Of proposals and of questions about them, and of the mover's own words."""
    if why := only_from_mover(sender, sites, message):
        return why
    if isinstance(message, Proposed):
        return _proposed(sender, sites, message)
    if isinstance(message, Inquiry | Answer):
        return of_id(message.id, sites)
    return None


def _proposed(sender: int, sites: int, proposed: Proposed) -> str | None:
    plan = proposed.plan
    if proposed.id[0] != sender:
        return f"only site {proposed.id[0]} may propose {proposed.id}"
    if not are_sites(proposed.lease.holders, sites):
        return "a holder is not a site"
    if not all(of_place(place, sites) for place in plan.made_from):
        return "it was made from unknown places"
    ends = [end for move in plan.moves for end in (move.from_site, move.to_site)]
    if not are_sites(ends, sites, or_nowhere=True):
        return "it moves a fragment to an unknown site"
    return of_id(proposed.id, sites)


# The survey, and the gossip below it.


def survey_claims(dimensions: int) -> Claims:
    def claims(sender: int, receiver: int, sites: int, message: Data) -> str | None:
        return plain_claims(sender, receiver, sites, message) or _of_survey(sites, dimensions, message)

    return claims


def _of_survey(sites: int, dimensions: int, message: Data) -> str | None:
    match message:
        case KnownVersions(versions=versions):
            if len(versions) != sites or min(versions, default=0) < 0:
                return f"versions of {len(versions)} sites, there are {sites}"
        case Reply(newer=newer, wanted=wanted):
            if len(wanted) > sites or not are_sites(wanted, sites):
                return "it requests figures of an unknown site"
            return _entries(newer, sites, dimensions)
        case Entries(entries=entries):
            return _entries(entries, sites, dimensions)
        case Echoed(coordinate=coordinate):
            return None if is_place(coordinate, dimensions) else "no coordinate"
        case NetworkFigures(sites=all_figures):
            if len(all_figures) > sites:
                return "figures of more sites than there are"
            told = [Entry(site, 1, figures) for site, figures in all_figures]
            return _entries(told, sites, dimensions)
    return None


def _entries(entries: Sequence[Entry[object]], sites: int, dimensions: int) -> str | None:
    if len(entries) > sites or not are_sites((entry.owner for entry in entries), sites):
        return "figures of an unknown site"
    if any(entry.version < 1 for entry in entries):
        return "figures without a version"
    figures = [entry.value for entry in entries if isinstance(entry.value, SiteFigures)]
    if not all(is_place(each.coordinate, dimensions) for each in figures):
        return "no coordinate"
    pairs = [pair for each in figures for pair in each.latency_ms]
    if not are_sites((peer for peer, _ in pairs), sites) or not not_negative(*(ms for _, ms in pairs)):
        return "a latency of an unknown link"
    return None


# Lists that go together.


def lengths_differ(one: Collection[object], *others: Collection[object]) -> bool:
    return any(len(other) != len(one) for other in others)
