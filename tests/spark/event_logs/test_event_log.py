"""Event logs of any state, and of any origin, give what they hold and never a traceback."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.errors import InputError
from mooring.spark.event_logs import event_log
from mooring.spark.event_logs import lines as event_log_lines
from mooring.spark.event_logs.event_log import (
    MOST_BINS,
    MOST_SAMPLES,
    EventLogReader,
    LoggedApplication,
    SharedSamples,
)
from mooring.spark.event_logs.imported_problem import import_applications
from mooring.spark.event_logs.lines import LineCounts, log_groups, read_lines

QUERY = "11111111-2222-3333-4444-555555555555"
SECRET = "hunter2-very-secret"

Event = dict[str, Any]


def progress(
    batch: int, rows: int, *, query: str = QUERY, name: str | None = "clicks", ms: int = 300
) -> Event:
    at = 1_700_000_000 + 5 * batch
    minute, second = divmod(at % 3600, 60)
    hour = at % 86400 // 3600
    return {
        "id": query,
        "name": name,
        "batchId": batch,
        "timestamp": f"2023-11-{14 + at // 86400 - 19675:02d}T{hour:02d}:{minute:02d}:{second:02d}.000Z",
        "durationMs": {"triggerExecution": ms, "addBatch": ms - 100, "queryPlanning": 20},
        "sources": [{"numInputRows": rows}],
        "sink": {"numOutputRows": -1},
    }


def log_of(batches: int, fixed_s: float = 0.05, cost_us: float = 20.0) -> list[Event]:
    """A small application with one query whose costs are known."""
    events: list[Event] = [
        {"Event": "SparkListenerApplicationStart", "App Name": "shop", "App ID": "app-1", "Timestamp": 1},
        {
            "Event": "SparkListenerEnvironmentUpdate",
            "Spark Properties": {"spark.master": "yarn", "spark.hadoop.fs.s3a.secret.key": SECRET},
        },
        {"Event": "SparkListenerExecutorAdded", "Executor ID": "1", "Executor Info": {"Total Cores": 4}},
        {"Event": "SparkListenerExecutorAdded", "Executor ID": "2", "Executor Info": {"Total Cores": 4}},
    ]
    for batch in range(batches):
        rows = (1000, 20_000, 5000)[batch % 3]
        cpu_s = fixed_s + cost_us * rows / 1e6
        job = {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": str(batch), "spark.password": SECRET}
        metrics = {
            "Executor CPU Time": int(cpu_s * 1e9),
            "Executor Run Time": int(2000 * cpu_s),
            "Output Metrics": {"Records Written": rows // 10, "Bytes Written": 3 * rows},
        }
        stage = {"Stage ID": batch, "Submission Time": 0, "Completion Time": 200}
        events += [
            {"Event": "SparkListenerJobStart", "Job ID": batch, "Stage IDs": [batch], "Properties": job},
            {"Event": "SparkListenerTaskEnd", "Stage ID": batch, "Task Metrics": metrics},
            {"Event": "SparkListenerStageCompleted", "Stage Info": stage},
            {
                "Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent",
                "progress": progress(batch, rows),
            },
        ]
    return events


def read(lines: list[bytes]) -> LoggedApplication:
    reader = EventLogReader()
    for line in lines:
        reader.take(line)
    return reader.application


def encoded(events: list[Event]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


def test_costs_rates_and_capacity_are_read_off_a_log_whose_truth_is_known() -> None:
    imported = import_applications([read(encoded(log_of(60)))])
    (found,) = imported.estimates
    assert found.cost_us == pytest.approx(20.0, rel=0.01)
    assert found.rate == pytest.approx(26_000 / 15, rel=0.05)
    assert found.selectivity == pytest.approx(0.1)
    assert found.bytes_out == pytest.approx(30.0)
    # 0.05 s of tasks and 0.1 s of driver time at 1.6 times the tasks' share of 0.5, per 5 s.
    assert found.fixed_cores == pytest.approx((0.05 + 1.6 * 0.5 * 0.1) / 5, rel=0.05)
    assert imported.placement == {"clicks": "shop"}
    assert imported.problem.sites[0].capacity == 9.0
    assert imported.problem.history is not None
    assert imported.problem.history.rates.mean() == pytest.approx(found.rate, rel=0.1)


def test_nothing_of_the_configuration_is_kept() -> None:
    application = read(encoded(log_of(10)))
    assert SECRET not in repr(application)
    imported = import_applications([application])
    assert SECRET not in repr(imported)


def test_progress_records_alone_are_enough_but_said_to_be_a_guess() -> None:
    lines = [json.dumps(progress(batch, 1000 * (1 + batch % 3))).encode() for batch in range(30)]
    imported = import_applications([read(lines)])
    (found,) = imported.estimates
    assert found.error >= 0.5
    assert any("the log has no tasks" in note for note in imported.notes)


def test_batches_all_alike_are_said_to_be_so() -> None:
    events = [
        event for event in log_of(60) if "progress" not in event or event["progress"]["batchId"] % 3 == 0
    ]
    imported = import_applications([read(encoded(events))])
    assert any("too narrow a range" in note for note in imported.notes)
    assert imported.estimates[0].cost_us > 0.0


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_line_whatever_brings_the_reader_down(data: st.DataObject) -> None:
    """Events with parts replaced by anything, cut anywhere, mixed with rubbish."""
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    )
    reader = EventLogReader()
    for event in data.draw(st.lists(st.sampled_from(log_of(2)), max_size=8)):
        spoilt = dict(event)
        spoilt[data.draw(st.sampled_from(sorted(spoilt)))] = data.draw(anything)
        line = json.dumps(spoilt).encode()
        reader.take(line[: data.draw(st.integers(0, len(line)))] if data.draw(st.booleans()) else line)
    reader.take(data.draw(st.binary(max_size=30)))
    reader.take(b"[" * 100_000)
    with contextlib.suppress(InputError):  # nothing of use in it
        import_applications([reader.application])


def test_memory_stays_bounded_over_a_hundred_thousand_batches() -> None:
    reader = EventLogReader()
    for batch in range(100_000):
        reader._progress(progress(batch % 50_000, 10))
        reader._job({"Stage IDs": [batch], "Properties": {}})
    (query,) = reader.application.queries.values()
    assert query.count == 100_000
    assert len(query.batches) <= MOST_SAMPLES
    assert len(query.rows_in_bin) <= MOST_BINS
    assert sum(query.rows_in_bin.values()) == 1_000_000
    assert len(reader._batch_of_stage) <= 20_000


def test_memory_is_shared_by_all_queries_of_all_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; what each did is known all the same."""
    monkeypatch.setattr(event_log, "MOST_SAMPLES_OF_ALL", 800)
    monkeypatch.setattr(event_log, "MOST_QUERIES", 40)
    samples = SharedSamples()
    applications: list[LoggedApplication] = []
    for application in range(5):
        reader = EventLogReader(samples)
        for query in range(10):
            for batch in range(120):
                reader.take(json.dumps(progress(batch, 10, query=f"{application}-{query}")).encode())
            kept = [each for one in [*applications, reader.application] for each in one.queries.values()]
            assert sum(len(each.batches) for each in kept) <= 800
            assert sum(len(each.rows_in_bin) for each in kept) <= 800
        applications.append(reader.application)
    assert [len(application.queries) for application in applications] == [10, 10, 10, 10, 0]
    assert {each.count for each in samples.queries} == {120}
    assert {sum(each.rows_in_bin.values()) for each in samples.queries} == {1_200}
    assert [application.left_out for application in applications] == [0, 0, 0, 0, 1_200]
    imported = import_applications([each for each in applications if each.queries])
    assert {round(each.rate, 1) for each in imported.estimates} == {2.0}
    everything = import_applications(applications)
    assert any("left out 1200 batches of queries beyond the first" in note for note in everything.notes)


