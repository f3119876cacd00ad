"""The scenarios that placement optimisers are put through together with the mover, and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from lab.faults.checkers import Checker
from lab.faults.faults import Crash, FaultParams
from lab.faults.moving_invariants import (
    SETTLE_MS,
    AnsweredOnce,
    HeldUntilAnswered,
    KnownToAll,
    NothingLeaks,
    RunsOnce,
    WithinCapacity,
)
from lab.faults.runner_model import LoseEngine, MoveByHand
from lab.faults.scenario import Request, Scenario, draw_scenario
from mooring.algorithms.relaxation.machines.messages import FragmentLink, FragmentSpec
from mooring.coordination.move_messages import Proposed
from mooring.coordination.mover import Belonging

GROUPS, CHAIN = 2, 2
"""Groups of queries, and fragments in each one's chain."""
CORES, CAPACITY = 0.6, 1.3
"""Two fragments fit on a site, a third does not."""
FOR_GOOD_MS = 1e9


def chain_layout(sites: int) -> tuple[Sequence[FragmentSpec], Sequence[float]]:
    """Per group a chain from a stream's site over two fragments to a query's site.

    The last fragment of the last group may not move.
    """
    specs = []
    for group in range(GROUPS):
        source, consumer = group % sites, (group + 1 + sites // 2) % sites
        for k in range(CHAIN):
            number = group * CHAIN + k
            before = (-1, source) if k == 0 else (number - 1, -1)
            after = (-1, consumer) if k == CHAIN - 1 else (number + 1, -1)
            links = (FragmentLink(*before, 100.0 / 2**k), FragmentLink(*after, 50.0 / 2**k))
            specs.append(FragmentSpec(number, CORES, links, movable=number < GROUPS * CHAIN - 1))
    return specs, [CAPACITY] * sites


def chain_belonging(sites: int) -> Belonging:
    """Neighbours in a chain."""
    specs, _ = chain_layout(sites)
    return {spec.fragment: [link.fragment for link in spec.links if link.fragment >= 0] for spec in specs}


def chain_homes(sites: int) -> list[int]:
    """All begin at the wrong end."""
    return [(group + 1 + sites // 2 + k) % sites for group in range(GROUPS) for k in range(CHAIN)]


def some_refused(proposed: Proposed) -> str | None:
    """Guards that refuse every third proposal of a site."""
    return "not this one" if proposed.id[2] % 3 == 0 else None


def optimiser_checkers() -> Sequence[Checker]:
    return (
        RunsOnce(),
        AnsweredOnce(),
        HeldUntilAnswered(),
        WithinCapacity(),
        NothingLeaks(),
        KnownToAll(),
    )


def draw_disturbances(generator: np.random.Generator, count: int, horizon_ms: float) -> tuple[Request, ...]:
    """Moves by hand, and engines lost, in some scenarios."""
    sites, found = count - 1, list[Request]()
    for _ in range(int(generator.integers(0, 3)) if generator.random() < 0.5 else 0):
        fragment, to_site = int(generator.integers(GROUPS * CHAIN)), int(generator.integers(sites))
        at_ms = float(generator.integers(int(horizon_ms)))
        found.append(Request(at_ms, sites, MoveByHand(fragment, to_site)))
    if generator.random() < 0.3:
        at_ms = float(generator.integers(int(horizon_ms)))
        found.append(Request(at_ms, int(generator.integers(sites)), LoseEngine()))
    return tuple(sorted(found, key=lambda request: request.at_ms))


def optimiser_scenarios(faults: FaultParams | None = None) -> Callable[[int], Scenario]:
    """Three to six sites and the runner; in one scenario of five a site is lost for good."""

    def draw(seed: int) -> Scenario:
        scenario = draw_scenario(seed, draw_disturbances, lambda count, ms: SETTLE_MS, faults, (4, 7))
        if seed % 5 or scenario.sites < 5:
            return scenario
        generator = np.random.default_rng([seed, 1])
        at_ms = float(generator.integers(3000))
        gone = Crash(at_ms, int(generator.integers(scenario.sites - 1)), FOR_GOOD_MS)
        return msgspec.structs.replace(scenario, faults=(*scenario.faults, gone))

    return draw
