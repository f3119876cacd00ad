"""The shipped session, journal, moves, fences and ownership under crashes after every effect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.session_faults.campaign import BASES, END_S, at_every_effect, by_seeds, crashes, explored
from lab.session_faults.planted import (
    PLANTED,
)
from lab.session_faults.process import Process
from lab.session_faults.schedule import Event, Freeze, Schedule, drawn
from lab.session_faults.trial import carried_out


def test_a_crash_after_every_effect_of_a_list_loses_and_doubles_nothing() -> None:
    found = explored(at_every_effect(BASES["two moves"], crashes))
    assert found.finding is None, str(found.finding)
    assert found.schedules > 45


def test_drawn_schedules_lose_and_double_nothing() -> None:
    found = explored(by_seeds(range(12)))
    assert found.finding is None, str(found.finding)


def test_an_owner_that_stood_still_before_it_read_the_journal_ends_without_a_traceback() -> None:
    found = explored([Schedule((Freeze(2),), END_S)])
    assert found.finding is None, str(found.finding)


def test_an_owner_that_was_overtaken_inside_a_list_does_not_say_how_it_ended() -> None:
    """Its successor has finished the list, or taken it back."""

    def stands_still(at: int, what: str) -> Iterator[tuple[Event, ...]]:
        if "journal step" in what or "journal done" in what:
            yield (Freeze(at),)

    found = explored(at_every_effect(BASES["two moves"], stands_still))
    assert found.finding is None, str(found.finding)


def test_an_owner_that_was_overtaken_while_it_emptied_a_site_does_not_say_that_it_is_done() -> None:
    """It stood still while it stopped what may run nowhere else."""
    outcome = carried_out(drawn(354))
    assert outcome.violation is None, str(outcome.violation)


def test_a_schedule_gives_the_same_run_each_time_and_survives_being_written_down() -> None:
    schedule = drawn(7)
    again = Schedule.from_json(schedule.as_json())
    assert carried_out(schedule).digest == carried_out(again).digest


@pytest.mark.soak
def test_five_thousand_drawn_schedules_lose_and_double_nothing() -> None:
    found = explored(by_seeds(range(5000)))
    assert found.finding is None, str(found.finding)


@pytest.mark.soak
@pytest.mark.parametrize("base", BASES)
def test_every_fault_at_every_effect_loses_and_doubles_nothing(base: str) -> None:
    found = explored(at_every_effect(BASES[base]))
    assert found.finding is None, str(found.finding)


@pytest.mark.soak
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found_and_shrunk(bug: type[Process]) -> None:
    found = explored(by_seeds(range(2000)), bug)
    assert found.finding is not None
    assert len(found.finding.small.events) <= 4
