"""What must hold of the placement optimisers, whatever happens to their messages and sites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mooring.protocols.optimiser_messages import Fed, Feed, Hosted, OperatorLink
from mooring.protocols.protocol import Output
from mooring.simulator.harness.checkers import Checker, Step, WorldView
from mooring.simulator.harness.faults import FaultParams
from mooring.simulator.harness.scenario import Request, Scenario, draw_scenario

GROUPS, CHAIN = 2, 2
"""Groups of queries, and operators in each one's chain."""
CORES, CAPACITY = 0.6, 1.3
"""Two operators fit on a site, a third is refused."""
SETTLE_MS = 4000.0


def chain_layout(sites: int) -> tuple[Sequence[Sequence[Hosted]], Sequence[float]]:
    """Per group a chain from a stream's site over two operators to a query's site, all begun at the wrong
    end.

    The last operator of the last group may not move.
    """
    hosted: list[list[Hosted]] = [[] for _ in range(sites)]
    for group in range(GROUPS):
        source, consumer = group % sites, (group + 1 + sites // 2) % sites
        for k in range(CHAIN):
            number = group * CHAIN + k
            before = (-1, source) if k == 0 else (number - 1, -1)
            after = (-1, consumer) if k == CHAIN - 1 else (number + 1, -1)
            links = (OperatorLink(*before, 100.0 / 2**k), OperatorLink(*after, 50.0 / 2**k))
            movable = number < GROUPS * CHAIN - 1
            home = (consumer + k) % sites
            hosted[home].append(Hosted(number, 0, consumer, CORES, links, movable))
    return hosted, [CAPACITY] * sites


def _machines(world: WorldView) -> list[Any]:
    return [machine for site in range(world.sites) if (machine := world.machine(site)) is not None]


class RunsOnce:
    """An operator never runs at two sites, and in the end it runs at one, or is on its way."""

    name = "an operator runs at most once"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        seen: dict[int, int] = {}
        for machine in _machines(world):
            for hosted in machine.durable.hosted:
                if hosted.operator in seen:
                    return f"operator {hosted.operator} runs at {seen[hosted.operator]} and {machine.site}"
                seen[hosted.operator] = machine.site
        return None

    def at_end(self, world: WorldView) -> str | None:
        for operator in range(GROUPS * CHAIN):
            found = [m.site for m in _machines(world) for h in m.durable.hosted if h.operator == operator]
            leaving = [
                m.site for m in _machines(world) for x in m.durable.leaving if x.hosted.operator == operator
            ]
            if len(found) != 1 and not leaving:
                return f"operator {operator} runs at sites {found} at the end"
        return None


class OneMovePerGroup:
    """Of all operators with one coordinator, at most one is on its way, and it holds the grant."""

    name = "one move at a time per group"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        moving: dict[int, tuple[int, int, int]] = {}
        for machine in _machines(world):
            for leaving in machine.durable.leaving:
                coordinator = leaving.hosted.coordinator
                if coordinator in moving:
                    return (
                        f"two moves under coordinator {coordinator}: {moving[coordinator]}, {leaving.attempt}"
                    )
                moving[coordinator] = leaving.attempt
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


class WithinCapacity:
    """No site runs more than it has cores for, and what may not move stays."""

    name = "capacities and pins hold"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        machine: Any = world.machine(step.site)
        if machine is None:
            return None
        used = sum(h.cores for h in machine.durable.hosted)
        if used > machine.capacity_cores + 1e-9:
            return f"site {step.site} runs {used} cores of {machine.capacity_cores}"
        moved = [h for h in machine.durable.hosted if not h.movable and h.epoch > 0]
        return f"{moved[0]} moved" if moved else None

    def at_end(self, world: WorldView) -> str | None:
        return None


class NothingLost:
    """What an operator was fed is in its state, wherever that went."""

    name = "no state is lost"

    def __init__(self) -> None:
        self._fed: dict[int, int] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        for effect in step.effects:
            if isinstance(effect, Output) and isinstance(effect.value, Fed):
                value = effect.value
                self._fed[value.operator] = self._fed.get(value.operator, 0) + value.amount
        for machine in _machines(world):
            for hosted in machine.durable.hosted:
                if hosted.state < self._fed.get(hosted.operator, 0):
                    fed = self._fed[hosted.operator]
                    return f"operator {hosted.operator} at site {machine.site} has {hosted.state} of {fed}"
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


class MovesEnd:
    """Once all is healthy, no move and no grant lasts."""

    name = "moves come to an end"

    def __init__(self) -> None:
        self._since: dict[object, float] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        machine: Any = world.machine(step.site)
        if machine is not None:
            for going in (*machine.durable.leaving, *machine.durable.settled, machine.durable.grant):
                if going is not None:
                    self._since.setdefault((step.site, going.attempt, type(going).__name__), step.time_ms)
        return None

    def at_end(self, world: WorldView) -> str | None:
        for machine in _machines(world):
            for going in (*machine.durable.leaving, *machine.durable.settled, machine.durable.grant):
                if going is None:
                    continue
                since = self._since[machine.site, going.attempt, type(going).__name__]
                if world.now_ms - since > SETTLE_MS / 2:
                    return f"site {machine.site} has had {going} since {since:.0f} ms"
        return None


def optimiser_checkers() -> Sequence[Checker]:
    return (RunsOnce(), OneMovePerGroup(), WithinCapacity(), NothingLost(), MovesEnd())


def draw_feeds(generator: np.random.Generator, sites: int, horizon_ms: float) -> tuple[Request, ...]:
    """Data for operators at random times, offered at every site: only where one runs is it taken."""
    times = np.sort(generator.integers(0, int(horizon_ms), 12)).tolist()
    return tuple(
        Request(float(at_ms), site, Feed(k % (GROUPS * CHAIN), 1 + k))
        for k, at_ms in enumerate(times)
        for site in range(sites)
    )


def optimiser_scenarios(faults: FaultParams | None = None) -> Callable[[int], Scenario]:
    return lambda seed: draw_scenario(seed, draw_feeds, lambda sites, latency_ms: SETTLE_MS, faults)
