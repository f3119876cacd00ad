"""One process runs a project at a time, and a killed run's leftovers at existing sites are ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.atomic_files import write_whole
from mooring.checksum import checked, with_sum
from mooring.errors import EngineError
from mooring.model.placement.placement import FragmentSites
from mooring.spark.ownership.owner import look, take
from mooring.spark.pipeline.project import load_project, work_folder_of
from mooring.spark.runs.found_run import find_run
from mooring.spark.runs.left_sessions import LeftSessions
from mooring.spark.runs.project_run import prepared_on
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.system_clock import SystemClock
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.process_tree import can_see_processes
from mooring.spark.sites.sites import SiteHandle, SiteHandles
from mooring.spark.storage.owned_folder import newest_owned, unowned

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker


@pytest.fixture
def bystander() -> Iterator[int]:
    """A process that has nothing to do with any of this."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        assert process.poll() is None, "it was signalled"
        process.kill()


@pytest.mark.skipif(not can_see_processes(), reason="who holds a lock is read from /proc")
def test_a_process_that_does_not_hold_the_run_is_not_signalled(tmp_path: Path, bystander: int) -> None:
    files, root = RunFiles(tmp_path / "project" / ".mooring"), tmp_path / "storage"
    with files.held():
        (files.folder / "lock").write_text(str(bystander))
        with pytest.raises(EngineError, match=f"process {bystander} is recorded .* was not signalled"):
            RunFiles(files.folder).stop_runner(1.0)
    root.mkdir()
    own = take(root, look(root), tmp_path / "project")
    files.known.remember(root)
    record = own.owned.folder / "owner.json"
    written = checked(record.read_bytes()).decode().replace(f'"pid":{os.getpid()}', f'"pid":{bystander}')
    record.write_bytes(with_sum(written.encode()))
    assert look(root).state == "here"
    with pytest.raises(EngineError, match=f"process {bystander} is recorded .* was not signalled"):
        files.stop_runner(1.0)
    with files.held():  # the folder still knows who runs
        assert RunFiles(files.folder).running_pid() == os.getpid()
    own.release()


