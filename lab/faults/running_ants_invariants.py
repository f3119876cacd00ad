"""The scenarios that ants of running queries are put through together with the mover, and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.faults.checkers import Checker, Step, WorldView
from lab.faults.faults import FaultParams
from lab.faults.moving_invariants import (
    AnsweredOnce,
    HeldUntilAnswered,
    KnownToAll,
    NothingLeaks,
    RunsOnce,
)
from lab.faults.optimiser_invariants import CHAIN, GROUPS, optimiser_scenarios
from lab.faults.runner_model import SiteNode
from lab.faults.scenario import Scenario
from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.machines.colony_params import ColonyParams, SiteFacts, UpdatingParams
from mooring.algorithms.ants.machines.running_messages import KnownColony, RunningChain

LIMIT = 0.9
CORES = 0.4
"""Of a fragment: two fit on a site, a third does not."""
QUICK = ColonyParams(
    AntParams(routing_ants=3, scouts=5, most_limit=LIMIT, failures=2, tolerance=0.05),
    at_once=3,
    ant_ms=400.0,
    enough=0.7,
    reservation_ms=900.0,
    lease_ms=2000.0,
    forgotten_ms=5000.0,
)
OFTEN = UpdatingParams(look_ms=200.0, longest_rest_ms=800.0, round_ms=150.0, patience=3)


def running_colony(sites: int) -> list[KnownColony]:
    """Per group a chain of two fragments from a stream's site to a query's, on a ring of sites."""
    apart = [[min(abs(a - b), sites - abs(a - b)) for b in range(sites)] for a in range(sites)]
    latency_s = [tuple(0.01 * hops for hops in row) for row in apart]
    task = 50.0, CORES / 50.0, 0.0, CORES / 50.0, 1.0, 0.0, 1.0 / GROUPS, 0.0, 20.0
    chains = tuple(
        RunningChain(
            group,
            tuple(range(group * CHAIN, (group + 1) * CHAIN)),
            (task,) * CHAIN,
            (),
            -1,
            group % sites,
            1.0,
            -1,
            (group + 1 + sites // 2) % sites,
            1.0 / GROUPS,
            0.0,
        )
        for group in range(GROUPS)
    )
    return [
        KnownColony(
            SiteFacts(
                tuple(sorted({(s - 1) % sites, (s + 1) % sites} - {s})),
                latency_s[s],
                latency_s[s],
                1.0,
                100.0,
            ),
            chains,
            beta=1.05,
        )
        for s in range(sites)
    ]


def full_homes(sites: int) -> list[int]:
    """All begin at the same site, which cannot keep up with them."""
    return [sites - 1] * (GROUPS * CHAIN)


class WithinLimit:
    """Where ants alone have moved something to, the load limit holds."""

    name = "load limits hold"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        node = world.machine(step.site)
        if not isinstance(node, SiteNode) or node.ground.by_others:
            return None
        ground = node.ground
        here = [f for f, epoch in ground.running[step.site].items() if epoch == ground.epochs[f]]
        came = [fragment for fragment in here if ground.epochs[fragment] > 0]
        if came and CORES * len(here) > LIMIT:
            return f"site {step.site} runs {here}, of which {came} came"
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


def running_ants_checkers() -> Sequence[Checker]:
    return (RunsOnce(), AnsweredOnce(), HeldUntilAnswered(), WithinLimit(), NothingLeaks(), KnownToAll())


def running_ants_scenarios(faults: FaultParams | None = None) -> Callable[[int], Scenario]:
    """Those of the optimisers: moves by hand, lost engines, agents and movers that crash, a site gone."""
    return optimiser_scenarios(faults)
