"""Messages of sites that detect late queries and look for a site with a plan for them."""

from __future__ import annotations

import msgspec

from mooring.algorithms.overlay.leases.lease_messages import LeasePlan
from mooring.algorithms.overlay.search.plan_choice import CongestedLink
from mooring.algorithms.overlay.search.shared_operator import SharedOperator


class Arrives(msgspec.Struct, frozen=True, tag=True):
    """To the hosts of what reads an operator: how long results take to get to it."""

    operator: int
    latency_ms: float


class LatencyIs(msgspec.Struct, frozen=True, tag=True):
    """From a query's end to the hosts of its operators."""

    query: int
    latency_ms: float
    """As it was measured; over links and channels where nobody measures it."""
    over_links_ms: float
    """What of it is due to where operators are, by the latencies that sites have measured."""


class NeedPlan(msgspec.Struct, frozen=True, tag=True):
    """To the host of the next operator downstream, whose plans move more: is there one for this query?"""

    query: int
    latency_ms: float
    congested: tuple[CongestedLink, ...]
    avoid: LeasePlan | None = None
    """The lease that was in the way of the plan that there was."""
    instead_of: tuple[tuple[int, int], ...] = ()
    """The moves of that plan: the last resort is to make them with copies."""
    asked: tuple[int, ...] = ()
    """Sites that had none. A query that comes back to a site is no reason to ask it again."""


ToAdaptation = Arrives | LatencyIs | NeedPlan


class LinkMeasured(msgspec.Struct, frozen=True, tag=True):
    """A request: this site's monitor has measured a link."""

    site: int
    latency_ms: float


class LoadMeasured(msgspec.Struct, frozen=True, tag=True):
    """A request: an operator here needs so much now."""

    operator: int
    cores: float


class OperatorsMeasured(msgspec.Struct, frozen=True, tag=True):
    """A request: what operators read, send and need now."""

    operators: tuple[SharedOperator, ...]


class CapacityMeasured(msgspec.Struct, frozen=True, tag=True):
    """A request: this site can give so much to operators now."""

    usable_cores: float
    lost: bool = False
    """It is lost, or kept empty, though this machine runs: others see to what was there."""


class QueryMeasured(msgspec.Struct, frozen=True, tag=True):
    """A request: results of a query that ends here took so long, in a few batches just now."""

    query: int
    latency_ms: float


class Unsatisfied(msgspec.Struct, frozen=True, tag=True):
    """An output: nobody has a plan that brings a query back within its limit, or relieves this site (-1)."""

    query: int
    reason: str
