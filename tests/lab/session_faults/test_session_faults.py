"""The shipped session, journal, moves, fences and ownership under crashes after every effect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.session_faults.campaign import BASES, END_S, at_every_effect, by_seeds, crashes, explored
from lab.session_faults.planted import (
    PLANTED,
)
from lab.session_faults.process import Process
from lab.session_faults.schedule import Crash, Event, Freeze, Leave, Move, Schedule, SiteFault, drawn
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


@pytest.mark.parametrize("site", [0, 1])
def test_an_owner_that_was_overtaken_does_not_answer_whether_a_site_is_left(site: int) -> None:
    """That it is left was written down before; its successor may have had it used again, or keeps it empty
    while this one cannot begin the moves. Site 1 has nothing to move.
    """

    def stands_still(at: int, what: str) -> Iterator[tuple[Event, ...]]:
        if "journal left" in what:
            yield (Freeze(at),)

    found = explored(at_every_effect((Leave(0.8, site),), stands_still))
    assert found.schedules == 1
    assert found.finding is None, str(found.finding)


def test_a_list_that_was_turned_back_is_undone_by_the_next_process() -> None:
    """A move of it had been told as done, and that it goes back had not: only the journal had that."""
    events = (Move(0.8, ((0, 1), (1, 1))), SiteFault(23, 1, "late", 1.0))
    what = carried_out(Schedule(events, END_S)).effects
    turned_back = next(at for at, each in enumerate(what, start=1) if "journal turned back" in each)
    assert any("launch f at b" in each for each in what[:turned_back])
    found = explored([Schedule((*events, Freeze(turned_back)), END_S)])
    assert found.finding is None, str(found.finding)


def test_a_placement_that_was_given_counts_though_its_process_dies_as_it_is_noted() -> None:
    """The next one has to wait for a site first, and begins where the journal says."""

    def dies(at: int, what: str) -> Iterator[tuple[Event, ...]]:
        if "journal placement" in what:
            yield (SiteFault(at, 0, "silent", 1.0), Crash(at))

    found = explored(at_every_effect(BASES["planned anew"], dies))
    assert found.finding is None, str(found.finding)
    assert found.schedules == 2


def test_an_owner_that_was_overtaken_while_it_emptied_a_site_does_not_say_that_it_is_done() -> None:
    """It stood still while it stopped what may run nowhere else."""
    leaves = (Leave(2.8, 2), Leave(5.0, 2, back=True), Leave(5.5, 2), Leave(8.4, 2, back=True))
    faults = (Freeze(56, 3.5), Crash(92), Crash(110, 0.6), SiteFault(35, 0, "dead", 1.9))
    outcome = carried_out(Schedule((Move(1.4, ((0, 2), (1, 1))), *leaves, *faults)))
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
