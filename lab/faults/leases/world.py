"""The shared queries that leases are tried on, and the scenarios they are put through.

Two queries share o0 and o1 and part ways at o2 and o3 (Figure 2 of the paper); a third joins o1 with a stream
of its own, so it depends on both; a fourth is on its own. Three operators fit on a site, a fourth does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from lab.faults.faults import Crash, FaultParams
from lab.faults.leases.parallel_mover import ParallelMover
from lab.faults.scenario import Request, Scenario, draw_scenario
from mooring.algorithms.overlay.leases.adaptation import PlansFor
from mooring.algorithms.overlay.leases.adaptation_messages import LinkMeasured
from mooring.algorithms.overlay.leases.lease_params import LeaseParams
from mooring.algorithms.overlay.leases.lease_site import ApplyPlan, LeaseSite, LeaseStart
from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings
from mooring.algorithms.overlay.search.ahead import KnownLatencies
from mooring.algorithms.overlay.search.final_plans import FinalPlan
from mooring.algorithms.overlay.search.partial_plans import Candidates
from mooring.algorithms.overlay.search.replicas import replica_number
from mooring.algorithms.overlay.search.shared_operator import (
    NOWHERE,
    QueryEnd,
    SharedOperator,
    Source,
    queries_of,
)
from mooring.algorithms.overlay.search.similar_plans import KeptPlans
from mooring.algorithms.overlay.search.stored_plans import StoredPlans
from mooring.contracts.site_machine import MakeMachine
from mooring.coordination.move_messages import StartedAt

CORES, USABLE_CORES = 0.6, 1.9
LIMIT_MS = 80.0
OPERATORS, QUERIES = 6, 4
MOST_PLANS = 12
QUICK = LeaseParams(
    lock_ms=1200.0,
    patience_ms=900.0,
    retry_ms=150.0,
    silence_ms=1500.0,
    releases=3,
    rest_ms=100.0,
    report_ms=1000.0,
    review_ms=3000.0,
)
SETTLE_MS = 9_000.0
"""Time for every lease to end, for locks to be asked after, and for what the mover does to be told."""


def shared_queries(sites: int) -> list[SharedOperator]:
    def end(query: int, limit_ms: float = LIMIT_MS) -> tuple[QueryEnd, ...]:
        return (QueryEnd(query, (query + 1) % sites, limit_ms),)

    return [
        SharedOperator(0, sources=(Source(0),), output_rate=100.0, cores=CORES),
        SharedOperator(1, publishers=(0,), output_rate=50.0, cores=CORES),
        SharedOperator(2, publishers=(1,), ends=end(0), output_rate=20.0, cores=CORES),
        SharedOperator(3, publishers=(1,), ends=end(1), output_rate=20.0, cores=CORES),
        SharedOperator(
            4, publishers=(1,), sources=(Source(1 % sites),), ends=end(2), output_rate=20.0, cores=CORES
        ),
        SharedOperator(5, sources=(Source(2 % sites),), ends=end(3), output_rate=20.0, cores=CORES),
    ]


def first_places(sites: int) -> list[StartedAt]:
    """Two operators at a site where there are few; every replica that there may be runs nowhere."""
    operators = shared_queries(sites)
    found = [StartedAt(own.operator, own.operator % sites, 1) for own in operators]
    shared = queries_of(operators)
    for number, queries in shared.items():
        if len(queries) > 1:
            found += [StartedAt(replica_number(number, query), NOWHERE, 0) for query in queries]
    return found


def ring_ms(a: int, b: int, sites: int) -> float:
    around = abs(a - b)
    return 10.0 * min(around, sites - around)


def ring_plans(sites: int) -> PlansFor:
    """Stands for the plan exchange: plans over three candidate sites per operator, by the latencies that were
    first. They get older as links change, and are made anew when something has moved."""
    latency_ms = np.array([[ring_ms(a, b, sites) for b in range(sites)] for a in range(sites)])
    latencies, kept = KnownLatencies(latency_ms), KeptPlans(most=MOST_PLANS)
    made: dict[object, Sequence[FinalPlan]] = {}

    def plans_for(operator: int, around: OverlaySurroundings) -> Sequence[FinalPlan]:
        served = around.served.own
        at = {number: around.site_of(number) for number in served}
        if operator not in at or NOWHERE in at.values():
            return ()
        key = operator, tuple(at.items())
        if key not in made:
            stored = StoredPlans(
                list(served.values()), at, latencies, lambda own: near(at[own.operator]), kept
            )
            made[key] = stored.of(operator)
        return made[key]

    def near(home: int) -> Candidates:
        sites_near = np.unique([home, (home + 1) % sites, (home + sites // 2) % sites])
        room = np.full(len(sites_near), np.inf)
        return Candidates(sites_near, room, room)

    return plans_for


def lease_world(kind: type[LeaseSite] = LeaseSite, params: LeaseParams = QUICK) -> MakeMachine:
    """Sites, and the mover as the last peer. What sites measure first is 10 ms per step around a ring."""
    plans: dict[int, PlansFor] = {}

    def make(site: int, peers: int, generator: np.random.Generator) -> LeaseSite | ParallelMover:
        sites = peers - 1
        if site == sites:
            return ParallelMover(sites, generator, first_places(sites))
        start = LeaseStart(
            shared_queries(sites),
            first_places(sites),
            USABLE_CORES,
            1000.0,
            {other: ring_ms(site, other, sites) for other in range(sites)},
            params,
            plans_for=plans.setdefault(sites, ring_plans(sites)),
        )
        return kind(site, sites, generator, start)

    return make


def draw_changes(generator: np.random.Generator, peers: int, horizon_ms: float) -> tuple[Request, ...]:
    """Links that become slower or as they were, seen from both ends; and operators that somebody wants
    elsewhere, at sites that may or may not run them."""
    sites, found = peers - 1, list[Request]()
    for at_ms in np.sort(generator.integers(0, int(horizon_ms), 14)).tolist():
        if generator.random() < 0.5:
            a, b = generator.permutation(sites)[:2].tolist()
            ms = ring_ms(a, b, sites) + float(generator.choice([0.0, 30.0, 60.0]))
            found += [Request(float(at_ms), x, LinkMeasured(y, ms)) for x, y in ((a, b), (b, a))]
            continue
        count = int(generator.integers(1, 4))
        operators = np.sort(generator.permutation(OPERATORS)[:count]).tolist()
        moves = tuple((operator, int(generator.integers(sites))) for operator in operators)
        request = ApplyPlan(int(generator.integers(QUERIES)), moves)
        found.append(Request(float(at_ms), int(generator.integers(sites)), request))
    return tuple(found)


def lease_scenarios(faults: FaultParams | None = None) -> Callable[[int], Scenario]:
    """In every fourth a site goes and never comes back."""

    def draw(seed: int) -> Scenario:
        scenario = draw_scenario(seed, draw_changes, lambda sites, latency_ms: SETTLE_MS, faults, (5, 8))
        return scenario if seed % 4 else with_one_gone(scenario, 3000.0)

    return draw


def with_one_gone(scenario: Scenario, until_ms: float) -> Scenario:
    """A site goes before `until_ms` and never comes back; not the mover."""
    generator = np.random.default_rng([scenario.seed, 1])
    at_ms = float(generator.integers(0, int(until_ms)))
    gone = Crash(at_ms, int(generator.integers(scenario.sites - 1)), 10.0 * scenario.end_ms)
    return msgspec.structs.replace(scenario, faults=(*scenario.faults, gone))


def latencies_of(
    operators: Iterable[SharedOperator],
    sites: Callable[[int], int],
    hop_ms: Callable[[int, int], float],
) -> dict[int, float]:
    """Query -> its latency, by walking every way from the streams, as the protocol does not. `hop_ms`: to an
    operator's site, the second, from where its input comes from or its results go to."""
    own = {each.operator: each for each in operators}
    found: dict[int, float] = {}

    def arrival(number: int) -> float:
        here = sites(number)
        ways = [hop_ms(source.site, here) for source in own[number].sources]
        ways += [arrival(p) + hop_ms(sites(p), here) for p in own[number].publishers]
        return max(ways, default=0.0)

    for number, each in own.items():
        for end in each.ends:
            found[end.query] = max(
                found.get(end.query, 0.0), arrival(number) + hop_ms(end.site, sites(number))
            )
    return found
