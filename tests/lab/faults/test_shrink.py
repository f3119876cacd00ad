"""Shrinking: what is left still fails, and nothing of it can go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lab.faults.faults import Crash, Noise, Partition, Pause
from lab.faults.scenario import Request, Scenario
from lab.faults.shrink import shrink, without_needless, without_site

LATENCY_MS = tuple(tuple(float(10 * abs(a - b)) for b in range(4)) for a in range(4))


def scenario_of(count: int) -> Scenario:
    requests = tuple(Request(float(i), i % 4, i) for i in range(count))
    return Scenario(seed=0, latency_ms=LATENCY_MS, end_ms=1000.0, requests=requests)


@given(st.integers(1, 40), st.sets(st.integers(0, 39), max_size=5))
def test_exactly_the_items_that_matter_are_left(count: int, culprits: set[int]) -> None:
    culprits = {culprit for culprit in culprits if culprit < count}
    small = shrink(scenario_of(count), lambda one: culprits <= {request.request for request in one.requests})
    assert {request.request for request in small.requests} == culprits


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 12))
def test_nothing_more_can_be_left_out_even_where_failing_is_erratic(kinds: list[int], modulus: int) -> None:
    """Not monotone: a smaller list may pass where a larger and a still smaller one fail."""

    def fails(items: list[Request]) -> bool:
        return bool(items) and sum(item.request for item in items) % modulus == total % modulus

    items = [Request(0.0, 0, kind) for kind in kinds]
    total = sum(kinds)
    small = without_needless(items, fails)
    assert fails(small)
    assert not any(fails(small[:i] + small[i + 1 :]) for i in range(len(small)))


def test_faults_become_short_and_plain() -> None:
    faults = (Noise(0.0, 900.0, 0.4, 0.5, 300.0), Crash(5.0, 1, 400.0, 2), Pause(0.0, 64.0, 2))
    drawn = Scenario(seed=0, latency_ms=LATENCY_MS, end_ms=1000.0, faults=faults)

    def fails(one: Scenario) -> bool:
        return any(isinstance(fault, Noise) and fault.jitter_ms for fault in one.faults) and any(
            isinstance(fault, Crash) for fault in one.faults
        )

    small = shrink(drawn, fails)
    assert small.faults == (Noise(0.0, 1.0, 0.0, 0.0, 300.0), Crash(5.0, 0, 1.0))
    assert small.sites == 1


def test_a_site_that_is_needed_stays_and_the_others_move_up() -> None:
    faults = (Partition(0.0, 5.0, (1, 3)), Crash(1.0, 3, 1.0))
    scenario = Scenario(seed=0, latency_ms=LATENCY_MS, end_ms=9.0, faults=faults)
    assert without_site(scenario, 3) is None
    smaller = without_site(scenario, 1)
    assert smaller is not None
    assert smaller.faults == (Partition(0.0, 5.0, (2,)), Crash(1.0, 2, 1.0))
    assert smaller.latency_ms[0] == (0.0, 20.0, 30.0)


def test_runs_are_limited() -> None:
    runs = 0

    def fails(_: Scenario) -> bool:
        nonlocal runs
        runs += 1
        return True

    shrink(scenario_of(1000), fails, most_runs=5)
    assert runs <= 5
