"""Every transition of a lease, on both sides, in one table.

A site *seeks* a lease before it changes anything; the sites whose operators, queries and room are concerned
*keep* locks for it. The two are one protocol, so they are one table. The diagram in `docs/overlays.md` is
made from it, and a machine that takes a step which is not in it fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class LeaseStage(Enum):
    NONE = "none"
    # Of who seeks a lease.
    ASKING = "asking"
    """Lock requests are out; what was granted expires."""
    HOLDING = "holding"
    """All is granted and the plan still holds; the locks are being made to last."""
    PROPOSED = "proposed"
    """Every lock lasts, and the mover has been asked. From here on nothing expires."""
    MOVING = "moving"
    """The mover has accepted: it finishes or rolls back."""
    RELEASING = "releasing"
    """It is over; all who keep locks for it are told."""
    # Of who keeps a lock.
    LOCKED = "locked"
    """Granted; expires by itself."""
    HELD = "held"
    """Does not expire. Who has not heard of it for long asks the mover."""


class Event(Enum):
    WANTED = "a plan is wanted"
    GRANTED_ALL = "LockGranted by all"
    DENIED = "LockDenied"
    HELD_ALL = "Held by all"
    LOST = "LockLost"
    EXPIRED = "time is up"
    CRASHED = "crash"
    ACCEPTED = "Accepted"
    REFUSED = "Refused"
    DONE = "Done"
    FAILED = "Failed"
    OVER = "Over"
    RELEASED = "Released by all, or silence"
    REQUEST = "RequestLock"
    HOLD = "HoldLocks"
    RELEASE = "ReleaseLock"
    ANSWERED = "the mover's last word"


S, E = LeaseStage, Event

SEEKING: Mapping[tuple[LeaseStage, Event], LeaseStage] = {
    (S.NONE, E.WANTED): S.ASKING,
    (S.ASKING, E.GRANTED_ALL): S.HOLDING,
    (S.ASKING, E.DENIED): S.RELEASING,
    (S.ASKING, E.EXPIRED): S.RELEASING,
    (S.ASKING, E.CRASHED): S.NONE,
    (S.HOLDING, E.HELD_ALL): S.PROPOSED,
    (S.HOLDING, E.LOST): S.RELEASING,
    (S.HOLDING, E.EXPIRED): S.RELEASING,
    (S.HOLDING, E.CRASHED): S.NONE,
    (S.PROPOSED, E.ACCEPTED): S.MOVING,
    (S.PROPOSED, E.REFUSED): S.RELEASING,
    (S.PROPOSED, E.DONE): S.RELEASING,  # Accepted was lost, or overtaken
    (S.PROPOSED, E.FAILED): S.RELEASING,
    (S.PROPOSED, E.OVER): S.RELEASING,
    (S.PROPOSED, E.CRASHED): S.PROPOSED,
    (S.MOVING, E.DONE): S.RELEASING,
    (S.MOVING, E.FAILED): S.RELEASING,
    (S.MOVING, E.OVER): S.RELEASING,
    (S.MOVING, E.REFUSED): S.RELEASING,  # a mover that has lost its memory
    (S.MOVING, E.CRASHED): S.PROPOSED,  # asks again, and hears the same
    (S.RELEASING, E.RELEASED): S.NONE,
    (S.RELEASING, E.CRASHED): S.NONE,  # who was not told asks the mover
}
"""Of who seeks a lease."""

KEEPING: Mapping[tuple[LeaseStage, Event], LeaseStage] = {
    (S.NONE, E.REQUEST): S.LOCKED,
    (S.LOCKED, E.REQUEST): S.LOCKED,
    (S.LOCKED, E.HOLD): S.HELD,
    (S.LOCKED, E.RELEASE): S.NONE,
    (S.LOCKED, E.EXPIRED): S.NONE,
    (S.LOCKED, E.ANSWERED): S.NONE,
    (S.HELD, E.REQUEST): S.HELD,
    (S.HELD, E.HOLD): S.HELD,
    (S.HELD, E.RELEASE): S.NONE,
    (S.HELD, E.ANSWERED): S.NONE,
    (S.HELD, E.CRASHED): S.HELD,
    (S.LOCKED, E.CRASHED): S.LOCKED,
}
"""Of who keeps a lock. That `HELD` does not expire is what it is for."""


def stepped(
    table: Mapping[tuple[LeaseStage, Event], LeaseStage], stage: LeaseStage, event: Event
) -> LeaseStage:
    """The next stage; a step that is not in the table is a bug."""
    if (stage, event) not in table:
        raise ValueError(f"no transition from {stage.value!r} by {event.value!r}")
    return table[stage, event]
