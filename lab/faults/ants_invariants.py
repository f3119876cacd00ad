"""What must hold of ants, and the scenarios they are put through: lost ants, crashed sites, sites gone for
good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from lab.faults.checkers import Checker, Step, WorldView
from lab.faults.faults import Crash, FaultParams
from lab.faults.placing_ants import (
    EndChain,
    PlaceChain,
    ReplaceChain,
)
from lab.faults.scenario import Request, Scenario, draw_scenario
from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.machines.colony_params import ColonyParams, SiteFacts
from mooring.algorithms.ants.machines.messages import (
    ChainSpec,
)

CHAINS = 4
LIMIT = 0.9
QUICK = ColonyParams(
    AntParams(routing_ants=4, scouts=6, most_limit=LIMIT, failures=2, tolerance=0.05),
    at_once=3,
    attempts=4,
    ant_ms=300.0,
    enough=0.7,
    reservation_ms=900.0,
    lease_ms=2000.0,
    forgotten_ms=5000.0,
)
SETTLE_MS = 12000.0
"""Time for every attempt of every chain, twice, and for all leases to expire."""


def ring_facts(sites: int) -> list[SiteFacts]:
    """Every site knows its neighbours on a ring and one across; latencies by the way around."""
    apart = [[min(abs(a - b), sites - abs(a - b)) for b in range(sites)] for a in range(sites)]
    known = [
        tuple(sorted({(s - 1) % sites, (s + 1) % sites, (s + sites // 2) % sites} - {s}))
        for s in range(sites)
    ]
    latency_s = [tuple(0.01 * hops for hops in row) for row in apart]
    return [SiteFacts(known[s], latency_s[s], latency_s[s], 1.0, 100.0) for s in range(sites)]


def some_chain(number: int, sites: int, *, shares: bool = False) -> ChainSpec:
    """Three tasks of a quarter of a core and 20 MB each: four chains do not fit on three sites.

    Those that share begin with the same stream and compute the same in their first two tasks.
    """
    task = 50.0, 0.005, 0.0, 0.005, 1.0, 0.0, 1.0 / CHAINS, 0.0, 20.0
    source, destination = 0 if shares else number % sites, (number + 1 + sites // 2) % sites
    end_weight = 1.0 / CHAINS
    signatures = (0, 1, 2 + number) if shares else ()
    return ChainSpec(number, (task,) * 3, (), source, False, 1.0, destination, False, end_weight, signatures)


def _machines(world: WorldView) -> list[Any]:
    return [machine for site in range(world.sites) if (machine := world.machine(site)) is not None]


class WithinLimits:
    """No site has more reserved than its load limit and its memory allow."""

    name = "load limits and memory hold"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        machine: Any = world.machine(step.site)
        if machine is None:
            return None
        if machine.deployed.load > LIMIT + 1e-9:
            return f"site {step.site} has a load of {machine.deployed.load:.3f}"
        memory_mb = sum(each.flow[7] for each in machine.deployed.reservations.values())
        return f"site {step.site} has {memory_mb} MB reserved" if memory_mb > 100.0 + 1e-9 else None

    def at_end(self, world: WorldView) -> str | None:
        return None


class CountedRight:
    """The totals of a site are those of its reservations, and pheromones are probabilities."""

    name = "totals and probabilities are right"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        machine: Any = world.machine(step.site)
        if machine is None:
            return None
        flows = [each.flow for each in machine.deployed.reservations.values()]
        expected = np.sum(flows, axis=0) if flows else np.zeros(8)
        if not np.allclose(expected, machine.deployed.totals, rtol=1e-9, atol=1e-9):
            return f"site {step.site} counts {machine.deployed.totals}, its reservations are {expected}"
        for destination, trail in machine.cell.trails.items():
            if abs(sum(trail.weights) - 1.0) > 1e-9 or min(trail.weights) < 0.0:
                return f"site {step.site} goes to {destination} by {trail.weights}"
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


class RunsForAllReaders:
    """What several chains share at a site is counted there for as long as one of them has it."""

    name = "what is shared ends with its last reader"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        machine: Any = world.machine(step.site)
        if machine is None:
            return None
        wanted, counted = set(), set()
        for each in machine.deployed.reservations.values():
            own, segment = each.chain.signatures, each.segment
            wanted.update(own[segment.first : segment.last + 1])
            counted.update(own[segment.first + segment.shared : segment.last + 1])
        lost = wanted - counted
        return f"site {step.site} has readers of {sorted(lost)}, which nobody runs" if lost else None

    def at_end(self, world: WorldView) -> str | None:
        return None


class EveryChainAnswered:
    """In the end every chain whose leader is there is placed, refused with a reason, or ended; and what is
    placed is held at every site that is there."""

    name = "every chain is answered"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        return None

    def at_end(self, world: WorldView) -> str | None:
        for machine in _machines(world):
            for led in machine.leader.led.values():
                number = led.chain.number
                if led.status == "searching" or (led.status == "refused" and not led.reason):
                    return f"chain {number} is {led.status} at the end"
                for segment in led.segments if led.status == "placed" else ():
                    site = world.machine(segment.site)
                    if site is not None and (number, led.attempt) not in site.deployed.reservations:
                        return f"chain {number} is placed, and site {segment.site} does not know"
        return None


class NothingLeaked:
    """In the end nothing is reserved but for chains that are placed there."""

    name = "no reservation is leaked"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        return None

    def at_end(self, world: WorldView) -> str | None:
        placed = {
            (led.chain.number, led.attempt, segment.site)
            for machine in _machines(world)
            for led in machine.leader.led.values()
            if led.status == "placed"
            for segment in led.segments
        }
        for machine in _machines(world):
            for chain, attempt in machine.deployed.reservations:
                if (chain, attempt, machine.site) not in placed:
                    return f"site {machine.site} keeps attempt {attempt} of chain {chain}"
        return None


def ants_checkers() -> Sequence[Checker]:
    return (WithinLimits(), CountedRight(), RunsForAllReaders(), EveryChainAnswered(), NothingLeaked())


def draw_chains(generator: np.random.Generator, sites: int, horizon_ms: float) -> tuple[Request, ...]:
    """Every chain is asked for at its leader, twice; one is to be placed anew with more work, one ends. Half
    of the times they share what they begin with."""
    times = np.sort(generator.integers(0, int(horizon_ms), 2 * CHAINS + 2)).tolist()
    shares = bool(generator.integers(2))
    specs = [some_chain(k % CHAINS, sites, shares=shares) for k in range(2 * CHAINS)]
    asked = [
        Request(float(at), spec.source, PlaceChain(spec)) for at, spec in zip(times, specs, strict=False)
    ]
    ended, changed = specs[0], specs[1]
    heavier = tuple((row[0], 1.2 * row[1], *row[2:]) for row in changed.tasks)
    anew = ReplaceChain(msgspec.structs.replace(changed, tasks=heavier, signatures=()))
    return (
        *asked,
        Request(float(times[-2]), changed.source, anew),
        Request(float(times[-1]), ended.source, EndChain(0)),
    )


def ants_scenarios(faults: FaultParams | None = None) -> Callable[[int], Scenario]:
    """In every fourth a site goes and never comes back."""

    def draw(seed: int) -> Scenario:
        scenario = draw_scenario(seed, draw_chains, lambda sites, latency_ms: SETTLE_MS, faults)
        if seed % 4:
            return scenario
        generator = np.random.default_rng([seed, 1])
        at_ms = float(generator.integers(0, 3000))
        gone = Crash(at_ms, int(generator.integers(scenario.sites)), 10.0 * scenario.end_ms)
        return msgspec.structs.replace(scenario, faults=(*scenario.faults, gone))

    return draw
