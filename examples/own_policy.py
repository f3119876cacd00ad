"""A policy of one's own: as few sites as possible, each filled up to a share of its cores.

In this folder:

    mooring plan forest.yaml --policy own_policy:FewSites --set most_used=0.5
    mooring compare forest.yaml --policies own_policy:FewSites,rod
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mooring import Context, InputError, Placement, Problem


@dataclass(frozen=True)
class FewSites:
    name: ClassVar[str] = "few_sites"
    about: ClassVar = "resilience"  # what its plans are explained by; or "network", "latency"

    most_used: float = 0.8
    """The share of its cores that a site may use before the next one is taken."""

    def __post_init__(self) -> None:
        if not 0.0 < self.most_used <= 1.0:
            raise InputError(f"found {self.most_used}, expected more than 0 and at most 1", field="most_used")

    def unsupported(self, problem: Problem) -> str | None:
        return "it looks at no memory limits" if any(s.memory_mb for s in problem.sites) else None

    def place(self, problem: Problem, context: Context) -> Placement:
        """First fit, largest fragments first; where nothing fits, at the site with most room."""
        load = context.load
        needs = load.coefficients @ load.present + load.fixed_cores
        room, sites = self.most_used * load.capacity_cores, load.pinned_site.copy()
        np.subtract.at(room, sites[sites >= 0], needs[sites >= 0])
        for fragment in np.argsort(-needs, kind="stable"):
            if sites[fragment] < 0:
                fits = np.flatnonzero(room >= needs[fragment])
                sites[fragment] = fits[0] if len(fits) else np.argmax(room)
                room[sites[fragment]] -= needs[fragment]
        return Placement(problem, sites)
