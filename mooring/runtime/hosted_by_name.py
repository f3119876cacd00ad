"""The protocols that an agent hosts only where it is told to: each is loaded then, since it brings compiled
loops with it that an agent which only measures has no use for.
"""

from __future__ import annotations

from importlib import import_module

from mooring.runtime.hosted_protocol import HostedProtocol

HOSTED = {
    "relaxation": "mooring.runtime.optimiser_agents:hosted_optimisers",
    "ants": "mooring.runtime.ants_agents:hosted_ants",
    "overlay": "mooring.runtime.overlay_agents:hosted_overlays",
}
"""Where each is: its module and the function that makes it."""


def hosted_by_name(name: str) -> HostedProtocol:
    module, _, make = HOSTED[name].partition(":")
    made: HostedProtocol = getattr(import_module(module), make)()
    return made
