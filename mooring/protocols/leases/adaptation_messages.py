"""What sites tell each other to notice that a query is late, and to find who has a plan for it."""

from __future__ import annotations

import msgspec

from mooring.placement.overlay.plan_choice import CongestedLink
from mooring.protocols.leases.lease_messages import LeasePlan


class Arrives(msgspec.Struct, frozen=True, tag=True):
    """To the hosts of what reads an operator: how long results take to get to it."""

    operator: int
    latency_ms: float


class LatencyIs(msgspec.Struct, frozen=True, tag=True):
    """From a query's end to the hosts of its operators."""

    query: int
    latency_ms: float


class NeedPlan(msgspec.Struct, frozen=True, tag=True):
    """To the host of the next operator downstream, whose plans move more: is there one for this query?"""

    query: int
    latency_ms: float
    congested: tuple[CongestedLink, ...]
    avoid: LeasePlan | None = None
    """The lease that was in the way of the plan that there was."""
    instead_of: tuple[tuple[int, int], ...] = ()
    """The moves of that plan: the last resort is to make them with copies."""


ToAdaptation = Arrives | LatencyIs | NeedPlan


class LinkMeasured(msgspec.Struct, frozen=True, tag=True):
    """A request: this site's monitor has measured a link."""

    site: int
    latency_ms: float


class LoadMeasured(msgspec.Struct, frozen=True, tag=True):
    """A request: an operator here needs so much now."""

    operator: int
    cores: float


class Unsatisfied(msgspec.Struct, frozen=True, tag=True):
    """An output: nobody has a plan that brings a query back within its limit, or relieves this site (-1)."""

    query: int
    reason: str
