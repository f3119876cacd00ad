"""Executors that a cluster lost or got, from one look to the next, in words for the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mooring.contracts.decider import Observation
from mooring.contracts.engine import SiteReport


@dataclass
class ExecutorCount:
    """One per run: give it every observation."""

    _known: dict[str, SiteReport] = field(default_factory=dict)

    def take(self, observation: Observation) -> Iterator[str]:
        """What changed. Where a cluster grows and shrinks by itself, that is no incident, but all gone is."""
        for site, now in observation.measured.sites.items():
            if now.executors is None or now.slots is None:
                continue
            before = self._known.get(site)
            self._known[site] = now
            if before is None or before.executors is None or before.executors == now.executors:
                continue
            if now.grows and now.executors and before.executors:
                continue
            change, cores = now.executors - before.executors, f"{now.slots} core{'s' * (now.slots != 1)}"
            what = f"lost {-change} of {before.executors}" if change < 0 else f"got {change} more"
            left = f"{now.executors} executors with {cores}" if now.executors else "none"
            yield f"the site {site} {what} executors: it has {left} now"
