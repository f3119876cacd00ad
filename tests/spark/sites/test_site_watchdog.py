"""The log of an embedded site stays short however much is written to it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.sites import site_watchdog
from mooring.spark.sites.site_watchdog import keep_short

PATIENCE_S = 60.0
TALKATIVE = """
import sys, time
for at in range(10**9):
    print(f"line {at}", flush=True)
    time.sleep(0.001)
"""


def test_a_log_that_is_too_long_is_begun_anew_under_whoever_writes_to_it(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"old\n" * 10)
        assert not keep_short(str(log), most_bytes=40)
        assert keep_short(str(log), most_bytes=39)
        writer.write(b"new\n")
    assert log.read_bytes() == b"new\n"
    assert (tmp_path / "server.log.1").read_bytes() == b"old\n" * 10


def test_what_a_log_held_is_kept_for_those_who_may_read_the_log(tmp_path: Path) -> None:
    """It may hold a token: the log of a run has the address of its page."""
    log, kept, elsewhere = (tmp_path / name for name in ("run.log", "run.log.1", "elsewhere"))
    log.write_text("page: http://localhost:1/#token=secret\n")
    log.chmod(0o600)
    kept.symlink_to(elsewhere)
    for _ in range(2):  # the second time over one that was there
        assert keep_short(str(log), most_bytes=10)
        assert kept.stat().st_mode & 0o777 == 0o600
        assert not kept.is_symlink()
        log.write_text("another line\n")
    assert kept.read_text() == "another line\n"
    assert not elsewhere.exists()


def test_a_log_that_is_not_there_is_short(tmp_path: Path) -> None:
    assert not keep_short(str(tmp_path / "server.log"))


def test_the_keeper_keeps_the_log_of_its_command_short(tmp_path: Path) -> None:
    log, scratch = tmp_path / "server.log", tmp_path / "scratch"
    order = {
        "command": [sys.executable, "-c", TALKATIVE],
        "log": str(log),
        "scratch": str(scratch),
        "cgroups": [],
        "grace_s": 5.0,
        "most_log_bytes": 1000,
    }
    command = [sys.executable, "-I", site_watchdog.__file__, json.dumps(order)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as kept:
        deadline = time.monotonic() + PATIENCE_S
        while not log.with_name("server.log.1").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    for file in (log, log.with_name("server.log.1")):  # the first and the last line may be torn
        assert all(line.startswith("line ") for line in file.read_text().splitlines()[1:-1])
    assert kept.returncode != 0  # it was made to end
