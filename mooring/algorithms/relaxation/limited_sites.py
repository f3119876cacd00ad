"""The sites of a problem as the mapping step sees them: all up and honest, with capacity, memory and
bandwidth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.algorithms.relaxation.springs import Springs
from mooring.arrays import Bools, Floats, Ints
from mooring.model.load.model import LoadModel
from mooring.model.placement.signatures import Signature
from mooring.model.placement.site_limits import SLACK
from mooring.model.problem.latencies import Latencies
from mooring.model.problem.network import Network


class LimitedSites:
    """Resources left while fragments are mapped one by one.

    A fragment needs its load at the present rates, with the communication it would cause if nothing of it
    stayed at one site; so what fits here fits whatever the neighbours do.
    """

    def __init__(
        self,
        model: LoadModel,
        network: Network,
        springs: Springs,
        latency_ms: Latencies,
        signatures: Sequence[tuple[Signature, ...]] | None = None,
    ) -> None:
        """With signatures (per fragment), fragments that compute the same are brought together."""
        self._signatures = signatures
        self._latency_ms, self._springs = latency_ms, springs
        self.cores_left = model.capacity_cores.astype(np.float64)
        self.memory_left_mb = model.memory_limit_mb.astype(np.float64)
        self.needs_cores = np.asarray(model.coefficients @ model.present).ravel() + model.fixed_cores
        self._needs_memory_mb = model.memory_mb
        self._slack_cores = SLACK * model.capacity_cores
        self.bandwidth_left = None if network.bandwidth is None else network.bandwidth.copy()
        self.site_of = np.full(model.fragment_count, -1, dtype=np.int64)
        self._charge_communication(model)

    def _charge_communication(self, model: LoadModel) -> None:
        arcs = model.arcs
        if arcs.comm_us <= 0.0 or not len(arcs.source_site):
            return
        cost = np.asarray(arcs.rates @ model.present).ravel() * arcs.comm_us / 1e6
        for ends, sites in (
            (arcs.source_fragment, arcs.source_site),
            (arcs.target_fragment, arcs.target_site),
        ):
            inside = ends >= 0
            np.add.at(self.needs_cores, ends[inside], cost[inside])
            np.subtract.at(self.cores_left, sites[~inside], cost[~inside])

    def answering(self, sites: Ints) -> Bools:
        return np.ones(len(sites), dtype=bool)

    def measured_ms(self, sites: Ints, others: Ints) -> Floats:
        return self._latency_ms[np.ix_(sites, others)]

    def running(self, operator: int) -> Ints:
        """Sites with an equal fragment, and room for this one too: an engine may still have to run both."""
        if self._signatures is None:
            return np.empty(0, dtype=np.int64)
        wanted = self._signatures[operator]
        equal = [k for k, signature in enumerate(self._signatures) if signature == wanted]
        sites = np.unique(self.site_of[equal])
        sites = sites[sites >= 0]
        return np.asarray(sites[~self.lacking(operator, sites)])

    def lacking(self, operator: int, sites: Ints) -> Bools:
        short = self.cores_left[sites] - self.needs_cores[operator] < -self._slack_cores[sites]
        short |= self.memory_left_mb[sites] < self._needs_memory_mb[operator] * (1.0 - SLACK)
        if self.bandwidth_left is not None:
            for source, target, rate in self._links(operator, sites):
                crossing = source != target
                left = self.bandwidth_left[source, target]
                short |= crossing & (left < rate * (1.0 - SLACK))
        return np.asarray(short)

    def accept(self, operator: int, site: int) -> bool:
        if self.lacking(operator, np.array([site]))[0]:
            return False
        self.take(operator, site)
        return True

    def take(self, operator: int, site: int, sign: float = 1.0) -> None:
        """Put a fragment at a site, room or not; with sign -1 take it away."""
        self.cores_left[site] -= sign * self.needs_cores[operator]
        self.memory_left_mb[site] -= sign * self._needs_memory_mb[operator]
        if self.bandwidth_left is not None:
            for source, target, rate in self._links(operator, np.array([site])):
                if source[0] != target[0]:
                    self.bandwidth_left[source[0], target[0]] -= sign * rate
        self.site_of[operator] = site if sign > 0 else -1

    def _links(self, operator: int, sites: Ints) -> list[tuple[Ints, Ints, float]]:
        """Flows between candidate sites and neighbours that are somewhere already: source, target,
        bytes/s."""
        springs, flows = self._springs, []
        own = springs.of_operator(operator)
        for other, rate, outgoing in zip(
            springs.other[own], springs.rate[own], springs.outgoing[own], strict=True
        ):
            end = ~other if other < 0 else self.site_of[other]
            if end >= 0:
                ends = np.full(len(sites), end)
                flows.append((sites, ends, float(rate)) if outgoing else (ends, sites, float(rate)))
        return flows
