"""What happens in a run, as data, and who receives it.

A part of a run yields what it has done or is about to do, and goes on once all who receive that are through
with it. So what has to be done before something slow (a sign of life for the lease, a status that says what
is going on) is done before it, and what follows from something is done before the next thing happens. Parts
do not know one another: `ROUTES` is all there is between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mooring.deployment.parts import Kind
from mooring.placement.placement import FragmentSites

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


# Of the session


@dataclass(frozen=True)
class ProblemChanged:
    """The same problem with further sites, or over another network."""

    added: tuple[str, ...]


Event = (
    Incident | SiteReturns | FragmentStarts | FragmentStops | StartsTried | FragmentsStarted | ProblemChanged
)
Part = Literal["lease", "supervisor", "adaptation", "records", "report", "status"]


class Route(NamedTuple):
    part: Part
    kind: Kind
    what: str
    """What the part does then, as it is called where it fails."""


_SIGN = Route("lease", "data plane", "keeping the lease")
_AMEND = Route("status", "publishing", "amending the status")
_SETTLE = Route("supervisor", "data plane", "holding sites to their capacity")
_FOLLOW = Route("adaptation", "advice", "following what happened")
_PLACE = Route("status", "publishing", "showing the placement")

ROUTES: Mapping[type[Event], tuple[Route, ...]] = {
    SiteReturns: (_SIGN,),
    FragmentStarts: (_SIGN, _AMEND),
    FragmentStops: (_SIGN,),
    StartsTried: (_AMEND,),
    # The journal first: a crash must not leave a status that knows more.
    FragmentsStarted: (Route("records", "data plane", "writing the journal"), _SETTLE, _FOLLOW, _PLACE),
    ProblemChanged: (_FOLLOW, Route("supervisor", "data plane", "expecting sites")),
    Incident: (Route("report", "publishing", "reporting what happens"),),
}
"""Who receives an event, in this order. Each fails by itself (`parts.py`); advice receives what happened even
right after a failure, since it would not learn of it later.
"""
