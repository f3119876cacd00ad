"""SBON's optimisers as agents host them; the runner sends them the problem."""

from __future__ import annotations

from mooring.algorithms.relaxation.machines.claims import optimiser_claims
from mooring.algorithms.relaxation.machines.messages import (
    AskFragments,
    HoldRoom,
    KnownFragments,
    MeasuredCapacity,
    OptimiserMemory,
    Ping,
    Pong,
    Probe,
    Probed,
    RoomHeld,
    ToldToSite,
)
from mooring.algorithms.relaxation.machines.optimiser import optimiser_machines
from mooring.algorithms.relaxation.machines.params import AGENTS, OptimiserParams
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.coordination.move_messages import FromMover, StatedLatencies, ToMover

OPTIMISERS = "relaxation"

_BETWEEN_SITES = Ping | Pong | Probe | Probed | HoldRoom | RoomHeld
_OF_THE_PROBLEM = AskFragments | KnownFragments | StatedLatencies | MeasuredCapacity


def hosted_optimisers(params: OptimiserParams = AGENTS) -> HostedProtocol:
    return HostedProtocol(
        name=OPTIMISERS,
        make=optimiser_machines(lambda sites: ((), (0.0,) * sites), params),
        messages=_BETWEEN_SITES | _OF_THE_PROBLEM | ToMover | FromMover,
        claims=optimiser_claims,
        durable=OptimiserMemory,
        requests=ToldToSite,
    )
