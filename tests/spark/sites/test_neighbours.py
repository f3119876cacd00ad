"""What neighbours leave a site: by how long its threads waited, its own quota aside."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mooring.spark.sites.neighbours import Contention, NeighbourMeter, contention, left_cores
from mooring.spark.sites.process_tree import can_see_processes, thread_waits_s


def test_waiting_for_its_own_quota_is_not_being_starved() -> None:
    """As measured: one thread that wants a whole core, of a quota of half a core that it gets."""
    assert left_cores(0.5, 0.5, 1.0, 1, 0.0) is None
    assert left_cores(0.01, 1.0, 0.0, 1, 0.0) == pytest.approx(0.01, abs=0.005)


def test_a_machine_with_idle_cpus_leaves_them() -> None:
    """Many threads of one JVM get in each other's way without any neighbour."""
    assert left_cores(1.5, 1.5, 0.0, 2, 0.5) == pytest.approx(2.0)


def test_only_what_came_since_the_last_look_counts() -> None:
    seen = NeighbourMeter(slots=1)
    before = Contention(100.0, 10.0, {1: 50.0}, 1000, 900, 40.0)
    assert seen.left_cores(before) is None
    assert seen.left_cores(Contention(105.0, 10.5, {1: 50.1}, 1050, 900, 44.0)) is None
    starved = seen.left_cores(Contention(110.0, 11.0, {1: 54.1, 2: 0.5}, 1100, 900, 44.0))
    assert starved == pytest.approx(0.1 / (0.1 + 0.9))
    assert seen.left_cores(None) is None


@pytest.mark.skipif(not can_see_processes(), reason="no /proc")
def test_threads_that_wait_for_a_cpu_are_counted() -> None:
    """Three processes in one tree on one CPU: two of them wait at any time."""
    code = f"""
import os
os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})
children = [os.fork() for _ in range(2)]
while os.times().user < 0.1: pass
print(flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert sum(thread_waits_s(process.pid).values()) > 0.05
        found = contention(process.pid, 0.1, (0, 0))
        assert found is not None
        assert found.idle_s > 0.0
        process.communicate("")
