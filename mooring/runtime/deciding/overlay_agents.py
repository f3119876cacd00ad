"""Overlays of shared queries as agents host them: what they know of the problem, the runner tells them."""

from __future__ import annotations

from mooring.protocols.leases.adaptation_messages import (
    CapacityMeasured,
    OperatorMeasured,
    QueryMeasured,
    ToAdaptation,
    Unsatisfied,
)
from mooring.protocols.leases.claims import overlay_claims
from mooring.protocols.leases.knowledge_messages import AskOperators, KnownOperators
from mooring.protocols.leases.lease_messages import ToKeeper, ToSeeker
from mooring.protocols.leases.lease_site import LeaseMemory
from mooring.protocols.leases.overlay_agent import OverlayAgentParams, overlay_agents
from mooring.protocols.leases.seeker import LeaseEnded
from mooring.protocols.moving import FromMover, StatedLatencies, ToMover
from mooring.protocols.overlay.directory import DirectoryMessage
from mooring.protocols.overlay.messages import ExchangeMessage
from mooring.runtime.hosted_protocol import HostedProtocol

OVERLAYS = "overlay"

_AHEAD = DirectoryMessage | ExchangeMessage
_LEASES = ToAdaptation | ToKeeper | ToSeeker
_OF_THE_PROBLEM = AskOperators | KnownOperators | StatedLatencies


def hosted_overlays(params: OverlayAgentParams | None = None) -> HostedProtocol:
    return HostedProtocol(
        name=OVERLAYS,
        make=overlay_agents(params),
        messages=_AHEAD | _LEASES | _OF_THE_PROBLEM | ToMover | FromMover,
        claims=overlay_claims((params or OverlayAgentParams()).overlay.vivaldi.dimensions),
        durable=LeaseMemory,
        requests=OperatorMeasured | CapacityMeasured | QueryMeasured | StatedLatencies,
        outputs=LeaseEnded | Unsatisfied,
    )
