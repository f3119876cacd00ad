"""A project is held by its storage root, whatever folder and lock there are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.contracts.clock import Clock
from mooring.errors import EngineError
from mooring.spark.ownership import owner
from mooring.spark.ownership.owner import look, take
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.found_run import find_run
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.run_lock import HoldOptions, held_project
from mooring.spark.runs.system_clock import SystemClock

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

ROOT = Path(__file__).parents[3]
HOLDER = """\
import sys
from pathlib import Path
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.run_lock import HoldOptions, held_project
from mooring.spark.runs.run_files import RunFiles
project = load_project(Path(sys.argv[1]))
with held_project(project, RunFiles(project.work_folder), HoldOptions(lease_s=5.0)):
    print("held", flush=True)
    sys.stdin.read()
"""


class HastyClock(SystemClock):
    """Waits for nobody, and believes that it did."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s

    def sleep(self, seconds: float) -> None:
        self.ahead_s += seconds


def test_a_standby_in_the_same_folder_takes_over_from_a_frozen_run_beside_it(
    make_project: ProjectMaker,
) -> None:
    project = load_project(make_project())
    clock: Clock = HastyClock()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(project.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as frozen:
        assert frozen.stdout is not None
        assert frozen.stdout.readline() == "held\n"
        assert find_run(project.folder, clock).pid == frozen.pid
        frozen.send_signal(signal.SIGSTOP)
        files = RunFiles(project.work_folder)
        with held_project(project, files, HoldOptions(standby=True, clock=clock)) as hold:
            assert hold.sites_folder.name == "sites-000002", "the frozen one's sites have theirs"
            assert find_run(project.folder, clock).pid == os.getpid()
            assert RunFiles(project.work_folder).running_pid() == os.getpid()
            assert not files.hold(), "the frozen one has the lock"
            frozen.kill()
            frozen.wait()
            assert hold.pulse.beat()
            assert files.hold()
    assert find_run(project.folder, clock).pid is None


def test_a_run_on_another_machine_is_named_and_cannot_be_asked_from_here(
    make_project: ProjectMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = load_project(make_project())
    project.storage_root.begin()
    with monkeypatch.context() as there:
        there.setattr(owner, "_boot_id", lambda: "another machine's")
        own = take(project.settings.storage, look(project.settings.storage), Path("/there/project"))
    (own.owned.folder / "status.json").write_text('{"fragments": {}}')
    found = find_run(project.folder, HastyClock())
    assert found.pid is None
    assert found.elsewhere == own.record
    assert found.silent_s >= 0.3 * own.record.lease_s
    assert found.files.read_status() == {"fragments": {}}
    with pytest.raises(EngineError, match="from /there/project"):
        found.refuse_elsewhere("stop it")
    own.release()
    assert not find_run(project.folder, HastyClock()).runs
