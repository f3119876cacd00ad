"""Queries registered by messages between sites, under virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from lab.faults.faults import Noise
from lab.faults.harness import Harness
from lab.faults.scenario import Scenario
from lab.oracles.plan_enumeration import enumerate_plans
from mooring.algorithms.overlay.protocol.generation import SearchParams
from mooring.algorithms.overlay.protocol.messages import Admitted, RegisterQuery, Rejected
from mooring.algorithms.overlay.protocol.overlay_site import OverlayParams
from mooring.algorithms.overlay.search.ahead import KnownLatencies
from mooring.algorithms.overlay.search.partial_plans import Candidates
from mooring.algorithms.overlay.search.shared_operator import QueryEnd, SharedOperator, Source
from mooring.algorithms.overlay.search.similar_plans import KeptPlans
from mooring.algorithms.overlay.virtual_run import OverlayRun
from mooring.arrays import Floats
from mooring.contracts.site_machine import MakeMachine
from mooring.virtual_time.event_loop import EventLoop


def plane(sites: int, seed: int) -> Floats:
    place = np.random.default_rng(seed).random((sites, 2)) * 100.0
    distance = np.sqrt(((place[:, None] - place[None]) ** 2).sum(axis=2))
    return np.asarray(np.round(distance + 1.0 - np.eye(sites), 3))


def chain(length: int, source: int, cores: float = 0.3) -> tuple[SharedOperator, ...]:
    """Each halves what it reads."""
    return tuple(
        SharedOperator(
            j,
            publishers=(j - 1,) if j else (),
            sources=() if j else (Source(source),),
            output_rate=0.5 ** (j + 1),
            cores=cores,
        )
        for j in range(length)
    )


def overlay(latency_ms: Floats, cores: float = 1.0, seed: int = 0, **more: object) -> OverlayRun:
    sites = len(latency_ms)
    search = SearchParams(
        candidates=sites, kept=KeptPlans(most=100_000, latency_step_ms=1e-9, cost_step=1e-9)
    )
    params = OverlayParams(search=search)
    rng = np.random.default_rng(seed)
    return OverlayRun(
        latency_ms,
        np.full(sites, cores),
        np.full(sites, np.inf),
        params,
        rng,
        **more,  # type: ignore[arg-type]
    )


def register(run: OverlayRun, query: int, site: int, limit_ms: float, length: int) -> Admitted | Rejected:
    request = RegisterQuery(query, limit_ms, 0.0, (length - 1,), chain(length, source=0))
    return run.register(site, request)[0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_messages_find_the_cheapest_plan_that_full_enumeration_finds(seed: int) -> None:
    latency_ms, limit_ms, cores = plane(5, seed), 160.0, 0.7
    outcome = register(overlay(latency_ms, cores, seed), 0, site=4, limit_ms=limit_ms, length=4)
    room = Candidates(np.arange(5), np.full(5, cores), np.full(5, np.inf))
    operators = list(chain(4, source=0))
    operators[-1] = SharedOperator(
        3, publishers=(2,), ends=(QueryEnd(0, 4, limit_ms),), output_rate=0.5**4, cores=0.3
    )
    done = enumerate_plans(
        operators, {own.operator: room for own in operators}, KnownLatencies(latency_ms), k=3
    )
    best = done.tables[3].cost.min()
    assert isinstance(outcome, Admitted)
    assert outcome.latency_ms <= limit_ms
    at = dict(outcome.sites)
    assert sum(0.5 ** (j + 1) for j in range(3) if at[j] != at[j + 1]) == pytest.approx(best)


def test_a_second_query_reuses_what_runs_and_keeps_the_first_ones_limit() -> None:
    latency_ms = plane(6, 3)
    run = overlay(latency_ms)
    first = register(run, 0, site=3, limit_ms=150.0, length=2)
    before = run.whereabouts()
    second = register(run, 1, site=5, limit_ms=400.0, length=4)
    assert isinstance(first, Admitted)
    assert isinstance(second, Admitted)
    at = run.whereabouts()
    assert set(before) == {0, 1}
    assert set(at) == {0, 1, 2, 3}
    latency = latency_ms[0, at[0]] + latency_ms[at[0], at[1]] + latency_ms[at[1], 3]
    assert latency <= 150.0
    for site in range(6):
        assert sum(0.3 for where in at.values() if where == site) <= 1.0


def hosts_of(run: OverlayRun, operator: int, sites: int) -> list[int]:
    machines = {site: run.machine(site) for site in range(sites)}
    return [site for site, own in machines.items() if own is not None and operator in own.hosting.hosted]


def test_once_admitted_what_was_moved_runs_at_its_new_site_alone() -> None:
    """The old site is a second away, and everything else near: the query is told when that site knows too."""
    latency_ms = np.full((4, 4), 5.0)
    latency_ms[3, :] = latency_ms[:, 3] = 1_000.0
    np.fill_diagonal(latency_ms, 0.0)
    run = overlay(latency_ms)
    operators = chain(1, source=3)
    assert isinstance(run.register(3, RegisterQuery(0, 5_000.0, 0.0, (0,), operators))[0], Admitted)
    assert hosts_of(run, 0, 4) == [3]
    moved = (msgspec.structs.replace(operators[0], sources=(Source(0, 1.0),)),)
    second = run.register(1, RegisterQuery(1, 100.0, 0.0, (0,), moved))[0]
    assert isinstance(second, Admitted)
    assert second.moves == 1
    assert hosts_of(run, 0, 4) == [site for _, site in second.sites]


def test_a_query_that_nobody_can_serve_in_time_is_rejected_and_nothing_changes() -> None:
    latency_ms = plane(6, 3)
    run = overlay(latency_ms)
    direct_ms = float(latency_ms[0, 5])
    rejected = register(run, 0, site=5, limit_ms=0.5 * direct_ms, length=3)
    assert isinstance(rejected, Rejected)
    assert rejected.obstacle.resource == "limit"
    assert rejected.obstacle.needed == pytest.approx(0.5 * direct_ms)
    assert rejected.obstacle.best > 0.6 * direct_ms
    assert run.whereabouts() == {}
    assert isinstance(register(run, 1, site=5, limit_ms=2.0 * direct_ms + 1.0, length=3), Admitted)


def test_a_query_that_no_site_has_room_for_says_what_is_missing() -> None:
    run = overlay(plane(4, 0), cores=0.2)
    rejected = register(run, 0, site=1, limit_ms=1_000.0, length=1)
    assert isinstance(rejected, Rejected)
    obstacle = rejected.obstacle
    assert (obstacle.resource, obstacle.needed) == ("cores", 0.3)
    assert obstacle.best == pytest.approx(0.2)


def test_plans_are_stored_where_operators_run_and_found_by_the_query() -> None:
    latency_ms = plane(6, 3)
    run = overlay(latency_ms)
    assert isinstance(register(run, 0, site=5, limit_ms=500.0, length=3), Admitted)
    again = RegisterQuery(0, 500.0, 0.0, (2,), chain(3, source=0), only_prepare=True)
    before = run.whereabouts()
    run.register(5, again)
    assert run.whereabouts() == before
    machine = run.machine(before[2])
    assert machine is not None
    plans = machine.agents.store.of(2)
    assert plans
    assert all(set(dict(plan.moves)) <= {0, 1, 2} for plan in plans)
    fastest = min(plan.change_of(0) for plan in plans)
    if fastest < 0.0:
        chosen = machine.agents.store.choose(0, needed_ms=-fastest)
        assert chosen is not None
        assert chosen.change_of(0) == pytest.approx(fastest)
    assert machine.agents.store.choose(0, needed_ms=-fastest + 1.0) is None


def test_registration_survives_lost_and_doubled_messages() -> None:
    noise = Noise(185_000.0, 230_000.0, loss=0.08, duplicate=0.1, jitter_ms=20.0)

    def noisy(latency_ms: Sequence[Sequence[float]], make: MakeMachine, seed: int) -> EventLoop:
        scenario = Scenario(seed, tuple(map(tuple, latency_ms)), 0.0, (noise,))
        return Harness(scenario, make, recorded=False, most_steps=10**9)

    run = overlay(plane(5, 1), make_loop=noisy)
    outcomes = [register(run, q, site=4, limit_ms=1_000.0, length=2) for q in range(3)]
    assert any(isinstance(outcome, Admitted) for outcome in outcomes)
    run.loop.run_until(260_000.0)
    assert isinstance(register(run, 9, site=4, limit_ms=1_000.0, length=3), Admitted)
    hosts: dict[int, list[int]] = {}
    for site in range(5):
        machine = run.machine(site)
        assert machine is not None
        for operator in machine.hosting.hosted:
            hosts.setdefault(operator, []).append(site)
    assert {operator: len(sites) for operator, sites in hosts.items()} == {0: 1, 1: 1, 2: 1}


def test_the_messages_of_a_query_do_not_grow_with_the_network() -> None:
    per_query, with_those_within = [], []
    for sites in (12, 48):
        rng = np.random.default_rng(0)
        latency_ms = plane(sites, 5)
        run = OverlayRun(latency_ms, np.full(sites, 1.0), np.full(sites, np.inf), OverlayParams(), rng)
        before = run.counts()
        for query in range(6):
            source, client = rng.integers(sites, size=2).tolist()
            operators = tuple(
                SharedOperator(
                    10 * query + own.operator,
                    publishers=tuple(10 * query + p for p in own.publishers),
                    sources=own.sources,
                    output_rate=own.output_rate,
                    cores=own.cores,
                )
                for own in chain(4, source=source)
            )
            run.register(client, RegisterQuery(query, 1_000.0, 0.0, (10 * query + 3,), operators))
        after = run.counts()
        per_query.append((after.exchange_messages - before.exchange_messages) / 6)
        within = (after.within_messages - before.within_messages) / 6
        with_those_within.append(per_query[-1] + within)
    assert per_query[1] <= 1.2 * per_query[0]
    assert with_those_within[1] <= 1.02 * with_those_within[0], "what grows is what leaves its site"
