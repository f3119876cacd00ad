"""Overlays of shared queries as agents host them; the runner sends them the problem."""

from __future__ import annotations

from mooring.algorithms.overlay.leases.adaptation_messages import (
    CapacityMeasured,
    OperatorsMeasured,
    QueryMeasured,
    ToAdaptation,
    Unsatisfied,
)
from mooring.algorithms.overlay.leases.claims import overlay_claims
from mooring.algorithms.overlay.leases.lease_client import LeaseEnded
from mooring.algorithms.overlay.leases.lease_messages import AskOperators, KnownOperators, ToKeeper, ToSeeker
from mooring.algorithms.overlay.leases.lease_site import LeaseMemory
from mooring.algorithms.overlay.leases.overlay_agent import OverlayAgentParams, overlay_agents
from mooring.algorithms.overlay.protocol.directory import DirectoryMessage
from mooring.algorithms.overlay.protocol.messages import ExchangeMessage
from mooring.algorithms.overlay.settings import OverlaySettings
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.contracts.site_machine import MakeMachine
from mooring.coordination.move_messages import FromMover, StatedLatencies, ToMover
from mooring.model.problem.problem import Problem

OVERLAYS = "overlay"

_AHEAD = DirectoryMessage | ExchangeMessage
_LEASES = ToAdaptation | ToKeeper | ToSeeker
_OF_THE_PROBLEM = AskOperators | KnownOperators | StatedLatencies


def simulated_overlays(problem: Problem, options: OverlaySettings | None = None) -> MakeMachine:
    """The runner tells them of the problem, as it tells agents."""
    return overlay_agents(None if options is None else options.params())


def hosted_overlays(params: OverlayAgentParams | None = None) -> HostedProtocol:
    return HostedProtocol(
        name=OVERLAYS,
        make=overlay_agents(params),
        messages=_AHEAD | _LEASES | _OF_THE_PROBLEM | ToMover | FromMover,
        claims=overlay_claims((params or OverlayAgentParams()).overlay.vivaldi.dimensions),
        durable=LeaseMemory,
        requests=OperatorsMeasured | CapacityMeasured | QueryMeasured | StatedLatencies,
        outputs=LeaseEnded | Unsatisfied,
    )
