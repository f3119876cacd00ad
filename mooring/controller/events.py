"""What happens in a run, as data, and which parts receive it.

A part of a run yields what it has done or is about to do, and goes on once all who receive that are through
with it. So what has to be done before something slow (a sign of life for the lease, a status that says what
is going on) is done before it, and what follows from something is done before the next thing happens. Parts
do not refer to one another: `ROUTES` is all that connects them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mooring.contracts.engine import MoveReport
from mooring.contracts.mailbox import (
    AbortRequest,
    DismissRequest,
    LeaveRequest,
    MoveRequest,
    Request,
    ReturnRequest,
    StopNotice,
)
from mooring.controller.ledger import LedgerEntry
from mooring.controller.move_list import Ending
from mooring.controller.parts import Kind
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites

# Of the supervisor


@dataclass(frozen=True)
class Incident:
    """Something that happened, in words, for the report."""

    what: str


@dataclass(frozen=True)
class SiteReturns:
    """A site answers again; it is cleared of leftovers next, which may take minutes."""

    site: str


@dataclass(frozen=True)
class FragmentStarts:
    """A fragment is started next, which may take minutes at a site that does not answer."""

    fragment: str
    site: str


@dataclass(frozen=True)
class FragmentStops:
    """A fragment is stopped next, which may take as long."""

    fragment: str


@dataclass(frozen=True)
class StartsTried:
    """All that was due has been started, or could not be."""


@dataclass(frozen=True)
class FragmentsStarted:
    """All that was due has been started; these were, and where."""

    sites: FragmentSites


# Of the desk


@dataclass(frozen=True, eq=False)
class Order:
    """Make these moves, from where everything is now. The desk answers before whoever orders goes on: they
    have begun, or are refused.
    """

    moves: tuple[Move, ...]
    asked_by: str
    answer_to: str = ""
    """The request that it answers; empty for what the run orders by itself."""
    within_limits: bool = True
    """Not even if a site has too little memory, or too few cores at rate zero, for what it gets."""


@dataclass(frozen=True)
class MovesBegun:
    order: Order


@dataclass(frozen=True)
class MovesRefused:
    order: Order
    why: str


@dataclass(frozen=True)
class MovesEnded:
    """A list is over, one way or the other; those who wait for it are answered after this."""

    order: Order
    ending: Ending
    reports: Sequence[MoveReport]
    sites: FragmentSites
    """Where everything that runs is now."""


@dataclass(frozen=True)
class Dismissed:
    """These moves are not to be proposed for a while."""

    moves: tuple[Move, ...]
    asked_by: str


# Of the drained sites


@dataclass(frozen=True)
class RequestAnswer:
    """To a request that needs no list of moves."""

    request: str
    state: str
    why: str = ""


@dataclass(frozen=True)
class StandStill:
    """Stop these fragments, which may run nowhere but at their site, until it is used again."""

    site: str
    fragments: Collection[str]


# Of the advisers


@dataclass(frozen=True)
class ListMeasured:
    """What a list promised was held against what came of it."""

    entry: LedgerEntry


# Of the session


@dataclass(frozen=True)
class ProblemChanged:
    """The same problem with further sites, or over another network."""

    added: tuple[str, ...]


Event = (
    Incident
    | SiteReturns
    | FragmentStarts
    | FragmentStops
    | StartsTried
    | FragmentsStarted
    | Order
    | MovesBegun
    | MovesRefused
    | MovesEnded
    | Dismissed
    | RequestAnswer
    | StandStill
    | ListMeasured
    | ProblemChanged
)
Part = Literal["lease", "desk", "drains", "supervisor", "adaptation", "records", "report", "status", "pace"]


class EventRoute(NamedTuple):
    part: Part
    kind: Kind
    what: str
    """What the part does then, as it is called where it fails."""


_SIGN = EventRoute("lease", "data plane", "keeping the lease")
_MOVES = EventRoute("desk", "data plane", "following the list of moves")
_AMEND = EventRoute("status", "publishing", "amending the status")
_SETTLE = EventRoute("supervisor", "data plane", "holding sites to their capacity")
_FOLLOW = EventRoute("adaptation", "advice", "following what happened")
_PLACE = EventRoute("status", "publishing", "showing the placement")
_REPORT = EventRoute("report", "publishing", "writing the report")
_DRAIN = EventRoute("drains", "data plane", "ending a list of moves")
_SOON = EventRoute("pace", "data plane", "looking soon")

ROUTES: Mapping[type[Event], tuple[EventRoute, ...]] = {
    SiteReturns: (_SIGN,),
    FragmentStarts: (_SIGN, _MOVES, _AMEND),
    FragmentStops: (_SIGN,),
    StartsTried: (_MOVES, _AMEND),
    # The journal first: a crash must not leave a status that knows more.
    FragmentsStarted: (EventRoute("records", "data plane", "writing the journal"), _SETTLE, _FOLLOW, _PLACE),
    Order: (EventRoute("desk", "data plane", "beginning a list of moves"),),
    MovesBegun: (EventRoute("adaptation", "advice", "keeping the ledger"),),
    MovesRefused: (_FOLLOW, _DRAIN),
    MovesEnded: (_PLACE, _SETTLE, _FOLLOW, _REPORT, _DRAIN, _SOON),
    Dismissed: (_FOLLOW, _SOON),
    RequestAnswer: (EventRoute("desk", "data plane", "answering requests"),),
    StandStill: (EventRoute("supervisor", "data plane", "stopping what waits for its site"),),
    ListMeasured: (EventRoute("records", "data plane", "writing the ledger"),),
    ProblemChanged: (_FOLLOW, EventRoute("supervisor", "data plane", "expecting sites")),
    Incident: (EventRoute("report", "publishing", "reporting what happens"),),
}
"""Who receives an event, in this order. Each fails by itself (`parts.py`); advice receives what happened even
right after a failure, since it would not learn of it later.
"""

SERVED_BY: Mapping[type[Request], Part] = {
    MoveRequest: "desk",
    AbortRequest: "desk",
    DismissRequest: "desk",
    StopNotice: "desk",
    LeaveRequest: "drains",
    ReturnRequest: "drains",
}
"""Who serves a request. One that breaks its part is refused with the reason: nobody else will answer it."""
