"""Queues whose answers are known, to hold the simulator against.

Each case is run with several seeds; the mean's 99.9% interval (Student's t over the independent
seeds) has to be narrow and to contain the theory's value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from mooring.arrays import Floats
from mooring.model.load.queueing import kraemer_langenbach_belz_wait_s, mg1_wait_s, mm1_sojourn_s
from mooring.simulator.data_plane.arrivals import Poisson, Renewal
from mooring.simulator.data_plane.model import Model, Reader
from mooring.simulator.data_plane.simulation import NO_LIMITS, Simulation

SECOND_US = 1e6  # cost of a service of mean one second on one core


@dataclass(frozen=True)
class TheoryCase:
    """A model, how long to run it (virtual seconds), what to measure, and what theory says."""

    name: str
    build: Callable[[], Model]
    seconds: float
    measure: Callable[[Simulation], float]
    theory: float


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its confidence interval."""

    mean: float
    half_width: float

    def contains(self, value: float) -> bool:
        return abs(value - self.mean) <= self.half_width

    @property
    def relative(self) -> float:
        return self.half_width / abs(self.mean)


def interval(samples: Floats, confidence: float = 0.999) -> Interval:
    """Student's interval for the mean of independent samples."""
    spread = float(np.std(samples, ddof=1)) / np.sqrt(len(samples))
    return Interval(
        float(np.mean(samples)), float(stats.t.ppf((1 + confidence) / 2, len(samples) - 1)) * spread
    )


def run_case(case: TheoryCase, *, seeds: int = 16, warm_up: float = 0.05) -> Interval:
    """Simulate a case with `seeds` seeds, leaving out the first share of each run."""
    found = []
    for seed in range(seeds):
        horizon = case.seconds * (1 + warm_up)
        rng = np.random.default_rng(seed)
        simulation = Simulation(case.build(), rng, horizon_s=horizon, bins=1, limits=NO_LIMITS)
        simulation.run(case.seconds * warm_up)
        simulation.restart_statistics()
        simulation.run(horizon)
        found.append(case.measure(simulation))
    return interval(np.array(found))


def mean_sojourn_s(simulation: Simulation) -> float:
    return simulation.latency().mean_ms / 1e3


def little_ratio(simulation: Simulation) -> float:
    """L / (lambda W) at the first site: one, by Little's law."""
    site = simulation.world.sites[0]
    return float(site["area"] / site["sojourn"])


def single_queue(rho: float, service_scv: float, arrival_scv: float = 1.0) -> Model:
    model = Model()
    operator = model.operator(model.site(1.0), service_scv=service_scv)
    model.from_source(model.source(Renewal(rho, arrival_scv)), Reader(operator=operator, cost_us=SECOND_US))
    model.from_operator(operator, Reader(query=model.query()))
    return model


def to_completion(rate: float, services_s: tuple[float, ...]) -> Model:
    """Exponential services in a row at one site, each tuple through all of them: one service, their sum."""
    model = Model()
    site = model.site(1.0, to_completion=True)
    operators = [model.operator(site, service_scv=1.0) for _ in services_s]
    readers = [
        Reader(operator=operator, cost_us=service * SECOND_US)
        for operator, service in zip(operators, services_s, strict=True)
    ]
    model.from_source(model.source(Poisson(rate)), readers[0])
    for operator, reader in zip(operators, [*readers[1:], Reader(query=model.query())], strict=True):
        model.from_operator(operator, reader)
    return model


def tandem(rate: float, services_s: tuple[float, ...]) -> Model:
    """Exponential servers in a row, a network latency of one second between any two."""
    model = Model()
    operators = [model.operator(model.site(1.0), service_scv=1.0) for _ in services_s]
    readers = [
        Reader(operator=operator, cost_us=service * SECOND_US, latency_s=float(index > 0))
        for index, (operator, service) in enumerate(zip(operators, services_s, strict=True))
    ]
    model.from_source(model.source(Poisson(rate)), readers[0])
    for operator, reader in zip(operators, [*readers[1:], Reader(query=model.query())], strict=True):
        model.from_operator(operator, reader)
    return model


# Jackson network: external rates, service times, and routing probabilities (the rest leaves).
JACKSON_RATES = np.array([0.3, 0.0, 0.1, 0.0])
JACKSON_SERVICES_S = np.array([1.0, 0.8, 1.5, 0.6])
JACKSON_ROUTES = np.array(
    [[0.0, 0.5, 0.3, 0.0], [0.2, 0.0, 0.0, 0.5], [0.0, 0.4, 0.1, 0.2], [0.1, 0.0, 0.0, 0.1]]
)


