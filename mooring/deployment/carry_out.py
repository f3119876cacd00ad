"""A placement brought to life on an engine."""

from __future__ import annotations

from mooring.deployment.channels import channels_of
from mooring.deployment.engine import Engine
from mooring.placement.placement import Placement


def carry_out(engine: Engine, placement: Placement) -> None:
    """Connect every channel, then start every fragment where the placement has it."""
    for channel in channels_of(placement.problem):
        engine.connect(channel)
    engine.start_all(placement.by_fragment())
