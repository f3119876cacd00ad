"""`mooring run`, `status` and `stop` as a user meets them: real processes, one small site."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.stream_logs import sink_entries

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 120

SETTINGS = """\
sites:
  here: {capacity: 2}
streams:
  numbers: {site: here, rate: 100}
queries:
  kept: {site: here}
statistics:
  numbers: {cost_us: 5}
trigger_s: 0.3
"""
KEPT = """
from pyspark import pipelines as dp

@dp.table
def kept():
    return spark.readStream.table("numbers").filter("n % 2 = 0")
"""


def mooring(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mooring", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT)


def feed(folder: Path, name: str, numbers: range) -> None:
    hidden = folder / "input" / f".{name}"
    hidden.write_text("\n".join(json.dumps({"n": n, "at": "2020-01-01T00:00:00Z"}) for n in numbers))
    hidden.rename(folder / "input" / f"{name}.json")


def kept_numbers(folder: Path) -> list[int]:
    import pyarrow.parquet

    log = folder / ".mooring" / "storage" / "channels" / "kept" / "kept" / "_spark_metadata"
    found: list[int] = []
    for entry in sink_entries(log):
        found += pyarrow.parquet.ParquetFile(entry.path).read()["n"].to_pylist()
    return sorted(found)


def wait_for(happened, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.1)


def processes_in(folder: Path) -> list[int]:
    """Servers and keepers of this project, by their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if str(folder).encode() in words and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_a_run_can_be_detached_watched_killed_resumed_and_stopped_without_losing_a_row(make_project) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    feed(folder, "a", range(100))
    started = mooring("run", str(folder), "--detach", "--json")
    assert started.returncode == 0, started.stdout + started.stderr
    pid = json.loads(started.stdout)["pid"]
    wait_for(lambda: kept_numbers(folder) == list(range(0, 100, 2)), "the first rows")
    status = json.loads(mooring("status", str(folder), "--json").stdout)
    assert status["running"]
    assert status["pid"] == pid
    assert status["last"]["placement"] == {"numbers:ingest": "here", "kept": "here"}
    second = mooring("run", str(folder))
    assert second.returncode == 4
    assert "already runs" in second.stderr
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not processes_in(folder), "the site of the killed run to end")
    assert json.loads(mooring("status", str(folder), "--json").stdout)["running"] is False
    feed(folder, "b", range(100, 150))
    assert mooring("run", str(folder), "--detach").returncode == 0
    wait_for(lambda: len(kept_numbers(folder)) >= 75, "the rows after resuming")
    assert mooring("stop", str(folder)).returncode == 0
    assert kept_numbers(folder) == list(range(0, 150, 2))
    assert not processes_in(folder)
    report = json.loads((folder / ".mooring" / "report.json").read_text())
    assert report["ended"] == "stopped by SIGTERM"
    assert "<svg" in (folder / ".mooring" / "report.html").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_control_c_ends_a_run_cleanly_and_an_edit_is_noticed_next_time(make_project) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    feed(folder, "a", range(10))
    before = {path for path in folder.rglob("*") if path.is_file()}
    command = [sys.executable, "-m", "mooring", "run", str(folder), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    wait_for(lambda: kept_numbers(folder) == [0, 2, 4, 6, 8], "the rows")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    document = json.loads(out)
    assert document["ended"] == "stopped by SIGINT"
    assert document["totals"]["queries"]["kept"]["rows"] == 5
    assert not processes_in(folder)
    outside = {path for path in folder.rglob("*") if path.is_file() and ".mooring" not in path.parts} - before
    assert not outside
    (folder / "transformations" / "kept.py").write_text(KEPT.replace("% 2", "% 3"))
    refused = mooring("run", str(folder), "--for", "1s")
    assert refused.returncode == 2
    assert "edited since" in refused.stderr
    assert not processes_in(folder)
    bad = mooring("run", str(folder), "--for", "soon")
    assert bad.returncode == 2


def test_plan_reads_a_project_folder_as_it_reads_a_problem_file(make_project) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    planned = mooring("plan", str(folder), "--json", "--policy", "rod")
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["placement"] == {"numbers:ingest": "here", "kept": "here"}
