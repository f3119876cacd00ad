"""Waiting-time formulas against values known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.model.load.queueing import (
    allen_cunneen_wait_s,
    interpolated_wait_s,
    kraemer_langenbach_belz_wait_s,
    mg1_wait_s,
    mm1_sojourn_s,
)
from mooring.model.load.two_moment_wait import wait_in_services
from tests.model.load.exact_queue import exact_wait


def test_mm1_sojourn_is_one_over_mu_minus_lambda() -> None:
    rates = np.array([0.1, 1.0, 3.9])
    np.testing.assert_allclose(mm1_sojourn_s(rates, 0.25), 1 / (4 - rates))


def test_constant_service_waits_half_as_long_as_exponential() -> None:
    assert mg1_wait_s(0.7, 1.0, 0.0) == pytest.approx(mg1_wait_s(0.7, 1.0, 1.0) / 2)


def test_an_overloaded_site_waits_for_ever_and_an_idle_one_not_at_all() -> None:
    for formula in (allen_cunneen_wait_s, kraemer_langenbach_belz_wait_s, interpolated_wait_s):
        np.testing.assert_array_equal(formula([0.0, 1.0, 1.5], 1.0, 0.5, 0.5), [0.0, np.inf, np.inf])


def test_the_correction_vanishes_for_poisson_arrivals_and_only_ever_lowers_the_wait() -> None:
    rho = np.linspace(0.05, 0.99, 20)
    for scv in (0.0, 0.5, 1.0, 4.0):
        plain = allen_cunneen_wait_s(rho, 1.0, 1.0, scv)
        np.testing.assert_allclose(kraemer_langenbach_belz_wait_s(rho, 1.0, 1.0, scv), plain)
        for arrival_scv in (0.0, 0.3, 2.0, 8.0):
            corrected = kraemer_langenbach_belz_wait_s(rho, 1.0, arrival_scv, scv)
            assert np.all(corrected <= allen_cunneen_wait_s(rho, 1.0, arrival_scv, scv) + 1e-12)


def test_the_interpolated_wait_takes_arrays_and_times() -> None:
    found = interpolated_wait_s([10.0, 20.0], 0.02, [0.5, 2.0], 0.25)
    expected = [0.02 * wait_in_services(0.2, 0.5, 0.25), 0.02 * wait_in_services(0.4, 2.0, 0.25)]
    np.testing.assert_allclose(found, expected)


def test_dd1_never_waits_once_corrected() -> None:
    assert kraemer_langenbach_belz_wait_s(0.9, 1.0, 0.0, 0.0) == 0


def off(load: float, arrival_scv: float, service_scv: float) -> tuple[float, float]:
    """Of Kraemer and Langenbach-Belz, relative to the exact wait, and to wait and service."""
    exact = exact_wait(load, arrival_scv, service_scv)
    found = float(kraemer_langenbach_belz_wait_s(load, 1.0, arrival_scv, service_scv))
    return found / exact - 1.0, (found - exact) / (exact + 1.0)


def test_the_oracle_agrees_with_queues_that_are_known() -> None:
    for load in (0.3, 0.9):
        for scv in (0.25, 1.0, 4.0):
            assert exact_wait(load, 1.0, scv) == pytest.approx(float(mg1_wait_s(load, 1.0, scv)), rel=1e-6)
    root = 0.5  # of E2/M/1: s = (2 r / (1 - s + 2 r))^2
    for _ in range(200):
        root = (2 * 0.6 / (1 - root + 2 * 0.6)) ** 2
    assert exact_wait(0.6, 0.5, 1.0) == pytest.approx(root / (1 - root), rel=1e-6)


@pytest.mark.parametrize("arrivals", [0.25, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("service", [0.25, 0.5, 1.0, 2.0, 4.0])
def test_the_correction_is_within_a_tenth_of_exact_waits_from_half_load_on(
    arrivals: float, service: float
) -> None:
    """And of the latency, wait and service, at every load."""
    found = {load: off(load, arrivals, service) for load in (0.1, 0.3, 0.5, 0.7, 0.9)}
    assert max(abs(found[load][0]) for load in (0.5, 0.7, 0.9)) <= 0.095
    assert max(abs(latency) for _, latency in found.values()) <= 0.07


@pytest.mark.parametrize(
    ("arrivals", "service", "wrong"),
    [(0.25, 0.25, -0.325), (4.0, 0.25, 0.124), (4.0, 4.0, -0.105), (0.5, 1.0, 0.145), (0.25, 1.0, 0.095)],
)
def test_at_light_load_the_correction_is_off_by_what_its_description_says(
    arrivals: float, service: float, wrong: float
) -> None:
    assert off(0.3, arrivals, service)[0] == pytest.approx(wrong, abs=0.002)
