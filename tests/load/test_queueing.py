"""Waiting-time formulas against values known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.load.queueing import (
    allen_cunneen_wait_s,
    kraemer_langenbach_belz_wait_s,
    mg1_wait_s,
    mm1_sojourn_s,
)


def test_mm1_sojourn_is_one_over_mu_minus_lambda() -> None:
    rates = np.array([0.1, 1.0, 3.9])
    np.testing.assert_allclose(mm1_sojourn_s(rates, 0.25), 1 / (4 - rates))


def test_constant_service_waits_half_as_long_as_exponential() -> None:
    assert mg1_wait_s(0.7, 1.0, 0.0) == pytest.approx(mg1_wait_s(0.7, 1.0, 1.0) / 2)


def test_an_overloaded_site_waits_for_ever_and_an_idle_one_not_at_all() -> None:
    for formula in (allen_cunneen_wait_s, kraemer_langenbach_belz_wait_s):
        np.testing.assert_array_equal(formula([0.0, 1.0, 1.5], 1.0, 0.5, 0.5), [0.0, np.inf, np.inf])


def test_the_correction_vanishes_for_poisson_arrivals_and_only_ever_lowers_the_wait() -> None:
    rho = np.linspace(0.05, 0.99, 20)
    for scv in (0.0, 0.5, 1.0, 4.0):
        plain = allen_cunneen_wait_s(rho, 1.0, 1.0, scv)
        np.testing.assert_allclose(kraemer_langenbach_belz_wait_s(rho, 1.0, 1.0, scv), plain)
        for arrival_scv in (0.0, 0.3, 2.0, 8.0):
            corrected = kraemer_langenbach_belz_wait_s(rho, 1.0, arrival_scv, scv)
            assert np.all(corrected <= allen_cunneen_wait_s(rho, 1.0, arrival_scv, scv) + 1e-12)


def test_dd1_never_waits_once_corrected() -> None:
    assert kraemer_langenbach_belz_wait_s(0.9, 1.0, 0.0, 0.0) == 0
