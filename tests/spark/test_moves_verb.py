"""`mooring moves` as a user meets it: the list, its application by the running process, and the way back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.stream_logs import sink_entries

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 150
SETTINGS = """\
sites: {here: {capacity: 1}, there: {capacity: 1}}
streams: {numbers: {site: here, rate: 100}}
queries: {kept: {site: here}}
statistics: {numbers: {cost_us: 5}, kept: {cost_us: 50}}
trigger_s: 0.3
"""
KEPT = """
from pyspark import pipelines as dp

@dp.table
def kept():
    return spark.readStream.table("numbers").filter("n % 2 = 0")
"""
APART, TOGETHER = {"numbers:ingest": "here", "kept": "there"}, {"numbers:ingest": "here", "kept": "here"}


def mooring(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mooring", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT)


def document(*words: str) -> dict[str, object]:
    done = mooring(*words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def feed(folder: Path, name: str, numbers: range) -> None:
    hidden = folder / "input" / f".{name}"
    hidden.write_text("\n".join(json.dumps({"n": n, "at": "2020-01-01T00:00:00Z"}) for n in numbers))
    hidden.rename(folder / "input" / f"{name}.json")


def kept_numbers(folder: Path) -> list[int]:
    import pyarrow.parquet

    log = folder / ".mooring" / "storage" / "channels" / "kept" / "kept" / "_spark_metadata"
    files = [pyarrow.parquet.ParquetFile(entry.path).read() for entry in sink_entries(log)]
    return sorted(n for table in files for n in table["n"].to_pylist())


def wait_for_rows(folder: Path, upto: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(kept_numbers(folder)) < upto // 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert kept_numbers(folder) == list(range(0, upto, 2))


def test_moves_are_listed_applied_by_the_running_process_rolled_back_and_resumed(
    make_project, tmp_path: Path
) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    plan.write_text(json.dumps(APART))
    back.write_text(json.dumps(TOGETHER))
    project = str(folder)
    try:
        assert mooring("run", project, "--detach", "--placement", str(back)).returncode == 0
        feed(folder, "a", range(100))
        wait_for_rows(folder, 100)
        shown = document("moves", project, "--to", str(plan))
        assert shown["running"]
        assert shown["applied"] is None
        assert [(m["fragment"], m["from"], m["to"]) for m in shown["moves"]] == [("kept", "here", "there")]
        assert shown["moves"][0]["after"]["headroom"] > shown["before"]["headroom"]
        applied = document("moves", project, "--to", str(plan), "--apply")["applied"]
        assert applied["state"] == "done"
        assert applied["placement"] == {"numbers": "here", "kept": "there"}
        assert applied["steps"][0]["pause_s"] > 0
        feed(folder, "b", range(100, 200))
        wait_for_rows(folder, 200)
        returned = mooring("moves", project, "--rollback", "--apply")
        assert returned.returncode == 0, returned.stderr
        assert "kept: there -> here: done after" in returned.stderr
        assert document("moves", project, "--to", str(plan), "--apply")["applied"]["state"] == "done"
        assert not os.listdir(folder / ".mooring" / "requests")
    finally:
        mooring("stop", project)
    lost = mooring("moves", project, "--to", str(back), "--apply")
    assert lost.returncode == 4
    assert "does not run" in lost.stderr
    assert "--placement" in lost.stderr
    feed(folder, "c", range(200, 300))
    resumed = mooring("run", project, "--for", "3s")
    assert resumed.returncode == 0, resumed.stderr
    assert "as the last run had it" in resumed.stdout
    report = json.loads((folder / ".mooring" / "report.json").read_text())
    assert report["placement"] == APART
    wait_for_rows(folder, 300)


def test_a_pinned_fragment_and_a_project_that_never_ran_are_refused(make_project, tmp_path: Path) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    work = folder / ".mooring"
    work.mkdir()
    problem = {
        "sites": {"here": {"capacity": 1}, "there": {"capacity": 1}},
        "streams": {"numbers": {"rate": 1}},
        "operators": {
            "numbers:ingest": {"inputs": ["numbers"], "cost_us": 1, "site": "here", "fragment": "numbers"},
            "kept": {"inputs": ["numbers:ingest"], "cost_us": 1},
        },
    }
    (work / "problem.json").write_text(json.dumps(problem))
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"numbers:ingest": "there", "kept": "there"}))
    never = mooring("moves", str(folder), "--to", str(plan))
    assert never.returncode == 2
    assert "never ran" in never.stderr
    from mooring.controller.journal import Journal

    Journal(work, time.time).note_placement({"numbers": "here", "kept": "here"}, "planned")
    pinned = mooring("moves", str(folder), "--to", str(plan))
    assert pinned.returncode == 3
    assert "'numbers' is pinned to 'here'" in pinned.stderr
    nothing = mooring("moves", str(folder), "--rollback")
    assert nothing.returncode == 2
    assert "--rollback" in nothing.stderr
