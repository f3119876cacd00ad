"""The shipped storage code over a simulated disk: every row once in each table, or a refusal with a name."""

from __future__ import annotations

import pytest

from lab.storage_faults.campaign import by_seeds, explored
from lab.storage_faults.planted import (
    PLANTED,
    Bug,
    a_listing_is_taken_for_all_there_is,
    batch_numbers_begin_again,
    dates_say_what_was_read,
    fences_are_left_out,
    forgotten_before_sinks_are_on_disk,
    merges_outlast_the_log_they_stand_in,
    one_source_of_a_query_counts,
    rewritten_logs_are_not_synced,
)
from lab.storage_faults.steps import (
    Batch,
    During,
    Fresh,
    Leftover,
    Look,
    Merge,
    Move,
    Offer,
    Pass,
    PowerCut,
    Refresh,
    Run,
    Schedule,
    SetClock,
    Setting,
    Step,
    Trim,
    draw_schedule,
)
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


LAGGING = Setting(behind_s=5.0, queries=("a", "b"))
READ_ONCE = Setting(keep_a="read", queries=("a", "b"))
SHOWN: dict[Bug, tuple[Setting, tuple[Step, ...]]] = {
    rewritten_logs_are_not_synced: (
        READ_ONCE,
        (Offer(1), Batch("a"), Batch("b"), Offer(1), Batch("a"), Trim(), PowerCut(1)),
    ),
    forgotten_before_sinks_are_on_disk: (
        Setting(durable=False, queries=("a", "d")),
        (Offer(1), Batch("a"), Batch("b"), Batch("d"), Fresh(), PowerCut(595478656)),
    ),
    a_listing_is_taken_for_all_there_is: (
        LAGGING,
        (Offer(1), Batch("a"), Trim(), Batch("b"), Offer(1), Batch("a"), Move("b")),
    ),
    batch_numbers_begin_again: (
        Setting(queries=("a", "c")),
        (Offer(1), Batch("a"), Batch("c"), Refresh("c")),
    ),
    dates_say_what_was_read: (
        Setting(queries=("a", "b")),
        (Offer(1), SetClock(3650 * 86400.0), Batch("a"), Batch("b"), SetClock(0.0), Offer(1), Batch("a")),
    ),
    one_source_of_a_query_counts: (
        Setting(keep_a="read", queries=("a", "c")),
        (During(Batch("c"), 3, meanwhile=(Offer(1), Batch("a"))), Trim()),
    ),
    fences_are_left_out: (
        Setting(queries=("a", "b")),
        (Offer(1), Batch("a"), Batch("b"), Move("b"), Offer(1), Batch("a"), Leftover("b")),
    ),
    merges_outlast_the_log_they_stand_in: (
        Setting(durable=False, compact_interval=3, files_written=2, queries=("a",)),
        (
            *(Offer(1), During(Batch("a"), 1, only="move", meanwhile=(Offer(1),)), Batch("a"), Offer(1)),
            *(Trim(), Offer(1), Batch("a"), Merge(), During(Move("a"), 41, "power cut", seed=579855188)),
        ),
    ),
}


@pytest.mark.parametrize("bug", SHOWN)
def test_what_shows_a_mistake_is_sound_without_it(bug: Bug) -> None:
    schedule = Schedule(0, *SHOWN[bug])
    assert carried_out(schedule, bug).violation is not None
    sound = carried_out(schedule)
    assert sound.violation is None, "\n".join(sound.story)


def test_rows_that_a_run_goes_back_behind_are_not_taken_for_trimmed_too_early() -> None:
    begun = During(Run("overtaken"), 64, "power cut", seed=448984852)
    steps = (Refresh("d"), Offer(1), Trim(), Batch("a"), begun, Trim())
    setting = Setting(keep_a="age", keep_b="read", durable=False, compact_interval=3, queries=("a", "d"))
    outcome = carried_out(Schedule(17324, setting, steps))
    assert outcome.violation is None, "\n".join(outcome.story)


def test_a_failing_schedule_is_made_small() -> None:
    setting, steps = SHOWN[batch_numbers_begin_again]
    other = (Look(), Pass(10.0), Trim(), Offer(2), Batch("a"))
    found = explored([Schedule(0, setting, (*other, *steps, *other))], batch_numbers_begin_again)
    assert found.finding is not None
    small = found.finding.small
    assert len(small.steps) <= len(steps)
    assert carried_out(small, batch_numbers_begin_again).violation is not None


@pytest.mark.soak
def test_twenty_thousand_drawn_schedules_lose_and_double_no_row() -> None:
    found = explored(by_seeds(range(20_000)))
    assert found.finding is None, str(found.finding)


@pytest.mark.soak
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_mistake_is_found_and_shrunk(bug: Bug) -> None:
    found = explored(by_seeds(range(10_000, 20_000)), bug)
    assert found.finding is not None
    assert len(found.finding.small.steps) <= 10
