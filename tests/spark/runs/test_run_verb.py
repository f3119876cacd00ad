"""`mooring run`, `status` and `stop` as a user meets them: real processes that leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.runs.run_files import RunFiles
from mooring.spark.sites.class_archive import usable_archive
from mooring.spark.sites.java import find_java

if TYPE_CHECKING:
    from tests.spark.runs.conftest import EvenNumbersMaker, Verb, WaitUntil

ROOT = Path(__file__).parents[3]
PATIENCE_S = 120
PLACED = {"numbers:ingest": "here", "kept": "here"}


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A temporary directory, a home and caches that only the runs of this test use."""
    made, archive = [], usable_archive(find_java())
    for variable in ("TMPDIR", "HOME", "XDG_CACHE_HOME", "MOORING_CACHE"):
        made.append(tmp_path / variable)
        made[-1].mkdir()
        monkeypatch.setenv(variable, str(made[-1]))
    if archive is not None:
        (made[-1] / archive.name).symlink_to(archive)
    return made


class Traces:
    """What a run could leave behind: processes, listening ports, files outside `.mooring/`."""

    def __init__(self, folder: Path, homes: list[Path]) -> None:
        self._folder, self._homes = folder, homes
        self._before = outside(folder, homes)
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
        assert outside(self._folder, self._homes) == self._before


def outside(folder: Path, homes: list[Path]) -> set[tuple[Path, int]]:
    """Every file of the project but for `.mooring/`, and of the homes, with when it was written."""
    files = [path for path in folder.rglob("*") if ".mooring" not in path.parts]
    files += [path for home in homes for path in home.rglob("*")]
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


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_a_run_can_be_detached_watched_killed_resumed_and_stopped_without_losing_a_row(
    even_numbers: EvenNumbersMaker,
    mooring: Verb,
    wait_until: WaitUntil,
    homes: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a site that Mooring starts itself, for planning first. Data is found by a path that starts where the
    commands are run.
    """
    project = even_numbers("{here: {capacity: 2}}")
    folder = project.folder
    numbers = folder / "transformations" / "numbers.py"
    numbers.write_text(numbers.read_text().replace(str(folder / "input"), f"./{folder.name}/input"))
    monkeypatch.chdir(folder.parent)
    project.feed(range(100))
    traces = Traces(folder, homes)
    assert mooring("plan", folder, "--json", "--policy", "rod").document["placement"] == PLACED
    traces.assert_none()
    pid = project.detach("--serve", cwd=folder.parent)
    project.wait_for(100)
    status = mooring("status", folder, "--json").document
    assert status["running"]
    assert status["pid"] == pid
    assert status["last"]["placement"] == PLACED
    files = RunFiles(folder / ".mooring")
    wait_until(lambda: files.page() is not None, "the page to be served")
    page = mooring("status", folder, "--json").document["page"]
    assert page == files.page()
    assert "#token=" in page
    assert f"page: {page}" in mooring("status", folder).out
    assert mooring("logs", folder, "--site", "here").code == 0
    second = mooring("run", folder)
    assert second.code == 4
    assert "already runs" in second.err
    traces.look(pid)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not processes_in(folder), "the site of the killed run to end")
    traces.assert_none()
    assert mooring("status", folder, "--json").document["running"] is False
    assert mooring("doctor", folder, "--json").document["sound"]
    project.feed(range(100, 150))
    traces = Traces(folder, homes)
    project.detach(cwd=folder.parent)
    project.wait_for(150)
    traces.look()
    assert mooring("stop", folder).code == 0
    examined = mooring("doctor", folder, "--json")
    assert (examined.code, examined.document["sound"]) == (0, True)
    assert {"storage", "channel", "checkpoint", "journal"} <= {
        f["part"] for f in examined.document["findings"]
    }
    assert project.kept() == list(range(0, 150, 2))
    traces.assert_none()
    report = json.loads((folder / ".mooring" / "report.json").read_text())
    assert report["ended"] == "stopped by SIGTERM"
    assert 'id="frozen"' in (folder / ".mooring" / "report.html").read_text()


def test_control_c_ends_a_run_cleanly_and_an_edit_is_noticed_next_time(
    even_numbers: EvenNumbersMaker, mooring: Verb, up_already: str, homes: list[Path]
) -> None:
    project = even_numbers(f"{{here: {up_already}}}")
    folder = project.folder
    project.feed(range(10))
    before = outside(folder, homes)
    command = [sys.executable, "-m", "mooring", "run", str(folder), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    project.wait_for(10)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    document = json.loads(out)
    assert document["ended"] == "stopped by SIGINT"
    assert document["totals"]["queries"]["kept"]["rows"] == 5
    token = up_already.split("token=")[1].split('"')[0]
    assert token not in out + err
    files = [file for file in (folder / ".mooring").rglob("*") if file.is_file()]
    assert not [file for file in files if token.encode() in file.read_bytes()]
    assert outside(folder, homes) == before
    kept = folder / "transformations" / "kept.py"
    kept.write_text(kept.read_text().replace("% 2", "% 3"))
    refused = mooring("run", folder, "--for", "1s")
    assert refused.code == 2
    assert "were edited after the checkpoint" in refused.err
    assert mooring("run", folder, "--for", "soon").code == 2


def test_a_plan_of_a_project_folder_is_run_for_the_time_asked_for(
    even_numbers: EvenNumbersMaker, mooring: Verb, up_already: str, tmp_path: Path
) -> None:
    project = even_numbers(f"{{here: {up_already}, there: {up_already}}}")
    planned = mooring("plan", project.folder, "--json", "--policy", "connected")
    placement = planned.document["placement"]
    (tmp_path / "plan.json").write_text(planned.out)
    ran = mooring(
        "run", project.folder, "--for", "1s", "--placement", tmp_path / "plan.json", "--json"
    ).document
    assert ran["ended"] == "stopped after the time of --for"
    assert ran["placement"] == placement
