"""The demo delivers the truth row by row, wherever its fragments run. Minutes: run with `make soak`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

ROOT = Path(__file__).parents[3]


def run_demo(*options: str) -> dict[str, str]:
    """The placement of a run whose every row was right."""
    command = [sys.executable, "examples/network_monitoring/demo.py", "--seconds", "200", "--keep", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    report = Path(done.stdout.rsplit("report: ", 1)[1].strip()).with_name("report.json")
    placement: dict[str, str] = json.loads(report.read_text())["placement"]
    shutil.rmtree(report.parents[2])
    return placement


@pytest.mark.soak
def test_three_policies_that_place_differently_all_deliver_the_truth() -> None:
    placements = [run_demo("--policy", policy) for policy in ("rod", "llf", "connected")]
    for placement in placements:
        assert set(placement.values()) == {"berlin", "oslo", "porto"}
    for one, other in combinations(placements, 2):
        assert one != other


@pytest.mark.soak
def test_one_site_delivers_the_same() -> None:
    assert set(run_demo("--one-site").values()) == {"berlin"}
