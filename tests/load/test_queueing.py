"""Waiting-time formulas against values known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.arrays import Floats
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


def phases(scv: float) -> tuple[Floats, Floats]:
    """Of mean one: Erlang below, hyperexponential with balanced means above an exponential's variability."""
    if scv > 1.0:
        first = 0.5 * (1.0 + np.sqrt((scv - 1.0) / (scv + 1.0)))
        return np.array([first, 1.0 - first]), np.diag([-2.0 * first, 2.0 * first - 2.0])
    count = round(1.0 / scv)
    return np.eye(count)[0], count * (np.eye(count, k=1) - np.eye(count))


def exact_wait(load: float, arrival_scv: float, service_scv: float) -> float:
    """Mean wait in services of a queue whose arrivals and services pass through phases (matrix-geometric)."""
    (begin, arriving), (enter, serving) = phases(arrival_scv), phases(service_scv)
    arriving = load * arriving
    one, other = np.eye(len(begin)), np.eye(len(enter))
    arrive, leave = -arriving.sum(axis=1), -serving.sum(axis=1)
    up = np.kron(np.outer(arrive, begin), other)
    stay = np.kron(arriving, other) + np.kron(one, serving)
    down = np.kron(one, np.outer(leave, enter))
    ratio = np.zeros_like(stay)
    for _ in range(20_000):
        ratio, before = -(up + ratio @ ratio @ down) @ np.linalg.inv(stay), ratio
        if np.abs(ratio - before).max() < 1e-13:
            break
    ahead = np.linalg.inv(np.eye(len(ratio)) - ratio)
    balance = np.block(
        [
            [arriving, np.kron(np.outer(arrive, begin), enter[None, :])],
            [np.kron(one, leave[:, None]), stay + ratio @ down],
        ]
    )
    whole = np.concatenate([np.ones(len(begin)), ahead.sum(axis=1)])
    found = np.linalg.lstsq(np.vstack([balance.T, whole]), np.eye(len(whole) + 1)[-1], rcond=None)[0]
    present = found[len(begin) :] @ ahead @ ahead.sum(axis=1)
    return float(present / load - 1.0)


def off(load: float, arrival_scv: float, service_scv: float) -> tuple[float, float]:
    """Of the corrected wait, relative to the exact wait, and to wait and service."""
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
def test_at_light_load_it_is_off_by_what_the_guide_says(
    arrivals: float, service: float, wrong: float
) -> None:
    assert off(0.3, arrivals, service)[0] == pytest.approx(wrong, abs=0.002)