def test_an_event_that_is_too_long_to_decode_is_skipped_and_counted() -> None:
    reader = EventLogReader()
    event = progress(0, 10) | {"padding": "x" * event_log.LONGEST_EVENT}
    reader.take(json.dumps(event).encode())
    assert reader.application.queries == {}
    assert reader.application.skipped == 1


def test_files_folders_rolled_and_cut_off_logs_are_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = encoded(log_of(30))
    text = b"\n".join(lines)
    (tmp_path / "logs" / "eventlog_v2_app").mkdir(parents=True)
    (tmp_path / "logs" / "eventlog_v2_app" / "events_2_app").write_bytes(b"\n".join(lines[40:]))
    (tmp_path / "logs" / "eventlog_v2_app" / "events_1_app.gz").write_bytes(
        gzip.compress(b"\n".join(lines[:40]))
    )
    (tmp_path / "logs" / "eventlog_v2_app" / "appstatus_app").write_bytes(b"")
    (tmp_path / "logs" / "plain").write_bytes(text[:-100])
    (tmp_path / "logs" / "short.gz").write_bytes(gzip.compress(text)[:-200])
    (tmp_path / "logs" / ".hidden").write_bytes(b"x")
    groups = log_groups(tmp_path / "logs")
    assert [[file.name for file in group] for group in groups] == [
        ["events_1_app.gz", "events_2_app"],
        ["plain"],
        ["short.gz"],
    ]
    counts = LineCounts()
    applications = [read([line for file in group for line in read_lines(file, counts)]) for group in groups]
    assert [next(iter(a.queries.values())).count for a in applications[:2]] == [30, 29]
    assert counts.cut_off == 1
    assert applications[1].skipped == 1
    imported = import_applications(applications[:2])
    assert [site.name for site in imported.problem.sites] == ["shop", "shop 2"]
    monkeypatch.setattr(event_log_lines, "LONGEST_LINE", 1000)
    monkeypatch.setattr(event_log_lines, "_CHUNK", 256)
    (tmp_path / "long").write_bytes(b"a" * 5000 + b"\nnext\n")
    assert list(read_lines(tmp_path / "long", counts)) == [b"next"]
    assert counts.too_long == 1


def test_what_is_no_log_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        log_groups(tmp_path / "nothing")
    with pytest.raises(InputError, match="no event log"):
        log_groups(tmp_path)
    (tmp_path / "a.lz4").write_bytes(b"")
    with pytest.raises(InputError, match="zstd"):
        list(read_lines(tmp_path / "a.lz4", LineCounts()))
    with pytest.raises(InputError, match="no micro-batch"):
        import_applications([read([b"{}", b"not json"])])


def test_the_verb_writes_a_problem_and_a_plan_that_other_verbs_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mooring.cli.main import main

    (tmp_path / "log").write_bytes(b"\n".join(encoded(log_of(60))))
    out = tmp_path / "problem.yml"
    assert main(["import", str(tmp_path / "log"), "--out", str(out), "--site", "spare=2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sites"] == {"shop": 9.0, "spare": 2.0}
    plan = document["plan"]
    assert main(["headroom", str(out), "--placement", plan, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["headroom"]
    assert main(["plan", str(out), "--from", plan, "--max-moves", "1", "--json"]) == 0
    assert main(["import", str(tmp_path / "log"), "--site", "x=0"]) == 2
    assert out.read_text().startswith("# imported from Spark's logs")
