"""A statistics file says what was measured, survives a round trip and a human's edits, and refuses typos."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mooring.errors import InputError
from mooring.spark.pipeline.statistics_file import (
    FlowStatistics,
    MeasuredStatistics,
    read_statistics,
    statistics_text,
    write_statistics,
)

MEASURED = MeasuredStatistics(
    flows={
        "kept": FlowStatistics(
            cost_us=1.25,
            cost_us_error=0.05,
            batch_cpu_s=0.2,
            selectivity=0.5,
            bytes=7.5,
            error=0.04,
            batches=18,
            rows=120000,
            flow="0123456789abcdef",
            note='a "quoted" note',
        ),
        "odd: name": FlowStatistics(cost_us=0.00001234),
    },
    at="2026-01-02T03:04:05Z",
    on={"spark": "4.3.0", "java": "17"},
    look_cpu_s=0.02,
    idle_cores=0.004,
)


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "statistics.yml"
    write_statistics(file, MEASURED)
    assert read_statistics(file) == MEASURED
    assert list(tmp_path.iterdir()) == [file]


def test_no_file_means_nothing_measured(tmp_path: Path) -> None:
    assert read_statistics(tmp_path / "statistics.yml") == MeasuredStatistics()


@pytest.mark.parametrize(
    ("wrong", "right", "told"),
    [
        ("cost_us: 1.25", "cost_su: 1.25", "cost_us"),
        ("cost_us: 1.25", 'cost_us: "1.25"', "flows.kept.cost_us"),
        ("cost_us: 1.25", "cost_us: -1", "flows.kept.cost_us"),
        ("batches: 18", "batches: 1.5", "flows.kept.batches"),
        ("version: 1", "version: 2", "version"),
        ("flows:", "flow:", "flows"),
    ],
)
def test_a_wrong_edit_is_named_by_file_and_field(tmp_path: Path, wrong: str, right: str, told: str) -> None:
    file = tmp_path / "statistics.yml"
    file.write_text(statistics_text(MEASURED).replace(wrong, right))
    with pytest.raises(InputError) as refusal:
        read_statistics(file)
    assert told in str(refusal.value)
    assert "statistics.yml" in str(refusal.value)


def test_the_fixed_part_follows_the_trigger() -> None:
    fields = MEASURED.flows["kept"].operator_fields(trigger_s=5.0, look_cores=0.01)
    assert fields["fixed_cores"] == pytest.approx(0.05)
    assert fields["cost_us"] == 1.25
    assert "fixed_cores" not in FlowStatistics(cost_us=1.0).operator_fields(5.0, 0.01)


def test_age_is_told_where_the_date_makes_sense() -> None:
    now = datetime(2026, 1, 3, 3, 4, 5, tzinfo=UTC)
    assert MEASURED.age_days(now) == pytest.approx(1.0)
    assert MeasuredStatistics(at="yesterday").age_days(now) is None
    assert MEASURED.age_days(now + timedelta(days=99)) == pytest.approx(100.0)
