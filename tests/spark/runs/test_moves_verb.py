"""`mooring moves` as a user meets it: the list, its application by the running process, and the way back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.cli.main import main
from mooring.controller.journal import Journal
from mooring.placement.placement import FragmentSites
from mooring.spark.storage.stream_logs import sink_entries

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring
    from tests.spark.conftest import ProjectMaker

ROOT = Path(__file__).parents[3]
PATIENCE_S = 150
SETTINGS = """\
sites: {here: {capacity: 2}, there: {capacity: 2}}
streams: {numbers: {site: here, rate: 100}}
queries: {kept: {site: here}}
statistics: {numbers: {cost_us: 5}, kept: {cost_us: 50}}
trigger_s: 0.3
"""
KEPT = """
from pyspark import pipelines as dp

@dp.table
def kept():
    return spark.readStream.table("numbers").filter("n % 2 = 0")
"""
APART, TOGETHER = {"numbers:ingest": "here", "kept": "there"}, {"numbers:ingest": "here", "kept": "here"}


@pytest.fixture
def mooring(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """A verb in this process; only the runner has one of its own."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        return code, *capsys.readouterr()

    return run


def detach(project: str, *words: str) -> None:
    """Through a process that ends, so that the runner is nobody's child here."""
    command = [sys.executable, "-m", "mooring", "run", project, "--detach", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr


def feed(folder: Path, name: str, numbers: range) -> None:
    hidden = folder / "input" / f".{name}"
    hidden.write_text("\n".join(json.dumps({"n": n, "at": "2020-01-01T00:00:00Z"}) for n in numbers))
    hidden.rename(folder / "input" / f"{name}.json")


def kept_numbers(folder: Path) -> list[int]:
    import pyarrow.parquet

    log = folder / ".mooring" / "storage" / "channels" / "kept" / "kept" / "_spark_metadata"
    files = [pyarrow.parquet.ParquetFile(entry.path).read() for entry in sink_entries(log)]
    return sorted(n for table in files for n in table["n"].to_pylist())


def wait_for_rows(folder: Path, upto: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(kept_numbers(folder)) < upto // 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert kept_numbers(folder) == list(range(0, upto, 2))


def test_moves_are_listed_applied_by_the_running_process_rolled_back_and_resumed(
    make_project: ProjectMaker, mooring: Mooring, tmp_path: Path
) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    plan.write_text(json.dumps(APART))
    back.write_text(json.dumps(TOGETHER))
    project = str(folder)
    to_plan = ("moves", project, "--to", str(plan))
    try:
        detach(project, "--placement", str(back))
        feed(folder, "a", range(100))
        wait_for_rows(folder, 100)
        code, out, err = mooring(*to_plan, "--json")
        assert code == 0, err
        shown = json.loads(out)
        assert shown["running"]
        assert shown["applied"] is None
        assert [(m["fragment"], m["from"], m["to"]) for m in shown["moves"]] == [("kept", "here", "there")]
        assert shown["moves"][0]["after"]["headroom"] > shown["before"]["headroom"]
        code, out, err = mooring(*to_plan, "--apply", "--json")
        assert code == 0, out + err
        applied = json.loads(out)["applied"]
        assert applied["state"] == "done"
        assert applied["placement"] == {"numbers": "here", "kept": "there"}
        assert applied["steps"][0]["pause_s"] > 0
        feed(folder, "b", range(100, 200))
        wait_for_rows(folder, 200)
        code, out, err = mooring("moves", project, "--rollback", "--apply")
        assert code == 0, err
        assert "kept: there -> here: done after" in err
        assert mooring(*to_plan, "--apply")[0] == 0
        assert not os.listdir(folder / ".mooring" / "requests")
    finally:
        mooring("stop", project)
    code, out, err = mooring("moves", project, "--to", str(back), "--apply")
    assert code == 4
    assert "does not run" in err
    assert "--placement" in err
    feed(folder, "c", range(200, 300))
    detach(project)
    try:
        wait_for_rows(folder, 300)
        status = json.loads(mooring("status", project, "--json")[1])["last"]
        assert status["placement"] == APART
        assert "as the last run had it" in status["policy"]
    finally:
        mooring("stop", project)


def test_a_pinned_fragment_and_a_project_that_never_ran_are_refused(
    make_project: ProjectMaker, mooring: Mooring, tmp_path: Path
) -> None:
    folder = make_project(settings=SETTINGS, kept_py=KEPT)
    work = folder / ".mooring"
    work.mkdir()
    problem = {
        "sites": {"here": {"capacity": 1}, "there": {"capacity": 1}},
        "streams": {"numbers": {"rate": 1}},
        "operators": {
            "numbers:ingest": {"inputs": ["numbers"], "cost_us": 1, "site": "here", "fragment": "numbers"},
            "kept": {"inputs": ["numbers:ingest"], "cost_us": 1},
        },
    }
    (work / "problem.json").write_text(json.dumps(problem))
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"numbers:ingest": "there", "kept": "there"}))
    to_plan = ("moves", str(folder), "--to", str(plan))
    code, _, err = mooring(*to_plan)
    assert code == 2
    assert "never ran" in err
    Journal(work, time.time).note_placement(FragmentSites({"numbers": "here", "kept": "here"}), "planned")
    code, _, err = mooring(*to_plan)
    assert code == 3
    assert "'numbers' is pinned to 'here'" in err
    code, _, err = mooring("moves", str(folder), "--rollback")
    assert code == 2
    assert "--rollback" in err
