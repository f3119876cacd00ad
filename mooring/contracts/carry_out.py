"""A placement brought to life on an engine."""

from __future__ import annotations

from collections.abc import Collection

from mooring.contracts.engine import Engine
from mooring.model.deployment.channels import channels_of
from mooring.model.placement.placement import FragmentSites, Placement


def carry_out(engine: Engine, placement: Placement, starts: Collection[str] | None = None) -> None:
    """Connect every channel, then start every fragment, or those that are named, where the placement has
    it.
    """
    for channel in channels_of(placement.problem):
        engine.connect(channel)
    sites = placement.by_fragment()
    engine.start_all(FragmentSites({n: at for n, at in sites.items() if starts is None or n in starts}))
