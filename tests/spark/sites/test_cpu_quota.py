"""A quota really holds a process back where control groups can be made, and says why where they cannot."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from mooring.spark.sites.cpu_quota import CpuQuota

PATIENCE_S = 60


def throttled(quota: CpuQuota) -> bool:
    """The kernel has held some process of the group back, by its own count."""
    counts = [group / "cpu.stat" for group in quota.groups if (group / "cpu.stat").exists()]
    return any(
        int(line.split()[1]) > 0
        for file in counts
        for line in file.read_text().splitlines()
        if line.startswith("nr_throttled ")
    )


def limit_cores(group: Path) -> float:
    """What the kernel says it holds the group to."""
    if (group / "cpu.max").exists():
        quota_us, period_us = (group / "cpu.max").read_text().split()
    else:
        quota_us, period_us = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(quota_us) / int(period_us)


def test_a_process_that_wants_more_than_its_share_is_held_back() -> None:
    quota = CpuQuota("test", 0.1)
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        said = quota.hold(spinner.pid)
        if said.startswith("no CPU quota"):
            pytest.skip(said)
        assert [limit_cores(group) for group in quota.groups if group.exists()] == [pytest.approx(0.1)]
        deadline = time.monotonic() + PATIENCE_S
        while not throttled(quota):
            assert time.monotonic() < deadline, "it could use all the CPU it wanted"
            time.sleep(0.05)
        assert (quota.held_back_s() or 0.0) > 0.0
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
        deadline = time.monotonic() + PATIENCE_S
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
