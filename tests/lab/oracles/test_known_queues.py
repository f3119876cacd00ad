"""The simulator against queueing theory."""

from __future__ import annotations

import pytest

from lab.oracles.known_queues import (
    TheoryCase,
    approximations,
    cases,
    mean_sojourn_s,
    run_case,
    single_queue,
)
from mooring.model.load.queueing import allen_cunneen_wait_s, mg1_wait_s


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_theory_lies_within_a_narrow_interval(case: TheoryCase) -> None:
    found = run_case(case)
    assert found.relative <= 0.01
    assert found.contains(case.theory), (found, case.theory)


def test_services_between_constant_and_exponential_have_the_variability_asked_for() -> None:
    """Of an M/G/1 queue the wait tells it: exact for any of them."""
    for scv in (0.1, 0.4, 0.7):
        case = TheoryCase(
            "M/G/1",
            lambda scv=scv: single_queue(0.6, scv),  # type: ignore[misc]
            2e5,
            mean_sojourn_s,
            float(mg1_wait_s(0.6, 1.0, scv)) + 1,
        )
        found = run_case(case, seeds=8)
        assert found.contains(case.theory), (scv, found, case.theory)


def test_the_corrected_gg1_approximation_is_within_ten_percent_where_the_plain_one_is_not() -> None:
    found = approximations()
    assert len(found) == 18
    assert max(case.error for case in found) <= 0.10
    regular = found[0]
    plain = float(allen_cunneen_wait_s(regular.rho, 1.0, regular.arrival_scv, regular.service_scv))
    assert plain / regular.simulated_s - 1 > 0.5
