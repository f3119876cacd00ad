"""The thresholds keep operators calm."""

from __future__ import annotations

import pytest

from mooring.algorithms.relaxation.migration import MigrationParams
from mooring.errors import InputError


def test_sites_are_looked_up_when_the_place_moved_or_after_a_while() -> None:
    params = MigrationParams(displacement_ms=5.0, look_again=6)
    assert not params.looks_up(5.0, 1)
    assert params.looks_up(5.1, 1)
    assert params.looks_up(0.0, 6)


def test_a_move_must_save_more_than_its_threshold() -> None:
    params = MigrationParams(least_saving=0.1)
    assert not params.worth_it(100.0, 90.0)
    assert params.worth_it(100.0, 89.0)
    assert not params.worth_it(0.0, 0.0)


def test_thresholds_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="expected"):
        MigrationParams(least_saving=1.5)
