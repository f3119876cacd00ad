"""A site keeps up by three rules, and a site that the machine held back is neither good nor bad."""

from __future__ import annotations

from lab.quota_bench.verdict import FragmentLook, judge, judge_site

TRIGGER_S = 4.0


def look(
    batch_s: float = 1.0, backlog_rows: float = 40.0, rate: float = 10.0, site: str = "ada"
) -> FragmentLook:
    rows = round(rate * 16)
    return FragmentLook(
        site, rows_in=rows, batches=4, mean_batch_s=batch_s, input_rate=rate, backlog_rows=backlog_rows
    )


def test_a_busy_site_with_short_batches_and_one_trigger_of_rows_waiting_keeps_up() -> None:
    verdict = judge_site(0.46, 0.5, {"a": look(batch_s=3.9)}, TRIGGER_S)
    assert verdict.keeps_up
    assert verdict.utilisation == 0.92


def test_a_site_that_settled_at_full_cpu_with_ever_fuller_batches_is_overloaded() -> None:
    """The trap: nothing piles up, since the batches grew; but they outlast the trigger."""
    verdict = judge_site(0.48, 0.5, {"a": look(batch_s=6.0)}, TRIGGER_S)
    assert verdict.overloaded
    assert "6.0 s of 4 s" in verdict.reasons[0]


def test_a_batch_that_never_ended_shows_as_a_backlog() -> None:
    verdict = judge_site(0.47, 0.5, {"a": look(batch_s=0.0, backlog_rows=160.0)}, TRIGGER_S)
    assert verdict.overloaded


def test_full_cpu_alone_is_overload() -> None:
    assert judge_site(0.49, 0.5, {"a": look()}, TRIGGER_S).overloaded


def test_a_few_rows_of_a_trickle_are_no_backlog() -> None:
    assert judge_site(0.1, 0.5, {"a": look(rate=0.5, backlog_rows=9.0)}, TRIGGER_S).keeps_up


def test_a_site_that_lost_ground_below_its_quota_was_disturbed() -> None:
    verdict = judge_site(0.2, 0.5, {"a": look(batch_s=9.0)}, TRIGGER_S)
    assert verdict.disturbed
    assert not verdict.overloaded
    assert not verdict.keeps_up


def test_only_a_sites_own_fragments_count_against_it() -> None:
    fragments = {"a": look(), "b": look(batch_s=9.0, site="bea")}
    verdicts = judge({"ada": 0.3, "bea": 0.499}, {"ada": 0.5, "bea": 0.5}, fragments, TRIGGER_S)
    assert verdicts["ada"].keeps_up
    assert verdicts["bea"].overloaded
