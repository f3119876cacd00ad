"""The wait of two moments beside waits that are known exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mooring.model.load.queued.latency_kernels import wait_in_services as compiled
from mooring.model.load.queueing import mg1_wait_s
from mooring.model.load.two_moment_wait import wait_in_services
from tests.model.load.exact_queue import exact_wait

LOADS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.95)
VARIABILITIES = (0.25, 0.5, 1.0, 2.0, 4.0)


@pytest.mark.parametrize("arrivals", VARIABILITIES)
@pytest.mark.parametrize("service", VARIABILITIES)
def test_it_is_within_a_twentieth_of_exact_waits_at_every_load(arrivals: float, service: float) -> None:
    for load in LOADS:
        exact = exact_wait(load, arrivals, service)
        assert wait_in_services(load, arrivals, service) == pytest.approx(exact, rel=0.05), load


def test_constant_service_behind_gamma_arrivals_is_within_a_tenth() -> None:
    """A constant is Erlang with many phases here."""
    for arrivals in (0.25, 0.5):
        for load in (0.3, 0.9):
            exact = exact_wait(load, arrivals, 1 / 16)
            assert wait_in_services(load, arrivals, 1 / 16) == pytest.approx(exact, rel=0.1)


def test_poisson_arrivals_are_exact() -> None:
    for load in LOADS:
        for service in (0.0, 0.3, 1.0, 4.0):
            assert wait_in_services(load, 1.0, service) == pytest.approx(
                float(mg1_wait_s(load, 1.0, service))
            )


def gamma_root(load: float, scv: float) -> float:
    """The share of tuples that find an exponential server busy, by iterating its fixed point."""
    met = 0.0
    for _ in range(20_000):
        met = (1.0 + scv * (1.0 - met) / load) ** (-1.0 / scv)
    return met


def test_exponential_service_behind_gamma_arrivals_is_exact() -> None:
    for load in (0.05, 0.3, 0.6, 0.9):
        for scv in (0.01, 0.1, 0.4, 0.7, 0.95):
            met = gamma_root(load, scv)
            assert wait_in_services(load, scv, 1.0) == pytest.approx(met / (1.0 - met), rel=3e-4)


def test_exponential_service_behind_constant_arrivals_is_exact() -> None:
    met = 0.5
    for _ in range(500):
        met = math.exp(-(1.0 - met) / 0.7)
    assert wait_in_services(0.7, 0.0, 1.0) == pytest.approx(met / (1.0 - met), rel=3e-4)


@pytest.mark.parametrize("service", [0.0, 0.25, 1.0, 1.5, 4.0])
def test_it_is_continuous_where_its_parts_meet(service: float) -> None:
    for load in (0.1, 0.5, 0.95):
        poisson = wait_in_services(load, 1.0, service)
        for arrivals in (1.0 - 1e-7, 1.0 + 1e-7):
            assert wait_in_services(load, arrivals, service) == pytest.approx(poisson, rel=1e-3)
        exponential = wait_in_services(load, 0.4, 1.0)
        for near in (1.0 - 1e-7, 1.0 + 1e-7):
            assert wait_in_services(load, 0.4, near) == pytest.approx(exponential, rel=1e-5)


def test_more_load_means_more_waiting_and_full_load_waits_for_ever() -> None:
    loads = np.linspace(0.01, 0.99, 50)
    for arrivals in (0.0, 0.05, 0.3, 0.9, 1.5, 6.0):
        for service in (0.0, 0.3, 1.0, 2.0, 10.0):
            waits = np.array([wait_in_services(float(load), arrivals, service) for load in loads])
            assert np.isfinite(waits).all()
            assert (np.diff(waits) >= 0.0).all()
            assert wait_in_services(1.0, arrivals, service) == math.inf
            assert wait_in_services(0.0, arrivals, service) == 0.0


def test_constant_arrivals_of_constant_work_never_wait() -> None:
    assert wait_in_services(0.9, 0.0, 0.0) == pytest.approx(0.0, abs=1e-9)


def test_compiled_it_is_the_same() -> None:
    rng = np.random.default_rng(0)
    for load, arrivals, service in rng.uniform([0, 0, 0], [1.1, 3, 3], (500, 3)).tolist():
        assert compiled(load, arrivals, service) == pytest.approx(
            wait_in_services(load, arrivals, service), rel=1e-12
        )
