"""Queries as in section 4 of the ants paper: random ones with fan-in and fan-out on a transit-stub network.

A query of the paper with several consumers is several of ours; `groups` says which. Sites have discrete
classes of capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.networks.transit_stub import TransitStubParams, transit_stub
from mooring.model.problem.network import Network
from mooring.model.problem.problem import Problem

DIAMETER_MS = 200.0


@dataclass(frozen=True)
class MixedQueries:
    problem: Problem
    groups: list[list[int]]
    """Per query of the paper, ours."""


def drawn_queries(
    rng: np.random.Generator,
    sites: int,
    queries: int,
    *,
    tasks: tuple[int, int] = (2, 5),
    capacities: tuple[float, ...] = (1.0, 2.0, 4.0),
    cost_us: tuple[float, float] = (1000.0, 6000.0),
    rates: tuple[float, float] = (20.0, 100.0),
    chains_only: bool = False,
) -> MixedQueries:
    latency_ms = network_of(rng, sites)
    names = [f"s{i}" for i in range(sites)]
    data: dict[str, Any] = {
        "sites": {name: {"capacity": float(rng.choice(capacities))} for name in names},
        "streams": {},
        "operators": {},
        "queries": {},
    }
    draw = _Draw(rng, data, names, cost_us, rates)
    groups = []
    for q in range(queries):
        count = int(rng.integers(tasks[0], tasks[1] + 1))
        kind = "chain" if chains_only else str(rng.choice(["chain", "chain", "chain", "fan-in", "fan-out"]))
        before = len(data["queries"])
        draw.query(q, count, kind)
        groups.append(list(range(before, len(data["queries"]))))
    bare = Problem.from_dict(data)
    problem = Problem(bare.sites, bare.streams, bare.operators, bare.queries, Network(latency_ms))
    return MixedQueries(problem, groups)


def network_of(rng: np.random.Generator, sites: int) -> np.ndarray:
    """Latencies between that many nodes of a transit-stub network."""
    stubs = max(2, sites // 8)
    params = TransitStubParams(
        transit_domains=2,
        transit_nodes=4,
        stub_domains=stubs,
        stub_nodes=-(-2 * sites // stubs),
        diameter_ms=DIAMETER_MS,
    )
    latency_ms = transit_stub(rng, params)[1].latency_ms
    chosen = rng.permutation(len(latency_ms))[:sites]
    return np.ascontiguousarray(latency_ms[np.ix_(chosen, chosen)])


class _Draw:
    def __init__(
        self,
        rng: np.random.Generator,
        data: dict[str, Any],
        names: list[str],
        cost_us: tuple[float, float],
        rates: tuple[float, float],
    ) -> None:
        self.rng, self.data, self.names = rng, data, names
        self.cost_us, self.rates = cost_us, rates

    def _stream(self, name: str) -> str:
        rate, site = float(self.rng.uniform(*self.rates)), str(self.rng.choice(self.names))
        self.data["streams"][name] = {"rate": rate, "site": site, "bytes": 1000}
        return name

    def _task(self, name: str, inputs: list[str]) -> str:
        self.data["operators"][name] = {
            "inputs": inputs,
            "cost_us": float(self.rng.uniform(*self.cost_us)),
            "selectivity": float(self.rng.choice([0.5, 0.8, 1.0])),
            "variability": 1.0,
        } | ({"kind": "union"} if len(inputs) > 1 else {})
        return name

    def _query(self, name: str, reads: str) -> None:
        self.data["queries"][name] = {"reads": reads, "site": str(self.rng.choice(self.names))}

    def query(self, q: int, count: int, kind: str) -> None:
        """Fan-in: another stream with a task of its own joins in the middle; fan-out: so does a consumer."""
        before = self._stream(f"x{q}")
        for i in range(count):
            inputs = [before]
            if kind == "fan-in" and i == count // 2:
                inputs.append(self._task(f"side{q}", [self._stream(f"y{q}")]))
            before = self._task(f"o{q}_{i}", inputs)
            if kind == "fan-out" and i == count // 2:
                self._query(f"q{q}_side", self._task(f"branch{q}", [before]))
        self._query(f"q{q}", before)
