"""A network as a graph: nodes joined by links that have a latency, and a routing weight that need not follow
it.

Routes in the Internet minimise policy weights and not latency, and that is why an overlay can beat them: the
two are kept apart here from the start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mooring.arrays import Bools, Floats, Ints
from mooring.errors import InputError


@dataclass(frozen=True, eq=False)
class Topology:
    names: tuple[str, ...]
    ends: Ints
    """Links x 2: the nodes each link joins; links go both ways."""
    latency_ms: Floats
    """Per link, one way."""
    weight: Floats
    """Per link: what routing minimises."""
    domain: Ints
    """Per node: the routing domain it belongs to; all 0 where there is only one."""
    transit: Bools
    """Per node: whether it belongs to a domain that carries traffic of others."""

    def __post_init__(self) -> None:
        links, nodes = len(self.ends), len(self.names)
        if (
            self.latency_ms.shape != (links,)
            or self.weight.shape != (links,)
            or self.domain.shape != (nodes,)
        ):
            raise ValueError(f"{links} links and {nodes} nodes, but arrays of other lengths")
        if links and (self.ends.min() < 0 or self.ends.max() >= nodes):
            raise InputError(f"a link names a node beyond the {nodes} there are", field="ends")
        if not (np.all(self.latency_ms >= 0) and np.all(self.weight > 0)):
            raise InputError("found a negative latency or a weight that is not positive", field="links")

    @property
    def node_count(self) -> int:
        return len(self.names)

    def scaled(self, factor: float) -> Topology:
        """The same network with every latency multiplied."""
        return replace(self, latency_ms=self.latency_ms * factor)
