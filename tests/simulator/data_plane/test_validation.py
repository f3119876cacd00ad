"""The simulator against queueing theory."""

from __future__ import annotations

import pytest

from mooring.load.queueing import allen_cunneen_wait_s
from mooring.simulator.data_plane.validation import TheoryCase, approximations, cases, run_case


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_theory_lies_within_a_narrow_interval(case: TheoryCase) -> None:
    found = run_case(case)
    assert found.relative <= 0.01
    assert found.contains(case.theory), (found, case.theory)


def test_the_corrected_gg1_approximation_is_within_ten_percent_where_the_plain_one_is_not() -> None:
    found = approximations()
    assert len(found) == 18
    assert max(case.error for case in found) <= 0.10
    regular = found[0]
    plain = float(allen_cunneen_wait_s(regular.rho, 1.0, regular.arrival_scv, regular.service_scv))
    assert plain / regular.simulated_s - 1 > 0.5
