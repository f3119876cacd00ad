"""Ants of running queries as agents host them; the runner sends them the problem."""

from __future__ import annotations

from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.machines.claims import ants_claims
from mooring.algorithms.ants.machines.colony_params import ColonyParams, UpdatingParams
from mooring.algorithms.ants.machines.messages import Discouraging, RoutingAnt, RoutingReturn, ScoutAnt
from mooring.algorithms.ants.machines.running_messages import (
    AllHeld,
    AntEnded,
    AskColony,
    ColonyMemory,
    DeployedAnt,
    HoldingAnt,
    KnownColony,
    NotAllHeld,
    Stirred,
)
from mooring.algorithms.ants.machines.running_site import running_machines
from mooring.algorithms.ants.machines.scout_encoding import ReturningScout, WalkingScout
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.coordination.move_messages import FromMover, ToMover

ANTS = "ants"
AGENTS = ColonyParams(
    AntParams(routing_ants=10, scouts=30, least_limit=0.6, most_limit=0.95),
    at_once=5,
    ant_ms=15_000.0,
    enough=0.8,
    reservation_ms=30_000.0,
)
"""Routing ants are held for as long as batches take, which is seconds."""
OFTEN = UpdatingParams(look_ms=5_000.0)

_SCOUTS = ScoutAnt | WalkingScout | ReturningScout
"""The first is as a leader sends it out, to its own site."""
_WALKING = RoutingAnt | RoutingReturn | Discouraging | DeployedAnt | HoldingAnt
_BETWEEN_SITES = AllHeld | NotAllHeld | AntEnded | Stirred


def hosted_ants(params: ColonyParams = AGENTS, updating: UpdatingParams = OFTEN) -> HostedProtocol:
    return HostedProtocol(
        name=ANTS,
        make=running_machines(None, params, updating),
        messages=_WALKING | _SCOUTS | _BETWEEN_SITES | KnownColony | AskColony | ToMover | FromMover,
        claims=ants_claims,
        durable=ColonyMemory,
        requests=KnownColony,
    )
