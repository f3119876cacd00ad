"""The directory finds what was advertised, in few hops, and forgets who is gone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from lab.faults.checkers import Step, WorldView
from lab.faults.faults import Crash
from lab.faults.harness import Harness
from lab.faults.scenario import Scenario
from mooring.algorithms.overlay.protocol.directory import (
    Directory,
    DirectoryMessage,
    DirectoryParams,
    Found,
    Within,
)
from mooring.contracts.site_machine import Asked, Effect, Event, Output, Received, Send, Started, TimerDue

PERIOD_MS = 1_000.0
PARAMS = DirectoryParams(period_ms=PERIOD_MS)


class Site:
    """A site with a directory and nothing else; it advertises two attributes of its own."""

    def __init__(self, site: int, sites: int, attributes: tuple[float, ...], params: DirectoryParams) -> None:
        self.directory, self._attributes = Directory(site, sites, params), attributes
        self._next_ms: float | None = None

    def next_timer(self) -> float | None:
        return self._next_ms

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started():
                self._next_ms = now_ms
            case TimerDue():
                self._next_ms = now_ms + PERIOD_MS
                advert = self.directory.advertise(self._attributes, None, now_ms)
                return (*advert, *self.directory.turn(now_ms))
            case Asked(request=request):
                assert isinstance(request, tuple)
                return self.directory.search(request, most=10_000)[1]
            case Received(sender=sender, message=message):
                assert isinstance(message, DirectoryMessage)
                effects, found = self.directory.receive(sender, message, now_ms)
                return effects if found is None else (*effects, Output(found))
        return ()


class Listener:
    name = "listens"

    def __init__(self) -> None:
        self.found: list[Found] = []

    def after_step(self, step: Step, world: WorldView) -> str | None:
        self.found += [e.value for e in step.effects if isinstance(e, Output) and isinstance(e.value, Found)]
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


class Sites:
    def __init__(self, count: int, seed: int = 0, faults: tuple[Crash, ...] = ()) -> None:
        rng = np.random.default_rng(seed)
        self.points = [(float(x), float(y)) for x, y in rng.lognormal(size=(count, 2))]
        latency = tuple(tuple(0.0 if i == j else 5.0 for j in range(count)) for i in range(count))
        self.listener = Listener()
        self.harness = Harness(
            Scenario(seed, latency, 0.0, faults),
            lambda site, sites, _: Site(site, sites, self.points[site], PARAMS),
            [self.listener],
            recorded=False,
        )

    def search(self, asker: int, *ranges: Within) -> Found:
        before = len(self.listener.found)
        self.harness.ask(asker, ranges)
        self.harness.run_until(self.harness.now_ms + 500.0)
        assert self.harness.violation is None, self.harness.violation
        (found,) = self.listener.found[before:]
        return found


def sites_in(points: list[tuple[float, float]], *ranges: Within) -> list[int]:
    return [
        site
        for site, point in enumerate(points)
        if all(r.least <= point[r.attribute] <= r.most for r in ranges)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 13, 64])
def test_a_search_by_ranges_finds_exactly_the_sites_within_them(count: int) -> None:
    world = Sites(count)
    world.harness.run_until(20.5 * PERIOD_MS)
    rng = np.random.default_rng(count)
    for _ in range(10):
        low, high = np.sort(rng.lognormal(size=2)).tolist()
        ranges = (Within(0, least=low), Within(1, most=high))
        found = world.search(int(rng.integers(count)), *ranges)
        assert [advert.site for advert in found.adverts] == sites_in(world.points, *ranges)
        assert found.complete
    assert len(world.search(0).adverts) == count


@pytest.mark.parametrize("count", [16, 100])
def test_no_search_takes_more_hops_than_the_logarithm_of_the_sites(count: int) -> None:
    world = Sites(count, seed=1)
    world.harness.run_until(8.5 * PERIOD_MS)
    assert max(world.search(site).hops for site in range(0, count, 7)) <= math.ceil(math.log2(count))


def test_adverts_are_spread_over_the_sites() -> None:
    world = Sites(64, seed=2)
    world.harness.run_until(12.5 * PERIOD_MS)
    stored = [len(world.harness.machine(site).directory.stored) for site in range(64)]
    assert max(stored) <= 6
    assert sum(count > 0 for count in stored) >= 32


def test_who_is_gone_is_forgotten_and_who_comes_back_is_known_again() -> None:
    """Five sites: what the lost one was responsible for is not answered while it is gone."""
    world = Sites(5, faults=(Crash(8_000.0, 4, 6_000.0, None),))
    world.harness.run_until(7_900.0)
    assert [advert.site for advert in world.search(0).adverts] == [0, 1, 2, 3, 4]
    world.harness.run_until(13_000.0)
    stored = {s for i in range(4) for s in world.harness.machine(i).directory.stored}
    assert 4 not in stored
    world.harness.run_until(20_000.0)
    assert [advert.site for advert in world.search(0).adverts] == [0, 1, 2, 3, 4]


def test_a_changed_advert_replaces_the_old_one_at_once() -> None:
    world = Sites(16, seed=3)
    world.harness.run_until(8.5 * PERIOD_MS)
    world.harness.machine(5)._attributes = (50.0, 50.0)
    world.harness.run_until(9.6 * PERIOD_MS)
    found = world.search(2, Within(0, least=40.0))
    assert [advert.site for advert in found.adverts] == [5]
    everywhere = [s for i in range(16) for s in world.harness.machine(i).directory.stored]
    assert everywhere.count(5) == 1


def test_a_search_that_is_given_up_gives_what_has_come_in() -> None:
    directory = Directory(0, 4, PARAMS)
    number, effects = directory.search((), 10)
    assert [effect.to for effect in effects if isinstance(effect, Send)] == [0]
    found = directory.give_up(number)
    assert found is not None
    assert not found.complete
    assert directory.give_up(number) is None