def jackson() -> Model:
    model = Model()
    operators = [model.operator(model.site(1.0), service_scv=1.0) for _ in JACKSON_RATES]
    query = model.query()

    def to(operator: int, share: float) -> Reader:
        return Reader(operator=operator, cost_us=float(JACKSON_SERVICES_S[operator]) * SECOND_US, share=share)

    for operator in operators:
        routes = JACKSON_ROUTES[operator]
        onward = [to(other, float(share)) for other, share in enumerate(routes) if share > 0]
        model.from_operator(operator, *onward, Reader(query=query, share=float(1 - routes.sum())))
        if JACKSON_RATES[operator] > 0:
            model.from_source(model.source(Poisson(float(JACKSON_RATES[operator]))), to(operator, 1.0))
    return model


def jackson_sojourn_s() -> float:
    """Traffic equations, then a product of M/M/1 queues (Jackson 1957), then Little's law."""
    visits = np.linalg.solve(np.eye(len(JACKSON_RATES)) - JACKSON_ROUTES.T, JACKSON_RATES)
    rho = visits * JACKSON_SERVICES_S
    return float(np.sum(rho / (1 - rho)) / JACKSON_RATES.sum())


def overlay(sites: int = 6, chains: int = 12, length: int = 4, rho: float = 0.6) -> Model:
    """Chains of operators scattered evenly over shared sites: several classes of tuples per queue."""
    model = Model()
    for _ in range(sites):
        model.site(1.0)
    rate = rho * sites / (chains * length)
    query = model.query()
    for chain in range(chains):
        operators = [model.operator((chain + 5 * step) % sites, service_scv=1.0) for step in range(length)]
        reader = [Reader(operator=operator, cost_us=SECOND_US) for operator in operators]
        model.from_source(model.source(Poisson(rate)), reader[0])
        for operator, following in zip(operators, [*reader[1:], Reader(query=query)], strict=True):
            model.from_operator(operator, following)
    return model


def cases() -> list[TheoryCase]:
    """The exact cases."""
    mm1, md1, mh2 = (
        float(mg1_wait_s(rho, 1.0, scv)) + 1 for rho, scv in ((0.6, 1.0), (0.7, 0.0), (0.5, 4.0))
    )
    one_service = float(mg1_wait_s(0.4, 1.5, (1.0 + 0.25) / 1.5**2)) + 1.5
    in_a_row = float(mm1_sojourn_s(0.5, 1.0) + mm1_sojourn_s(0.5, 1.2)) + 1
    return [
        TheoryCase("M/M/1", lambda: single_queue(0.6, 1.0), 1.2e6, mean_sojourn_s, mm1),
        TheoryCase("M/D/1", lambda: single_queue(0.7, 0.0), 0.8e6, mean_sojourn_s, md1),
        TheoryCase("M/H2/1", lambda: single_queue(0.5, 4.0), 2.5e6, mean_sojourn_s, mh2),
        TheoryCase("tandem", lambda: tandem(0.5, (1.0, 1.2)), 0.8e6, mean_sojourn_s, in_a_row),
        TheoryCase(
            "M/G/1 to completion", lambda: to_completion(0.4, (1.0, 0.5)), 0.8e6, mean_sojourn_s, one_service
        ),
        TheoryCase("Jackson with feedback", jackson, 1.0e6, mean_sojourn_s, jackson_sojourn_s()),
        TheoryCase("overlay of shared sites", overlay, 2.0e5, mean_sojourn_s, 4 / (1 - 0.6)),
        TheoryCase("Little's law", lambda: single_queue(0.7, 1.0), 2.0e5, little_ratio, 1.0),
    ]


@dataclass(frozen=True)
class Approximation:
    """A G/G/1 queue: simulated wait beside the corrected approximation."""

    rho: float
    arrival_scv: float
    service_scv: float
    simulated_s: float
    approximate_s: float

    @property
    def error(self) -> float:
        return abs(self.approximate_s / self.simulated_s - 1)


def approximations(*, seconds: float = 1.5e6, seed: int = 0) -> list[Approximation]:
    """Eighteen G/G/1 queues: arrivals and services regular, random and bursty, at two loads."""
    found = []
    for rho in (0.5, 0.8):
        for arrival_scv in (0.25, 1.0, 4.0):
            for service_scv in (0.25, 1.0, 4.0):
                model = single_queue(rho, service_scv, arrival_scv)
                rng = np.random.default_rng(seed)
                simulation = Simulation(model, rng, horizon_s=seconds, bins=1, limits=NO_LIMITS)
                simulation.run(seconds)
                wait = mean_sojourn_s(simulation) - 1
                formula = float(kraemer_langenbach_belz_wait_s(rho, 1.0, arrival_scv, service_scv))
                found.append(Approximation(rho, arrival_scv, service_scv, wait, formula))
    return found
