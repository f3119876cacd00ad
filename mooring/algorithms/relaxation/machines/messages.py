"""The messages between placement optimisers of different sites. All frozen data.

Messages between them and the mover are in `coordination/move_messages.py`.
"""

from __future__ import annotations

import msgspec

from mooring.coordination.move_messages import ProposalId, Proposed, StatedLatencies
from mooring.model.network.coordinate import Coordinate

Attempt = tuple[int, int, int]
"""Names one review of a fragment: site, its incarnation, a running number there."""


class FragmentLink(msgspec.Struct, frozen=True):
    """A flow between a fragment and a neighbour: another fragment, or a stream or query at a site."""

    fragment: int
    """-1 where the neighbour is a stream or query."""
    site: int
    """-1 where the neighbour is a fragment, which may move."""
    rate: float
    """Bytes per second, as stated; measured ones take its place."""
    tuple_bytes: float = 1.0


class FragmentSpec(msgspec.Struct, frozen=True):
    """A fragment as the site knows it where it runs."""

    fragment: int
    cores: float
    links: tuple[FragmentLink, ...]
    movable: bool = True


class HeldRoom(msgspec.Struct, frozen=True):
    """Room that a site keeps for a fragment, until the mover says what became of the proposal."""

    id: ProposalId
    fragment: int
    cores: float


class OptimiserMemory(msgspec.Struct, frozen=True, tag=True):
    """What a site must not forget."""

    held: tuple[HeldRoom, ...] = ()
    open: Proposed | None = None


class Ping(msgspec.Struct, frozen=True, tag=True):
    sent_ms: float


class Pong(msgspec.Struct, frozen=True, tag=True):
    sent_ms: float
    coordinate: Coordinate
    spare_cores: float


class Probe(msgspec.Struct, frozen=True, tag=True):
    """How far are these sites from you, and have you room?"""

    fragment: int
    attempt: Attempt
    ends: tuple[int, ...]


class Probed(msgspec.Struct, frozen=True, tag=True):
    fragment: int
    attempt: Attempt
    latency_ms: tuple[float, ...]
    """-1 where not known."""
    spare_cores: float
    used_cores: float


class HoldRoom(msgspec.Struct, frozen=True, tag=True):
    """Keep room for a fragment that is about to be proposed under this id."""

    id: ProposalId
    fragment: int
    cores: float


class RoomHeld(msgspec.Struct, frozen=True, tag=True):
    id: ProposalId
    fits: bool


class MeasuredFlows(msgspec.Struct, frozen=True, tag=True):
    """What the engine sees flowing on the links of a fragment, bytes per second, in their order. From the
    site's own engine, or from the mover.
    """

    fragment: int
    rates: tuple[float, ...]
    cores: float | None = None
    """What it uses at these; None: not measured."""


class AskFragments(msgspec.Struct, frozen=True, tag=True):
    """To the mover, from a machine that was not made from the problem."""


class KnownFragments(msgspec.Struct, frozen=True, tag=True):
    """Fragments that run at this site; none where none do. From the site's own user, or from the mover."""

    specs: tuple[FragmentSpec, ...]


class MeasuredCapacity(msgspec.Struct, frozen=True, tag=True):
    """What the site can use now."""

    cores: float


ToldToSite = KnownFragments | MeasuredFlows | MeasuredCapacity | StatedLatencies
"""What a site's own user tells its machine."""
