"""An overlay in virtual time: connected sites, and queries registered one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mooring.algorithms.overlay.protocol.messages import Admitted, HostedOperator, RegisterQuery, Rejected
from mooring.algorithms.overlay.protocol.overlay_site import (
    OverlayParams,
    OverlaySite,
    SiteStart,
    overlay_machines,
)
from mooring.arrays import Floats
from mooring.contracts.deadline import NO_DEADLINE, Deadline
from mooring.contracts.site_machine import MakeMachine
from mooring.model.network.embedding import embed
from mooring.virtual_time.event_loop import EventLoop

SETTLING_PERIODS = 3.0
"""Of the directory, before the first query: its splits follow the adverts from the second on."""
SETTLING_STEPS = 100
"""Looks at the deadline until then."""
STEP_MS = 50.0
"""Between two looks at whether a registration has ended."""
PATIENCE_MS = 3_600_000.0
"""No registration takes an hour, whatever is lost: rounds and stages are limited."""


@dataclass(frozen=True)
class OverlayCounts:
    """What it took so far."""

    exchange_messages: int
    within_messages: int
    """Of the exchange, that did not leave their site."""
    search_messages: int
    upkeep_messages: int
    """Of directory and monitor: adverts, samples, echoes, which go on whether there are queries or not."""
    search_hops: tuple[int, ...]
    """Of every search of the directory, the longest way that it took."""


MakeLoop = Callable[[Sequence[Sequence[float]], MakeMachine, int], EventLoop]
"""Of latencies, machines and a seed."""


class OverlayRun:
    """Sites whose coordinates have settled, as those of sites that have been up for a while."""

    def __init__(
        self,
        latency_ms: Floats,
        usable_cores: Floats,
        memory_mb: Floats,
        params: OverlayParams,
        rng: np.random.Generator,
        *,
        hosted: Sequence[tuple[int, HostedOperator]] = (),
        make_loop: MakeLoop = EventLoop,
        deadline: Deadline = NO_DEADLINE,
    ) -> None:
        """`hosted`: operators that run already, each with its site. When time is up, sites have not settled,
        and nothing is to be registered."""
        sites = len(latency_ms)
        both_ways = np.asarray((latency_ms + latency_ms.T) / 2.0)
        embedding = embed(both_ways, rng, params.vivaldi) if sites > 1 else None
        registries: list[list[tuple[int, int]]] = [[] for _ in range(sites)]
        for site, own in hosted:
            registries[own.operator.operator % sites].append((own.operator.operator, site))

        def start(site: int) -> SiteStart:
            return SiteStart(
                float(usable_cores[site]),
                float(memory_mb[site]),
                None if embedding is None else embedding.coordinate(site),
                tuple(own for at, own in hosted if at == site),
                tuple(registries[site]),
            )

        seed = int(rng.integers(2**31))
        links = tuple(map(tuple, latency_ms.tolist()))
        self.loop = make_loop(links, overlay_machines(params, start), seed)
        settled_ms = SETTLING_PERIODS * params.directory.period_ms
        for step in range(1, SETTLING_STEPS + 1):
            if deadline.expired:
                break
            self.loop.run_until(settled_ms * step / SETTLING_STEPS)

    def register(self, site: int, request: RegisterQuery) -> tuple[Admitted | Rejected, float]:
        """The outcome of a request, and how long it took in virtual milliseconds."""
        heard, begun_ms = self.loop.outputs, self.loop.now_ms
        before = len(heard)
        self.loop.ask(site, request)
        while len(heard) == before and self.loop.now_ms < begun_ms + PATIENCE_MS:
            self.loop.run_until(self.loop.now_ms + STEP_MS)
        if len(heard) == before:
            raise RuntimeError(f"query {request.query} got no answer within {PATIENCE_MS:g} ms")
        at_ms, _, outcome = heard[before]
        assert isinstance(outcome, Admitted | Rejected)  # a site has nothing else to say to its user
        return outcome, at_ms - begun_ms

    def machine(self, site: int) -> OverlaySite | None:
        machine = self.loop.machine(site)
        assert machine is None or isinstance(machine, OverlaySite)
        return machine

    def whereabouts(self) -> dict[int, int]:
        """Operator -> the site that runs it."""
        found: dict[int, int] = {}
        for site in range(self.loop.sites):
            if (machine := self.machine(site)) is not None:
                found |= dict.fromkeys(machine.hosting.hosted, site)
        return found

    def counts(self) -> OverlayCounts:
        machines = [self.machine(site) for site in range(self.loop.sites)]
        up = [machine for machine in machines if machine is not None]
        return OverlayCounts(
            sum(machine.sent["exchange"] for machine in up),
            sum(machine.sent["within"] for machine in up),
            sum(machine.sent["search"] for machine in up),
            sum(machine.sent["directory"] + machine.sent["monitor"] for machine in up),
            tuple(hops for machine in up for hops in machine.searches.hops),
        )
