"""The messages of leases (section 3.5), in their order.

    who seeks                 who keeps
    RequestLock    ->   hosts of what moves, who pass it on to publishers, subscribers and queries
    RequestLock    ->   the sites that operators go to: room
                   <-   LockGranted (with what the plan stands on there), or LockDenied
    HoldLocks           ->   all of them: from now on nothing expires
                   <-   Held, or LockLost
    (`Proposed` to the mover, and its answers: `moving.py`)
    ReleaseLock    ->   all of them
                   <-   Released

The paper lets a site grant once all behind it have granted. Here every site answers the seeker directly and
names those that it passed the request to. So the seeker can tell when all have answered, and which to send
the request to again.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from mooring.algorithms.overlay.search.shared_operator import SharedOperator
from mooring.coordination.move_messages import FragmentMove, ProposalId, StartedAt

Kind = Literal["migrate", "replicate", "merge"]
"""Move shared operators; start copies of them for one query alone; let it read the shared ones again."""


class LeasePlan(msgspec.Struct, frozen=True):
    kind: Kind
    query: int
    """That it is for; -1 where it is for no query: bandwidth, or a site that is too full."""
    moves: tuple[FragmentMove, ...]
    """Upstream first."""
    affected: tuple[int, ...]
    """Queries whose latency it changes. With copies that is the query's own alone."""
    relies_on: tuple[int, ...] = ()
    """Of a plan with copies: operators that its query goes on reading, or reads again."""
    change_ms: tuple[tuple[int, float], ...] = ()
    """What it is expected to change each affected query's latency by."""
    cores: tuple[tuple[int, float], ...] = ()
    """What the operators that move need at the present rates."""


class RequestLock(msgspec.Struct, frozen=True, tag=True):
    """REQUEST_LOCK of the paper."""

    id: ProposalId
    plan: LeasePlan
    operator: int
    """Below zero: the end of a query."""
    room: bool
    """Room for it is asked for, at the site that it goes to."""
    dependents: bool = False
    """It moves, or something upstream of it does: whatever reads it is concerned."""


class LockGranted(msgspec.Struct, frozen=True, tag=True):
    """A part of MIGR_LEASE, or of a replication lease."""

    id: ProposalId
    operator: int
    room: bool
    asked: tuple[tuple[int, int, bool], ...]
    """Operators that the request was passed on for, their sites, and whether their dependents are asked."""
    epoch: int
    """Of the operator, where it runs."""
    latency_ms: tuple[tuple[int, int, float], ...]
    """From there to the sites that the operator is connected with, now or under the plan."""
    used_cores: float = 0.0
    """Of who grants it, reservations included."""
    usable_cores: float = 0.0


class LockDenied(msgspec.Struct, frozen=True, tag=True):
    id: ProposalId
    operator: int
    reason: str
    by: LeasePlan | None = None
    """The plan of the lease that is in the way."""
    place: StartedAt | None = None
    """Where the operator is, if that has changed."""


class HoldLocks(msgspec.Struct, frozen=True, tag=True):
    id: ProposalId
    locks: int
    """That the site has granted."""


class Held(msgspec.Struct, frozen=True, tag=True):
    id: ProposalId


class LockLost(msgspec.Struct, frozen=True, tag=True):
    """A lock was granted and has expired."""

    id: ProposalId


class ReleaseLock(msgspec.Struct, frozen=True, tag=True):
    id: ProposalId
    places: tuple[StartedAt, ...]
    """Where things are now."""


class Released(msgspec.Struct, frozen=True, tag=True):
    id: ProposalId


ToKeeper = RequestLock | HoldLocks | ReleaseLock
ToSeeker = LockGranted | LockDenied | Held | LockLost | Released


class Lock(msgspec.Struct, frozen=True):
    """As who keeps it remembers it."""

    id: ProposalId
    operator: int
    room: bool
    plan: LeasePlan
    held: bool
    until_ms: float
    """When it expires; of one that is held, when to ask the mover."""
    dependents: bool = False


def in_conflict(a: LeasePlan, b: LeasePlan) -> bool:
    """Whether two leases may not be on at the same time.

    Two migrations may not affect a common query. A plan with copies changes its own query alone, and stands
    in the way of what its query goes on reading.
    """
    if a.kind == "migrate" and b.kind == "migrate":
        return bool(set(a.affected) & set(b.affected))
    if a.kind != "migrate" and b.kind != "migrate":
        return a.query == b.query
    own, migration = (a, b) if a.kind != "migrate" else (b, a)
    moved = {move.fragment for move in migration.moves}
    stands_on = {*own.relies_on, *(move.fragment for move in own.moves)}
    return own.query == migration.query or bool(moved & stands_on)


class AskOperators(msgspec.Struct, frozen=True, tag=True):
    """From a machine that knows of no operators yet."""


class KnownOperators(msgspec.Struct, frozen=True, tag=True):
    """To one site: a part of all operators, with the queries that read them, and its own room."""

    part: int
    parts: int
    operators: tuple[SharedOperator, ...]
    usable_cores: float
    memory_mb: float
    channel_ms: float
