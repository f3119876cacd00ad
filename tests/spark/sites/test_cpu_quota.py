"""A quota really holds a process back where control groups can be made, and says why where they cannot."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from mooring.spark.sites.cpu_quota import CpuQuota
from mooring.spark.sites.process_tree import tree_usage


def test_a_held_process_gets_no_more_than_its_share() -> None:
    quota = CpuQuota("test", 0.1)
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        said = quota.hold(spinner.pid)
        if said.startswith("no CPU quota"):
            pytest.skip(said)
        before = tree_usage(spinner.pid)
        time.sleep(2.0)
        after = tree_usage(spinner.pid)
        assert before is not None
        assert after is not None
        # Twice the share: the kernel lets the first period through, and the clock is coarse.
        assert after.cpu_s - before.cpu_s < 0.4
    finally:
        spinner.kill()
        spinner.wait()
    for group in quota.groups:
        if group.exists():
            group.rmdir()


def test_an_unused_group_of_a_killed_site_is_swept_away() -> None:
    left = CpuQuota("left", 0.5)
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    said = left.hold(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    if said.startswith("no CPU quota"):
        pytest.skip(said)
    other = CpuQuota("other", 0.5)
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        deadline = time.monotonic() + 10
        while any(group.exists() for group in left.groups) and time.monotonic() < deadline:
            other.hold(sleeper.pid)
            time.sleep(0.1)
        assert not any(group.exists() for group in left.groups)
    finally:
        sleeper.kill()
        sleeper.wait()
        for group in other.groups:
            if group.exists():
                group.rmdir()
