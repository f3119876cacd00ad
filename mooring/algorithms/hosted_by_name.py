"""The protocols that an agent hosts only where it is told to, each loaded then: there is an agent beside
every site, and it is to be small.
"""

from __future__ import annotations

from importlib import import_module

from mooring.contracts.hosted_protocol import HostedProtocol

HOSTED = {
    "relaxation": "mooring.algorithms.relaxation.hosted:hosted_optimisers",
    "ants": "mooring.algorithms.ants.hosted:hosted_ants",
    "overlay": "mooring.algorithms.overlay.hosted:hosted_overlays",
}
"""Where each is: its module and the function that makes it."""


def hosted_by_name(name: str) -> HostedProtocol:
    module, _, make = HOSTED[name].partition(":")
    made: HostedProtocol = getattr(import_module(module), make)()
    return made
