"""The deciders whose machines are at the sites, by the name that `--adapt` takes."""

from __future__ import annotations

from functools import partial
from importlib import import_module

from mooring.contracts.decider import Decider
from mooring.coordination.briefing import Brief

BRIEFINGS = {
    "relaxation": "mooring.algorithms.relaxation.briefing:optimiser_briefing",
    "ants": "mooring.algorithms.ants.briefing:ants_briefing",
    "overlay": "mooring.algorithms.overlay.briefing:overlay_briefing",
}
"""Where each briefing is: its module and the function that makes it. Each has its machines in
`algorithms/hosted_by_name.py` under the same name."""


def briefing_by_name(name: str, stand_in: Decider | None = None, *, states_latency: bool = False) -> Brief:
    """`stand_in`: the decider that would stand in for the machines in one place, which has the settings.
    `states_latency`: the problem's latencies count, whatever machines measure.
    """
    module, _, make = BRIEFINGS[name].partition(":")
    return partial(getattr(import_module(module), make), stand_in=stand_in, states_latency=states_latency)
