"""An overlay under virtual time: sites that know each other, and queries registered one after the other."""

from __future__ import annotations

from collections.abc import Sequence
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
from mooring.contracts.site_machine import Output
from mooring.model.network.embedding import embed
from mooring.virtual_time.checkers import Step, WorldView
from mooring.virtual_time.faults import Fault
from mooring.virtual_time.harness import Harness
from mooring.virtual_time.scenario import Scenario

SETTLING_PERIODS = 3.0
"""Of the directory, before the first query: its splits follow the adverts from the second on."""
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


class _Outcomes:
    """Listens for what becomes of queries; a checker that finds nothing wrong."""

    name = "listens to outcomes"

    def __init__(self) -> None:
        self.heard: list[tuple[float, Admitted | Rejected]] = []

    def after_step(self, step: Step, world: WorldView) -> str | None:
        for effect in step.effects:
            if isinstance(effect, Output) and isinstance(effect.value, Admitted | Rejected):
                self.heard.append((step.time_ms, effect.value))
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


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
        faults: tuple[Fault, ...] = (),
    ) -> None:
        """`hosted`: operators that run already, each with its site."""
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
        scenario = Scenario(seed, tuple(map(tuple, latency_ms.tolist())), 0.0, faults)
        self._outcomes = _Outcomes()
        self.harness = Harness(
            scenario, overlay_machines(params, start), [self._outcomes], recorded=False, most_steps=10**9
        )
        self.harness.run_until(SETTLING_PERIODS * params.directory.period_ms)

    def register(self, site: int, request: RegisterQuery) -> tuple[Admitted | Rejected, float]:
        """The outcome of a request, and how long it took in virtual milliseconds."""
        heard, begun_ms = self._outcomes.heard, self.harness.now_ms
        before = len(heard)
        self.harness.ask(site, request)
        step_ms = 50.0
        while len(heard) == before and self.harness.now_ms < begun_ms + PATIENCE_MS:
            self.harness.run_until(self.harness.now_ms + step_ms)
            if self.harness.violation is not None:
                raise RuntimeError(str(self.harness.violation.message))
        if len(heard) == before:
            raise RuntimeError(f"nothing was heard of query {request.query} for {PATIENCE_MS:g} ms")
        at_ms, outcome = heard[before]
        return outcome, at_ms - begun_ms

    def machine(self, site: int) -> OverlaySite | None:
        machine = self.harness.machine(site)
        assert machine is None or isinstance(machine, OverlaySite)
        return machine

    def whereabouts(self) -> dict[int, int]:
        """Operator -> the site that runs it."""
        found: dict[int, int] = {}
        for site in range(self.harness.sites):
            if (machine := self.machine(site)) is not None:
                found |= dict.fromkeys(machine.hosting.hosted, site)
        return found

    def counts(self) -> OverlayCounts:
        machines = [self.machine(site) for site in range(self.harness.sites)]
        up = [machine for machine in machines if machine is not None]
        return OverlayCounts(
            sum(machine.sent["exchange"] for machine in up),
            sum(machine.sent["within"] for machine in up),
            sum(machine.sent["search"] for machine in up),
            sum(machine.sent["directory"] + machine.sent["monitor"] for machine in up),
            tuple(hops for machine in up for hops in machine.searches.hops),
        )
