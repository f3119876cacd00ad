"""Events per CPU second of the data-plane simulator, beside SimPy and a bare heapq loop in the same run.

    python -m lab.benchmarks simulator

An event is one arrival at an operator or one completion, with batches of one, counted the same way for all.
All simulate the same overlay: chains of operators spread evenly over sites, Poisson sources, exponential
services, a network latency on every arc. Rounds alternate between them, and the median round counts.
"""

from __future__ import annotations

import heapq
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from lab.benchmarks._record import Measurement, carry_out, prose_of
from mooring.cli.output.result_table import ResultTable
from mooring.simulator.data_plane.arrivals import Poisson
from mooring.simulator.data_plane.model import Model, Reader
from mooring.simulator.data_plane.simulation import Simulation

Happenings = Generator[simpy.Event, Any, None]
"""What a SimPy process waits for; the answer is whatever the event brought."""


@dataclass(frozen=True)
class Overlay:
    """`chains` chains of `length` operators over `sites` sites, all sites equally loaded."""

    sites: int
    chains: int
    length: int = 5
    rate: float = 200.0  # tuples per second into each chain
    load: float = 0.7  # utilisation of every site
    latency_s: float = 0.02

    @property
    def service_s(self) -> float:
        return self.load * self.sites / (self.chains * self.length * self.rate)

    def site(self, chain: int, step: int) -> int:
        return (chain + step * (self.sites // self.length + 1)) % self.sites

    def seconds_for(self, events: float) -> float:
        return events / (2 * self.chains * self.length * self.rate)


def mooring_events(overlay: Overlay, events: float) -> tuple[int, float]:
    """(events, CPU seconds) of Mooring's kernel."""
    model = Model()
    for _ in range(overlay.sites):
        model.site(1.0)
    for chain in range(overlay.chains):
        steps = [model.operator(overlay.site(chain, step), service_scv=1.0) for step in range(overlay.length)]
        cost_us = 1e6 * overlay.service_s
        readers = [Reader(operator=step, cost_us=cost_us, latency_s=overlay.latency_s) for step in steps]
        model.from_source(model.source(Poisson(overlay.rate)), readers[0])
        for step, reader in zip(steps, [*readers[1:], Reader(query=model.query())], strict=True):
            model.from_operator(step, reader)
    horizon = overlay.seconds_for(events)
    simulation = Simulation(model, np.random.default_rng(0), horizon_s=horizon)
    simulation.run(min(1e-3, horizon / 10))  # compiles, or loads what was compiled
    before, start = simulation.events, time.process_time()
    overload = simulation.run(horizon)
    spent = time.process_time() - start
    assert overload is None, overload
    return simulation.events - before, spent


def heapq_events(overlay: Overlay, events: float) -> tuple[int, float]:
    """The same with the standard library's heap, as tersely as Python allows."""
    rng = np.random.default_rng(0)
    draws = iter(rng.standard_exponential(int(2 * events)).tolist())
    service, latency, length = overlay.service_s, overlay.latency_s, overlay.length
    queues: list[deque[tuple[int, int, float]]] = [deque() for _ in range(overlay.sites)]
    heap: list[tuple[float, int, int, int, float]] = []  # time, kind, chain, step, birth
    push, pop = heapq.heappush, heapq.heappop
    start, horizon, count = time.process_time(), overlay.seconds_for(events), 0
    latency_sum = 0.0
    for chain in range(overlay.chains):
        push(heap, (next(draws) / overlay.rate, 0, chain, 0, 0.0))
    while heap:
        now, kind, chain, step, birth = pop(heap)
        if now > horizon:
            break
        if kind == 0:  # a source
            push(heap, (now + next(draws) / overlay.rate, 0, chain, 0, 0.0))
            push(heap, (now + latency, 1, chain, 0, now))
            continue
        count += 1
        queue = queues[overlay.site(chain, step)]
        if kind == 1:  # an arrival
            queue.append((chain, step, birth))
            if len(queue) == 1:
                push(heap, (now + next(draws) * service, 2, chain, step, birth))
            continue
        queue.popleft()
        if queue:
            push(heap, (now + next(draws) * service, 2, *queue[0]))
        if step + 1 < length:
            push(heap, (now + latency, 1, chain, step + 1, birth))
        else:
            latency_sum += now - birth
    return count, time.process_time() - start


def simpy_events(overlay: Overlay, events: float) -> tuple[int, float]:
    """The same in SimPy as its documentation models queues: a process per tuple, a resource per site."""
    rng = np.random.default_rng(0)
    draws = iter(rng.standard_exponential(int(2 * events)).tolist())
    env = simpy.Environment()
    sites = [simpy.Resource(env, capacity=1) for _ in range(overlay.sites)]
    counted = [0]
    latency_sum = [0.0]

    def travel(chain: int) -> Happenings:
        birth = env.now
        for step in range(overlay.length):
            yield env.timeout(overlay.latency_s)
            counted[0] += 1
            with sites[overlay.site(chain, step)].request() as turn:
                yield turn
                yield env.timeout(next(draws) * overlay.service_s)
            counted[0] += 1
        latency_sum[0] += env.now - birth

    def source(chain: int) -> Happenings:
        while True:
            yield env.timeout(next(draws) / overlay.rate)
            env.process(travel(chain))

    for chain in range(overlay.chains):
        env.process(source(chain))
    start = time.process_time()
    env.run(until=overlay.seconds_for(events))
    return counted[0], time.process_time() - start


def simpy_callback_events(overlay: Overlay, events: float) -> tuple[int, float]:
    """SimPy at its fastest: one process per site, no process per tuple, arrivals as bare callbacks."""
    rng = np.random.default_rng(0)
    draws = iter(rng.standard_exponential(int(2 * events)).tolist())
    env = simpy.Environment()
    stores = [simpy.Store(env) for _ in range(overlay.sites)]
    counted = [0]
    latency_sum = [0.0]

    def send(chain: int, step: int, birth: float) -> None:
        def arrive(_: object) -> None:
            counted[0] += 1
            stores[overlay.site(chain, step)].put((chain, step, birth))

        env.timeout(overlay.latency_s).callbacks.append(arrive)

    def source(chain: int) -> Happenings:
        while True:
            yield env.timeout(next(draws) / overlay.rate)
            send(chain, 0, env.now)

    def server(site: int) -> Happenings:
        while True:
            chain, step, birth = yield stores[site].get()
            yield env.timeout(next(draws) * overlay.service_s)
            counted[0] += 1
            if step + 1 < overlay.length:
                send(chain, step + 1, birth)
            else:
                latency_sum[0] += env.now - birth

    for chain in range(overlay.chains):
        env.process(source(chain))
    for site in range(overlay.sites):
        env.process(server(site))
    start = time.process_time()
    env.run(until=overlay.seconds_for(events))
    return counted[0], time.process_time() - start


def speed(run: Callable[[Overlay, float], tuple[int, float]], overlay: Overlay, events: float) -> float:
    count, seconds = run(overlay, events)
    return count / seconds


def side_by_side(rounds: int = 3) -> dict[str, float]:
    """Median events per CPU second of each on 50 sites, rounds alternating."""
    overlay = Overlay(sites=50, chains=100)
    contenders: dict[str, tuple[Callable[[Overlay, float], tuple[int, float]], float]] = {
        "mooring": (mooring_events, 1e7),
        "heapq": (heapq_events, 6e5),
        "simpy": (simpy_events, 1.5e5),
        "simpy, callbacks": (simpy_callback_events, 1.5e5),
    }
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (run, events) in contenders.items():
            found[name].append(speed(run, overlay, events))
    return {name: statistics.median(speeds) for name, speeds in found.items()}


def growth(rounds: int = 3) -> dict[str, dict[str, float]]:
    """Median events per CPU second as sites, operators and rates grow; utilisation stays the same."""
    cases = {
        "sites": {str(n): Overlay(sites=n, chains=2 * n, rate=20_000 / (2 * n)) for n in (10, 100, 1000)},
        "operators": {str(5 * n): Overlay(sites=100, chains=n, rate=20_000 / n) for n in (100, 1000, 10_000)},
        "rate": {str(r): Overlay(sites=100, chains=200, rate=float(r)) for r in (10, 100, 1000)},
    }
    return {
        axis: {
            label: statistics.median(speed(mooring_events, overlay, 5e6) for _ in range(rounds))
            for label, overlay in overlays.items()
        }
        for axis, overlays in cases.items()
    }


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    beside = side_by_side()
    yield ResultTable.of(
        "50 sites, 500 operators",
        [
            {"by": name, "million_events_per_CPU_s": value / 1e6, "mooring_to_it": beside["mooring"] / value}
            for name, value in beside.items()
        ],
    )
    yield ResultTable.of(
        "Growth of one thing at a time, utilisation staying the same",
        [
            {"growing": axis, "to": int(size), "million_events_per_CPU_s": value / 1e6}
            for axis, speeds in growth().items()
            for size, value in speeds.items()
        ],
    )


SIMULATOR = Measurement(
    "simulator",
    "Events per CPU second of the data-plane simulator, beside SimPy and a bare heapq loop",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(SIMULATOR, sys.argv[1:])
