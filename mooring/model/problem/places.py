"""Possible places of sites: the nodes of a network and their distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats
from mooring.errors import InputError


@dataclass(frozen=True, eq=False)
class Places:
    names: tuple[str, ...]
    latency_ms: Floats
    """From a row's place to a column's, one way."""

    def drawn(self, count: int, rng: np.random.Generator) -> Places:
        """So many of them, in their order."""
        if count > len(self.names):
            raise InputError(
                f"found {count} sites, expected at most the {len(self.names)} places of the network",
                field="sites",
            )
        chosen = np.sort(rng.choice(len(self.names), count, replace=False))
        return Places(tuple(self.names[i] for i in chosen), self.latency_ms[np.ix_(chosen, chosen)])
