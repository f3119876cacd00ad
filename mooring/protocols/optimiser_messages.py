"""What the placement optimisers of different sites tell each other. All frozen data."""

from __future__ import annotations

import msgspec

from mooring.network.coordinate import Coordinate

Attempt = tuple[int, int, int]
"""Names one try at a move: site, its incarnation, a running number there."""


class OperatorLink(msgspec.Struct, frozen=True):
    """A flow between an operator and a neighbour: another operator of its group, or a site."""

    operator: int
    """-1 where the neighbour is a stream or query at a site."""
    site: int
    """-1 where the neighbour is an operator, which may move."""
    rate: float
    """Bytes per second; refined by what is measured."""


class Hosted(msgspec.Struct, frozen=True):
    """An operator as its site keeps it, and as it travels. Who has the highest epoch has it."""

    operator: int
    epoch: int
    coordinator: int
    """The site that lets operators of this group of queries move, one at a time."""
    cores: float
    links: tuple[OperatorLink, ...]
    movable: bool = True
    state: int = 0
    """Stands for whatever the operator remembers."""


class Location(msgspec.Struct, frozen=True):
    operator: int
    site: int
    epoch: int


class Leaving(msgspec.Struct, frozen=True):
    """Stopped here, on its way; it runs again at `target` or, if that refuses, here."""

    hosted: Hosted
    target: int
    attempt: Attempt


class Settled(msgspec.Struct, frozen=True):
    """A move that is over, of which the coordinator has yet to hear."""

    operator: int
    coordinator: int
    attempt: Attempt


class Grant(msgspec.Struct, frozen=True):
    """The one operator of a coordinator's groups that may move now."""

    operator: int
    holder: int
    attempt: Attempt


class Durable(msgspec.Struct, frozen=True):
    """What a site must not forget."""

    hosted: tuple[Hosted, ...] = ()
    leaving: tuple[Leaving, ...] = ()
    settled: tuple[Settled, ...] = ()
    fences: tuple[tuple[int, int], ...] = ()
    """Per operator: the highest epoch that was refused here, or left from here; none up to it will ever
    start."""
    grant: Grant | None = None


class Ping(msgspec.Struct, frozen=True, tag=True):
    sent_ms: float


class Pong(msgspec.Struct, frozen=True, tag=True):
    sent_ms: float
    coordinate: Coordinate
    spare_cores: float


class Probe(msgspec.Struct, frozen=True, tag=True):
    """How far are these sites from you, and have you room?"""

    operator: int
    attempt: Attempt
    ends: tuple[int, ...]


class Probed(msgspec.Struct, frozen=True, tag=True):
    operator: int
    attempt: Attempt
    latency_ms: tuple[float, ...]
    """-1 where not known."""
    spare_cores: float


class AskMove(msgspec.Struct, frozen=True, tag=True):
    operator: int
    attempt: Attempt


class Granted(msgspec.Struct, frozen=True, tag=True):
    operator: int
    attempt: Attempt


class Release(msgspec.Struct, frozen=True, tag=True):
    """The move is over, or was never begun."""

    operator: int
    attempt: Attempt


class Released(msgspec.Struct, frozen=True, tag=True):
    operator: int
    attempt: Attempt


class Transfer(msgspec.Struct, frozen=True, tag=True):
    hosted: Hosted


class TransferAccepted(msgspec.Struct, frozen=True, tag=True):
    operator: int
    epoch: int


class TransferRefused(msgspec.Struct, frozen=True, tag=True):
    operator: int
    epoch: int


class Announce(msgspec.Struct, frozen=True, tag=True):
    """To the coordinator: these operators are here."""

    locations: tuple[Location, ...]


class GroupLocations(msgspec.Struct, frozen=True, tag=True):
    """From the coordinator: where the operators of its groups are."""

    locations: tuple[Location, ...]


# Asked of a site by its own user or engine.


class Feed(msgspec.Struct, frozen=True, tag=True):
    """Data arrives at an operator; counted only where it runs."""

    operator: int
    amount: int


class MeasuredFlows(msgspec.Struct, frozen=True, tag=True):
    """What the engine sees flowing on the links of an operator, bytes per second, in their order."""

    operator: int
    rates: tuple[float, ...]


# Told to the site's own engine.


class Running(msgspec.Struct, frozen=True, tag=True):
    operator: int
    epoch: int


class Stopped(msgspec.Struct, frozen=True, tag=True):
    operator: int
    epoch: int


class Fed(msgspec.Struct, frozen=True, tag=True):
    operator: int
    amount: int
