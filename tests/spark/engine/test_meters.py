"""Rates and latencies follow from Spark's progress reports."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pathlib import Path

from mooring.spark.engine.meters import (
    ChannelMeter,
    FragmentMeter,
    batch_of,
    hop_latency_s,
    path_latencies_s,
)
from mooring.spark.engine.run_meters import each_known, lag_of
from mooring.spark.engine.snapshot import ChannelSnapshot
from mooring.spark.storage.stream_logs import LogEntry


def report(number: int, second: float, rows_in: int, rows_out: int, took_ms: int = 500) -> dict[str, object]:
    return {
        "batchId": number,
        "timestamp": f"2020-01-01T00:00:{second:06.3f}Z",
        "durationMs": {"triggerExecution": took_ms, "addBatch": took_ms // 2},
        "sources": [{"numInputRows": rows_in}, {"numInputRows": 0}],
        "sink": {"numOutputRows": rows_out},
        "stateOperators": [{"numRowsTotal": 3}],
    }


def test_a_report_is_read_field_by_field() -> None:
    batch = batch_of(report(4, 10.0, 100, 20))
    assert (batch.number, batch.rows_in, batch.rows_out, batch.state_rows) == (4, 100, 20, 3)
    assert batch.end_s - batch.begin_s == pytest.approx(0.5)


def test_reports_seen_twice_and_idle_ones_count_once_and_not_at_all() -> None:
    meter = FragmentMeter()
    idle = {"batchId": 1, "timestamp": "2020-01-01T00:00:03Z", "durationMs": {"triggerExecution": 2}}
    meter.take([report(0, 1.0, 10, 5)])
    meter.take([report(0, 1.0, 10, 5), idle, report(1, 4.0, 20, 6)])
    assert (meter.rows_in, meter.rows_out, meter.count) == (30, 11, 2)
    end_s = meter.batches[-1].end_s
    assert meter.rows_per_s(end_s, 3.5) == (30 / 3.5, 11 / 3.5)


def test_rates_are_taken_from_batch_to_batch_whenever_one_looks() -> None:
    """A hundred rows every four seconds are 25 per second, although two, three or four batches are seen."""
    meter = FragmentMeter()
    meter.take([report(k, 4.0 * k, 100, 0) for k in range(8)])
    begin_s = meter.batches[0].begin_s
    found = [meter.rows_per_s(begin_s + at_s, 12.0)[0] for at_s in (28.6, 29.0, 30.0, 31.0, 32.0, 33.0)]
    assert found == pytest.approx([25.0] * len(found))


def test_a_clock_that_was_set_back_leaves_no_batches_in_the_future() -> None:
    """Ten rows per second, before and after an hour under a wrong clock."""
    meter = FragmentMeter()
    meter.take([report(k, 4.0 * k, 40, 0) for k in range(4)], ahead_s=-3600.0)
    meter.take([report(k, 4.0 * k, 40, 0) for k in range(4, 8)])
    now_s = meter.batches[-1].end_s
    assert meter.rows_per_s(now_s, 12.0)[0] == pytest.approx(10.0)
    assert meter.count == 8
    meter.take([report(k, 4.0 * k, 40, 0) for k in range(8)])
    assert meter.count == 8, "they are known by their numbers"


def test_a_batch_that_takes_long_is_no_pause_of_its_input_and_an_idle_query_is() -> None:
    meter = FragmentMeter()
    meter.take([report(k, 4.0 * k, 100, 0) for k in range(4)])
    later_s = meter.batches[-1].end_s + 30.0
    assert meter.rows_per_s(later_s, 12.0)[0] == pytest.approx(25.0)
    meter.take([{"batchId": 4, "timestamp": "2020-01-01T00:00:40Z", "durationMs": {"triggerExecution": 2}}])
    assert meter.rows_per_s(later_s, 12.0)[0] == 0.0


def test_a_hop_takes_the_wait_in_the_channel_and_the_batch_that_reads_it() -> None:
    reader = FragmentMeter()
    reader.take([report(0, 0.0, 0, 0), report(1, 5.0, 10, 1), report(2, 10.0, 10, 1)])  # end at 5.5 and 10.5
    start_s = reader.batches[0].begin_s
    assert hop_latency_s(reader, [start_s + 1.5, start_s + 6.5], 5.0) == pytest.approx(4.0)
    assert hop_latency_s(reader, None, 5.0) == pytest.approx(0.5 + 2.5)
    assert hop_latency_s(FragmentMeter(), [start_s], 5.0) is None


def test_a_querys_latency_is_that_of_its_slowest_path() -> None:
    hops = {"in": 1.0, "fast": 2.0, "slow": 5.0, "out": 1.0}
    writers = {"fast": ["in"], "slow": ["in"], "out": ["fast", "slow"]}
    assert path_latencies_s(hops, writers)["out"] == 7.0
    assert path_latencies_s({**hops, "out": None}, writers)["out"] is None


def test_a_hundred_diamonds_in_a_row_are_each_looked_at_once() -> None:
    """2^100 ways lead through them: following each would never end."""
    hops: dict[str, float | None] = {"0": 1.0}
    writers: dict[str, list[str]] = {}
    for n in range(1, 101):
        hops |= {f"{n}a": 1.0, f"{n}b": 2.0, str(n): 0.0}
        writers |= {f"{n}a": [str(n - 1)], f"{n}b": [str(n - 1)], str(n): [f"{n}a", f"{n}b"]}
    assert path_latencies_s(hops, writers)["100"] == 201.0


def test_a_channels_rows_are_counted_off_its_files(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"n": list(range(7))}), tmp_path / "x")
    meter = ChannelMeter(end=3)
    meter.take([LogEntry(tmp_path / "x", 100, -1, 50.0), LogEntry(tmp_path / "trimmed", 30, -1, 51.0)])
    assert (meter.end, meter.rows, meter.bytes) == (5, 7, 130)
    assert meter.rates_per_s(now_s=55.0, window_s=10.0, since_s=0.0) == (0.7, 13.0)


def test_a_report_without_a_field_is_left_out_and_all_others_count() -> None:
    meter = FragmentMeter()
    odd = {"batchId": 1, "durationMs": {"addBatch": 3}}  # no timestamp
    with pytest.raises(KeyError, match="timestamp"):
        meter.take([report(0, 1.0, 10, 5), odd, report(2, 9.0, 20, 6)])
    assert (meter.count, meter.rows_in) == (2, 30)


def test_what_cannot_be_measured_of_one_costs_no_other_its_figures() -> None:
    unknown: dict[str, str] = {}

    def look(name: str) -> int | None:
        return {"a": 1, "b": None}[name]

    assert each_known(["a", "x", "b"], "the site", look, unknown) == {"a": 1}
    assert unknown.keys() == {"measuring the site x"}
    assert unknown["measuring the site x"].startswith("KeyError: 'x' (")


def test_files_waiting_in_a_channel_that_cannot_be_read_are_unknown_and_not_none_at_all() -> None:
    seen = {"in": ChannelSnapshot(0.0, 0, 0, {"join": 2}, [])}
    assert lag_of(seen, "join", ["in"]) == 2
    assert lag_of(seen, "join", ["in", "damaged"]) is None


def test_a_writer_that_has_not_started_leaves_the_latencies_behind_it_unknown() -> None:
    writers = {"totals": ["counts"], "counts": ["x"], "x": []}
    assert path_latencies_s({"totals": 1.0}, writers) == {"counts": None, "totals": None}
    assert path_latencies_s({"totals": 1.0, "counts": 2.0, "x": 3.0}, writers)["totals"] == 6.0
