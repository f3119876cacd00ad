"""What can be asked of a run, from another process."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.controller.journal import Journal
from mooring.errors import EngineError
from mooring.model.problem.problem import Problem
from mooring.spark.runs.run_client import MoveAsker
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.system_clock import SystemClock

PROBLEM = """\
sites: {a: {capacity: 1}, b: {capacity: 1}}
streams: {s: {site: a, rate: 1}}
operators:
  up: {inputs: [s], cost_us: 1, selectivity: 1}
  down: {inputs: [up], cost_us: 1, selectivity: 1}
"""


def test_while_a_fragment_is_down_nothing_can_be_moved_and_the_engine_is_blamed(tmp_path: Path) -> None:
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    files, clock = RunFiles(tmp_path / "work"), SystemClock()
    asker = MoveAsker(
        Problem.load(tmp_path / "problem.yaml"), files, Journal(files.folder, clock.now_s), clock
    )
    with files.held():
        files.write_status({"fragments": {"up": {"site": "a"}, "down": {"site": "b"}}})
        assert dict(asker.current()) == {"up": "a", "down": "b"}
        files.write_status({"fragments": {"up": {"site": "a"}}})
        with pytest.raises(EngineError, match="of the project down does not run at the moment"):
            asker.current()