@pytest.mark.skipif(not can_see_processes(), reason="who holds a lock is read from /proc")
def test_a_storage_does_not_say_which_other_project_is_to_be_stopped(
    tmp_path: Path, make_project: ProjectMaker
) -> None:
    """Its owner's record names the folder of another run, which has a storage of its own."""
    mine = make_project("sites: {a: {capacity: 1}}")
    other = RunFiles(tmp_path / "other" / ".mooring")
    other.folder.mkdir(parents=True)
    root = work_folder_of(mine) / "storage"
    root.mkdir(parents=True)
    own = take(root, look(root), other.folder.parent)
    command = [sys.executable, "-c", RUNNER, str(other.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"runs\n"
        found = find_run(mine, SystemClock())
        assert found.pid == os.getpid()
        assert not found.files.stop_runner(1.0)
        assert runner.poll() is None
        runner.kill()
    own.release()


def test_a_project_is_held_by_one_process_and_free_again_afterwards(tmp_path: Path) -> None:
    files = RunFiles(tmp_path / ".mooring")
    assert files.running_pid() is None
    with files.held():
        assert RunFiles(tmp_path / ".mooring").running_pid() is not None
        with pytest.raises(EngineError, match="already runs"), RunFiles(tmp_path / ".mooring").held():
            pass
    assert files.running_pid() is None
    assert files.stop_runner(1.0) is False


RUNNER = """
import fcntl, os, signal, sys, threading, time
from pathlib import Path

folder, stop = Path(sys.argv[1]), threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with open(folder / "lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    lock.write(str(os.getpid()))
    lock.flush()
    (folder / "status.json").write_text('{"list": {"fragment": "f", "to": "b", "reached": "stopped"}}')
    print("runs", flush=True)
    stop.wait()
    while not (folder / "seen").exists():
        time.sleep(0.02)
"""


def test_who_stops_a_run_is_told_what_it_waits_for(tmp_path: Path) -> None:
    """The runner here sees its move to an end only once that has been said."""
    said: list[object] = []

    def waiting(under_way: Mapping[str, object]) -> None:
        said.append((under_way["fragment"], under_way["to"], under_way["reached"]))
        (tmp_path / "seen").touch()

    command = [sys.executable, "-c", RUNNER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"runs\n"
        reaping = threading.Thread(target=runner.wait)
        reaping.start()
        assert RunFiles(tmp_path).stop_runner(60.0, waiting)
        assert said[0] == ("f", "b", "stopped")
        reaping.join()


def test_queries_that_a_killed_client_left_running_are_ended_by_the_next_run(
    site: EmbeddedSite, tmp_path: Path
) -> None:
    """A query outlives its client at an existing endpoint; only its session's id finds it again."""
    session_id = str(uuid.uuid4())
    lost = open_session(site.endpoint, session_id)
    query = (
        lost.readStream.format("rate")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    left = LeftSessions(tmp_path)
    (tmp_path / "sessions.json").write_text(
        json.dumps([{"site": "far", "fragment": "left", "session": session_id}])
    )
    sites = {"far": SiteHandle("far", 1.0, site.endpoint, None)}
    assert left.end_all(sites) == ["left"]
    assert left.end_all(sites) == []
    with pytest.raises(Exception, match=r"SESSION_CLOSED|INVALID_HANDLE"):
        _ = query.isActive
    close_session(lost)


def test_a_status_amended_between_looks_tells_what_is_wrong_and_what_still_runs(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.amend_status(FragmentSites({}), {"site a": "lost"})
    assert files.read_status() is None
    fragments = {"ingest": {"site": "a"}, "count": {"site": "b"}, "moved": {"site": "a"}}
    files.write_status({"fragments": fragments, "troubles": {}, "policy": "rod"})
    files.amend_status(FragmentSites({"count": "b", "moved": "b"}), {"site a": "lost"})
    assert files.read_status() == {
        "fragments": {"count": {"site": "b"}},
        "troubles": {"site a": "lost"},
        "policy": "rod",
        "list": None,
    }


def test_leftovers_at_a_site_that_is_gone_stay_noted_and_keep_a_fresh_start_waiting(
    make_project: ProjectMaker, site: EmbeddedSite
) -> None:
    project = load_project(make_project())
    noted = [{"site": "gone", "fragment": "numbers", "session": str(uuid.uuid4())}]
    project.storage_root.begin()
    last = unowned(project.settings.storage)
    (last.folder / "sessions.json").write_text(json.dumps(noted))
    here = SiteHandles([SiteHandle("here", 2.0, site.endpoint, site)])
    kept = project.settings.storage / "channels" / "numbers"
    kept.mkdir(parents=True)
    with (
        pytest.raises(
            EngineError,
            match=r"may still write data that this command would delete: numbers \(session .*\) at gone",
        ),
        prepared_on(project, here, fresh=True),
    ):
        pass
    assert kept.is_dir()
    owned = newest_owned(project.settings.storage)
    assert owned is not None
    assert len(LeftSessions(owned.folder).left()) == 1


@pytest.mark.parametrize(
    "damaged", [b'[{"site": "a"', with_sum(b'{"sessions": []}').replace(b"[]", b"{}"), b'{"others": []}']
)
def test_sessions_that_cannot_be_read_are_named(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "sessions.json").write_bytes(damaged)
    with pytest.raises(EngineError, match="cannot be read"):
        LeftSessions(tmp_path).end_all({})


def test_leftovers_that_cannot_be_noted_are_no_traceback(tmp_path: Path) -> None:
    """As where the run was overtaken before it began, or its disk is full."""
    with pytest.raises(EngineError, match=r"cannot be noted in .*nothing was started"):
        LeftSessions(tmp_path / "away").end_all({})


def test_a_page_is_told_of_as_long_as_its_process_serves_it_and_its_port_for_longer(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    assert (files.page(), files.last_page_port()) == (None, None)
    with files.serving_page("http://127.0.0.1:8123/"):
        assert files.page() == "http://127.0.0.1:8123/"
        write_whole(tmp_path / "token", "s" * 40, mode=0o600)
        with RunFiles(tmp_path).serving_page("http://127.0.0.1:9000/"):  # of several, the first
            assert files.page() == f"http://127.0.0.1:8123/#token={'s' * 40}"
    assert (files.page(), files.last_page_port()) == (None, 8123)
