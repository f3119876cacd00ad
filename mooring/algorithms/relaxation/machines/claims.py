"""Checks of messages of SBON's optimisers (`coordination/claims.py`)."""

from __future__ import annotations

from mooring.algorithms.relaxation.machines.messages import (
    HoldRoom,
    KnownFragments,
    MeasuredCapacity,
    Ping,
    Probe,
    Probed,
    RoomHeld,
)
from mooring.contracts.site_machine import Data
from mooring.coordination.claims import are_sites, of_id, plain_claims


def optimiser_claims(sender: int, receiver: int, sites: int, message: Data) -> str | None:
    if why := plain_claims(sender, receiver, sites, message):
        return why
    match message:
        case KnownFragments() | MeasuredCapacity() if sender != sites:
            return f"only the mover may send {type(message).__name__}"
        case Probe(ends=ends):
            if not are_sites(ends, sites):
                return "it requests the distance of an unknown site"
        case HoldRoom(id=id, fragment=fragment, cores=cores):
            if id[0] != sender:
                return f"only site {id[0]} may reserve room for {id}"
            if fragment < 0 or cores < 0.0:
                return "it reserves room for an unknown fragment"
            return of_id(id, sites)
        case RoomHeld(id=id):
            return of_id(id, sites)
        case Ping() | Probed():
            pass
    return None
