"""`mooring run`, `status` and `stop` as a user meets them: real processes, one small site."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.storage.stream_logs import sink_entries

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

ROOT = Path(__file__).parents[3]
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


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A temporary directory, a home and a cache that only the runs of this test use."""
    made = []
    for variable in ("TMPDIR", "HOME", "XDG_CACHE_HOME"):
        made.append(tmp_path / variable)
        made[-1].mkdir()
        monkeypatch.setenv(variable, str(made[-1]))
    return made


class Traces:
    """What a run could leave behind: processes, listening ports, files outside `.mooring/`."""

    def __init__(self, folder: Path, homes: list[Path]) -> None:
        self._folder, self._homes = folder, homes
        self._before = self._outside()
        self._sockets: set[str] = set()

    def look(self, *pids: int) -> None:
        """While it runs: remember its listening sockets, and see what it holds open for writing."""
        seen = [*processes_in(self._folder), *pids]
        held = {os.path.realpath(fd) for pid in seen for fd in descriptors(pid)}
        sockets = {name.rsplit("[", 1)[-1].rstrip("]") for name in held if "socket:[" in name}
        self._sockets |= listening_inodes() & sockets
        assert self._sockets, "nothing listens, so this check would see nothing"
        writing = {path for pid in seen for path in files_open_for_writing(pid)}
        assert writing, "the site's log at least"
        assert not [path for path in writing if self._folder / ".mooring" not in path.parents]

    def assert_none(self) -> None:
        assert not processes_in(self._folder)
        assert not self._sockets & listening_inodes()
        assert self._outside() == self._before

    def _outside(self) -> set[tuple[Path, int]]:
        """Every file of the project but for `.mooring/`, and of the homes, with when it was written."""
        files = [path for path in self._folder.rglob("*") if ".mooring" not in path.parts]
        files += [path for home in self._homes for path in home.rglob("*")]
        return {(path, path.stat().st_mtime_ns) for path in files if path.is_file()}


def listening_inodes() -> set[str]:
    lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return {line.split()[9] for line in lines if line.split()[3] == "0A"}


def descriptors(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # it ended meanwhile
        return []


def files_open_for_writing(pid: int) -> list[Path]:
    found = []
    for fd in descriptors(pid):
        try:
            flags = int((Path(f"/proc/{pid}/fdinfo") / fd.name).read_text().split("flags:")[1].split()[0], 8)
            target = Path(os.readlink(fd))
        except FileNotFoundError:
            continue
        if flags & (os.O_WRONLY | os.O_RDWR) and target.is_file() and not target.is_relative_to("/dev"):
            found.append(target)
    return found


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


def wait_for(happened: Callable[[], bool], what: str) -> None:
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
def test_a_run_can_be_detached_watched_killed_resumed_and_stopped_without_losing_a_row(
    make_project: ProjectMaker, homes: list[Path]
) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    feed(folder, "a", range(100))
    traces = Traces(folder, homes)
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
    traces.look(pid)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not processes_in(folder), "the site of the killed run to end")
    traces.assert_none()
    assert json.loads(mooring("status", str(folder), "--json").stdout)["running"] is False
    feed(folder, "b", range(100, 150))
    traces = Traces(folder, homes)
    assert mooring("run", str(folder), "--detach").returncode == 0
    wait_for(lambda: len(kept_numbers(folder)) >= 75, "the rows after resuming")
    traces.look()
    assert mooring("stop", str(folder)).returncode == 0
    assert kept_numbers(folder) == list(range(0, 150, 2))
    traces.assert_none()
    report = json.loads((folder / ".mooring" / "report.json").read_text())
    assert report["ended"] == "stopped by SIGTERM"
    assert "<svg" in (folder / ".mooring" / "report.html").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_control_c_ends_a_run_cleanly_and_an_edit_is_noticed_next_time(
    make_project: ProjectMaker, homes: list[Path]
) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    feed(folder, "a", range(10))
    traces = Traces(folder, homes)
    command = [sys.executable, "-m", "mooring", "run", str(folder), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    wait_for(lambda: kept_numbers(folder) == [0, 2, 4, 6, 8], "the rows")
    traces.look(process.pid)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    document = json.loads(out)
    assert document["ended"] == "stopped by SIGINT"
    assert document["totals"]["queries"]["kept"]["rows"] == 5
    traces.assert_none()
    (folder / "transformations" / "kept.py").write_text(KEPT.replace("% 2", "% 3"))
    refused = mooring("run", str(folder), "--for", "1s")
    assert refused.returncode == 2
    assert "edited since" in refused.stderr
    assert not processes_in(folder)
    bad = mooring("run", str(folder), "--for", "soon")
    assert bad.returncode == 2


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_a_plan_of_a_project_folder_is_run_for_the_time_asked_for_and_leaves_nothing(
    make_project: ProjectMaker, homes: list[Path], tmp_path: Path
) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    traces = Traces(folder, homes)
    planned = mooring("plan", str(folder), "--json", "--policy", "rod")
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["placement"] == {"numbers:ingest": "here", "kept": "here"}
    traces.assert_none()
    (tmp_path / "plan.json").write_text(planned.stdout)
    words = ["run", str(folder), "--for", "2s", "--placement", str(tmp_path / "plan.json"), "--json"]
    process = subprocess.Popen([sys.executable, "-m", "mooring", *words], stdout=subprocess.PIPE, cwd=ROOT)
    wait_for(lambda: (folder / ".mooring" / "status.json").exists(), "the run")
    traces.look(process.pid)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert json.loads(out)["ended"] == "stopped after the time asked for"
    traces.assert_none()
