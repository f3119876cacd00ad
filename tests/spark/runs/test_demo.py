"""The demo delivers the truth row by row, wherever its fragments run, and its flood calls for a move."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.algorithms.headroom.decider import propose
from mooring.contracts.picture import picture_of
from mooring.model.deployment.moves import Move
from mooring.planning import plan
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.pipeline.project import load_project
from mooring.spark.pipeline.statistics_used import statistics_notes
from mooring.spark.runs.project_run import read_layout
from mooring.spark.sites.sites import SiteHandle

if TYPE_CHECKING:
    from mooring.arrays import Floats
    from mooring.spark.sites.embedded_site import EmbeddedSite

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "network_monitoring"


def run_demo(*options: str) -> dict[str, str]:
    """The placement of a run whose every row was right."""
    folder = tempfile.mkdtemp()
    script = [sys.executable, "examples/network_monitoring/demo.py"]
    command = [*script, "--seconds", "200", "--output", f"{folder}/demo", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    report = Path(done.stdout.rsplit("file://", 1)[1].strip()).with_name("report.json")
    placement: dict[str, str] = json.loads(report.read_text())["placement"]
    shutil.rmtree(folder)
    return placement


@pytest.fixture
def burst(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that holds the flood; it imports its neighbours as scripts do."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return importlib.import_module("burst")


def test_the_shipped_statistics_and_the_flood_decide_what_is_proposed_not_the_machine(
    site: EmbeddedSite, burst: ModuleType
) -> None:
    """Measured rates vary with how evenly a busy machine delivers; what follows from them must not."""
    layout = read_layout(load_project(EXAMPLE), SiteHandle("berlin", 0.45, site.endpoint, site))
    problem, flood = problem_of(layout), burst.FLOOD
    said = " ".join(statistics_notes(layout))
    assert "as measured" in said
    assert "assumed" not in said
    assert "edited since measured" not in said
    planned = plan(problem, "rod").placement
    usual = np.array([stream.rate for stream in problem.streams])

    def moves(rates: Floats) -> list[Move]:
        return [proposed.move for proposed in propose(picture_of(problem, planned, rates)).moves]

    for times in (0.0, 0.5, 1.0, 6.0, 30.0):
        assert moves(times * usual) == []
    assert problem.streams[flood.part].name == "packets_porto"
    for share in (0.6, 1.0, 2.0, 10.0):
        flooded = usual.copy()
        flooded[flood.part] *= share * flood.times
        first, *others = moves(flooded)
        assert first == Move("source_minutes", "berlin", "oslo")
        assert others in ([], [Move("busy_sources", "porto", "oslo")])


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
