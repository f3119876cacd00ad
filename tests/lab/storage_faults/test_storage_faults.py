"""The shipped storage code over a simulated disk: every row once in each table, or a refusal with a name."""

from __future__ import annotations

import pytest

from lab.storage_faults.campaign import by_seeds, explored
from lab.storage_faults.planted import (
    PLANTED,
    Bug,
    batch_numbers_begin_again,
    rewritten_logs_are_not_synced,
)
from lab.storage_faults.steps import Schedule, draw_schedule
from lab.storage_faults.trial import carried_out


def test_drawn_schedules_lose_and_double_no_row() -> None:
    found = explored(by_seeds(range(60)))
    assert found.finding is None, str(found.finding)


def test_a_schedule_gives_the_same_run_each_time_and_survives_being_written_down() -> None:
    for seed in range(5):
        schedule = draw_schedule(seed)
        again = Schedule.from_json(schedule.as_json())
        assert again == schedule
        assert carried_out(again).digest == carried_out(schedule).digest
    assert carried_out(draw_schedule(0)).digest != carried_out(draw_schedule(1)).digest


@pytest.mark.parametrize("bug", [rewritten_logs_are_not_synced, batch_numbers_begin_again])
def test_a_mistake_is_found_and_what_shows_it_is_small(bug: Bug) -> None:
    found = explored(by_seeds(range(400)), bug)
    assert found.finding is not None
    small = found.finding.small
    assert len(small.steps) <= 8
    assert carried_out(small, bug).violation is not None
    assert carried_out(small).violation is None, "without the mistake it is sound"


@pytest.mark.soak
def test_twenty_thousand_drawn_schedules_lose_and_double_no_row() -> None:
    found = explored(by_seeds(range(20_000)))
    assert found.finding is None, str(found.finding)


@pytest.mark.soak
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_mistake_is_found_and_shrunk(bug: Bug) -> None:
    found = explored(by_seeds(range(10_000, 15_000)), bug)
    assert found.finding is not None
    assert len(found.finding.small.steps) <= 10
