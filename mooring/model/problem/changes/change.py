"""A change: something of a problem that becomes different at a given second.

Times are seconds since the run began. A change with `for_s` ends by itself: what it changed is then as it was
before. One without lasts.
"""

from __future__ import annotations

from typing import Any

import msgspec


class RateChange(msgspec.Struct, frozen=True, kw_only=True):
    """A stream's rate: at once, or over some seconds in a straight line."""

    at_s: float
    stream: str
    rate: float
    """Tuples per second."""
    over_s: float = 0.0
    for_s: float | None = None
    """Seconds from `at_s` on until the rate is again what it was before."""


class RateReplay(msgspec.Struct, frozen=True, kw_only=True):
    """A stream's rate, step by step."""

    at_s: float
    stream: str
    rates: tuple[tuple[float, float], ...]
    """(seconds after `at_s`, tuples per second from then on), in increasing order."""


class LatencyChange(msgspec.Struct, frozen=True, kw_only=True):
    """The one-way latency between two sites, in both directions."""

    at_s: float
    link: tuple[str, str]
    latency_ms: float
    for_s: float | None = None


class CapacityChange(msgspec.Struct, frozen=True, kw_only=True):
    """The cores that a site has."""

    at_s: float
    site: str
    capacity: float
    for_s: float | None = None


class SiteLoss(msgspec.Struct, frozen=True, kw_only=True):
    """A site is gone, with everything that runs there; without `for_s` for good."""

    at_s: float
    site: str
    for_s: float | None = None


class QueryChange(msgspec.Struct, frozen=True, kw_only=True):
    """A query comes or leaves. Operators that no query needs then rest."""

    at_s: float
    query: str
    joins: bool


Change = RateChange | RateReplay | LatencyChange | CapacityChange | SiteLoss | QueryChange
Changes = tuple[Change, ...]
"""In the order of their times."""


def subject(change: Change) -> tuple[str, str]:
    """What it changes: two changes of one subject never overlap."""
    match change:
        case RateChange() | RateReplay():
            return "stream", change.stream
        case LatencyChange():
            return "link", " and ".join(sorted(change.link))
        case CapacityChange():
            return "the capacity of site", change.site
        case SiteLoss():
            return "site", change.site
        case QueryChange():
            return "query", change.query


def ends_s(change: Change) -> float:
    """When it no longer changes anything by itself; the instant it happens, if it happens at once and lasts.

    >>> ends_s(RateChange(at_s=60, stream="x", rate=9000, over_s=10))
    70
    """
    match change:
        case RateChange():
            return change.at_s + (change.over_s if change.for_s is None else change.for_s)
        case RateReplay():
            return change.at_s + change.rates[-1][0]
        case SiteLoss(for_s=None):
            return float("inf")
        case LatencyChange() | CapacityChange() | SiteLoss():
            return change.at_s + (change.for_s or 0.0)
        case QueryChange():
            return change.at_s


def in_words(change: Change) -> str:
    """
    >>> in_words(SiteLoss(at_s=150, site="cern", for_s=60))
    'site cern lost for 60 s'
    """
    for_s: float | None = getattr(change, "for_s", None)
    lasting = f" for {for_s:g} s" if for_s is not None else ""
    match change:
        case RateChange():
            over = f" over {change.over_s:g} s" if change.over_s else ""
            return f"stream {change.stream} at {change.rate:g} per s{over}{lasting}"
        case RateReplay():
            return f"stream {change.stream} by a history of {len(change.rates)} rates"
        case LatencyChange():
            return f"link {change.link[0]} to {change.link[1]} at {change.latency_ms:g} ms{lasting}"
        case CapacityChange():
            return f"site {change.site} with {change.capacity:g} cores{lasting}"
        case SiteLoss():
            return f"site {change.site} lost{lasting or ' for good'}"
        case QueryChange():
            return f"query {change.query} {'joins' if change.joins else 'leaves'}"


def change_to_data(change: Change) -> dict[str, Any]:
    """As a file holds it; what is written reads back as the same change."""
    given = {
        field.name: value
        for field in msgspec.structs.fields(change)
        if (value := getattr(change, field.name)) != field.default
    }
    match change:
        case SiteLoss():
            given["lost"] = True
        case QueryChange():
            del given["joins"]
            given["joins" if change.joins else "leaves"] = True
        case RateReplay():
            given["rates"] = [list(pair) for pair in change.rates]
        case LatencyChange():
            given["link"] = list(change.link)
    return given
