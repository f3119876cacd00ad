"""Climbing with the rates: which steps are tried, and where it broke."""

from __future__ import annotations

import math

import pytest

from lab.experiments.spark.climb import bracket, climb_steps, is_over, refinement


def test_a_full_climb_starts_at_one_and_a_quick_one_below_the_predicted_edge() -> None:
    assert climb_steps(3.2, quick=False)[:3] == [1.0, 1.5, 2.0]
    assert climb_steps(3.2, quick=True)[0] == 2.5


@pytest.mark.parametrize(
    ("feasible", "expected"),
    [
        ({1.0: True, 1.5: True, 2.0: False}, (1.5, 2.0)),
        ({1.0: True, 1.5: None, 2.0: False}, (1.0, 2.0)),
        ({1.0: False, 1.5: True}, (0.0, 1.0)),
        ({1.0: True}, (1.0, math.inf)),
        ({1.0: None}, (0.0, math.inf)),
    ],
)
def test_the_bracket_lies_below_every_overload(
    feasible: dict[float, bool | None], expected: tuple[float, float]
) -> None:
    assert bracket(feasible) == expected


@pytest.mark.parametrize(
    ("feasible", "quick", "expected"),
    [
        ({1.0: True, 1.5: False}, False, 1.25),
        ({1.0: True, 1.25: True, 1.5: False}, False, None),
        ({1.0: True, 1.5: False}, True, None),
        ({2.5: False}, True, 2.0),
        ({0.5: False}, False, None),
        ({1.0: True, 1.5: None}, False, None),
    ],
)
def test_a_broken_step_is_looked_at_more_closely_until_both_sides_are_known(
    feasible: dict[float, bool | None], quick: bool, expected: float | None
) -> None:
    assert refinement(feasible, quick) == expected


def test_a_climb_ends_with_an_overload_or_on_a_machine_that_spoils_it() -> None:
    assert is_over([True, False])
    assert is_over([True, None, None])
    assert not is_over([True, None])
    assert not is_over([None, True])
