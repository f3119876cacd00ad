"""A deadline tells how much of it is spent, on the clock it was given."""

from __future__ import annotations

import pytest

from mooring.contracts.deadline import NO_DEADLINE, Deadline


class Hands:
    """A clock that somebody sets."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_it_is_spent_evenly_from_the_moment_it_was_made() -> None:
    clock = Hands()
    deadline = Deadline.in_seconds(8.0, clock)
    seen = []
    for clock.now_s in (1000.0, 1002.0, 1007.5, 1008.0, 1012.0):
        seen.append((deadline.share_spent, deadline.expired))
    assert seen == [(0.0, False), (0.25, False), (0.9375, False), (1.0, True), (1.5, True)]


@pytest.mark.parametrize("budget_s", [0.0, -1.0])
def test_no_time_at_all_is_spent_at_once(budget_s: float) -> None:
    deadline = Deadline.in_seconds(budget_s, Hands())
    assert deadline.exists
    assert deadline.expired


def test_without_a_budget_nothing_is_ever_spent() -> None:
    clock = Hands()
    deadline = Deadline.in_seconds(None, clock)
    clock.now_s = 1e9
    assert deadline == NO_DEADLINE
    assert (deadline.exists, deadline.share_spent, deadline.expired) == (False, 0.0, False)
