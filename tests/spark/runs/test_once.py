"""`mooring run --once` as a user meets it: what there is has been read when it ends, and none of it twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyarrow.parquet

from mooring.spark.runs.results import read_stored
from mooring.spark.storage.views.versions import ViewVersions

if TYPE_CHECKING:
    from tests.spark.runs.conftest import EvenNumbersMaker, Verb, WaitUntil

ROOT = Path(__file__).parents[3]
PATIENCE_S = 150
COUNTS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.materialized_view
def count():
    return spark.read.table("kept").agg(F.count("*").alias("kept"), F.current_timestamp().alias("at"))

@dp.table
def counts():
    return spark.readStream.table("count")
"""


def delivered(storage: Path) -> list[int]:
    """What the stream of the view has delivered, of which no version is missing and none is there twice."""
    versions, rows = ViewVersions(storage / "views" / "count"), read_stored(storage, "counts").to_pylist()
    current = versions.current()
    assert current is not None
    published = [versions.folder / name for name in (*current.earlier, current.folder)]
    files = [file for folder in published for file in folder.glob("*.parquet")]
    made = [pyarrow.parquet.ParquetFile(file).read()["at"][0].as_py() for file in files]
    assert set(made) <= {row["at"] for row in rows}
    assert len({row["at"] for row in rows}) == len(rows)
    return sorted(row["kept"] for row in rows)


def test_updates_killed_and_whole_and_a_run_in_between_deliver_every_row_once(
    even_numbers: EvenNumbersMaker, mooring: Verb, up_already: str, wait_until: WaitUntil
) -> None:
    """Updates and runs go on from each other; what a killed update left running is ended first."""
    project = even_numbers(f"{{here: {up_already}, there: {up_already}}}")
    folder, storage = project.folder, project.folder / ".mooring" / "storage"
    (folder / "transformations" / "counts.py").write_text(COUNTS)
    with (folder / "mooring.yml").open("a") as settings:
        settings.write("refresh_s: 1\n")
    project.feed(range(100))
    command = [sys.executable, "-m", "mooring", "run", str(folder), "--once", "--lease", "2s"]
    killed = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until((folder / ".mooring" / "status.json").is_file, "the first fragment to run")
    killed.send_signal(signal.SIGKILL)
    killed.wait(PATIENCE_S)

    done = mooring("run", folder, "--once", "--json").document
    assert done["ended"] == "up to date"
    fragments = done["update"]["fragments"]
    assert {each["state"] for each in fragments.values()} == {"done"}
    assert set(fragments) == {"numbers", "kept", "count", "counts"}
    assert fragments["kept"]["rows_written"] == 50
    assert project.kept() == list(range(0, 100, 2))
    assert delivered(storage)[-1] == 50

    project.detach()
    project.feed(range(100, 200))
    project.wait_for(200)
    stored = {table["name"]: table for table in mooring("tables", folder, "--json").document["tables"]}
    assert (stored["numbers"]["rows"], stored["kept"]["rows"]) == (200, 100), "while it runs"
    assert mooring("stop", folder).code == 0
    stored = {table["name"]: table for table in mooring("tables", folder, "--json").document["tables"]}
    assert (stored["numbers"]["rows"], stored["kept"]["rows"]) == (200, 100)

    project.feed(range(200, 300))
    shown = mooring("run", folder, "--once", "--refresh", "numbers")
    assert shown.code == 0, shown.err
    assert "numbers" in shown.out
    assert project.kept() == list(range(0, 200, 2)), "kept was not asked for"
    assert mooring("run", folder, "--once").code == 0
    assert delivered(storage)[-1] == 150
    assert mooring("run", folder, "--once", "--full-refresh-all").code == 0
    assert project.kept() == list(range(0, 300, 2)), "written anew, and not once more"
    assert [row["kept"] for row in read_stored(storage, "counts").to_pylist()] == [150]
    report = json.loads((folder / ".mooring" / "report.json").read_text())
    assert report["update"]["done"]
    page = (folder / ".mooring" / "report.html").read_text()
    assert "<h2>Update</h2>" in page
    tables = mooring("tables", folder, "--json").document["tables"]
    rows = {table["name"]: table["rows"] for table in tables}
    assert rows == {"numbers": 300, "kept": 150, "count": 1, "counts": 1}
    assert {table["site"] for table in tables} <= {"here", "there"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--refresh", "kept"), "found --refresh without --once"),
        (("--full-refresh-all",), "found --full-refresh-all without --once"),
        (("--once", "--full-refresh-all", "--refresh", "kept"), "keep one of the two"),
    ],
)
def test_options_of_an_update_that_mean_nothing_are_refused_before_anything_starts(
    even_numbers: EvenNumbersMaker, mooring: Verb, words: tuple[str, ...], said: str
) -> None:
    project = even_numbers("{here: {capacity: 1}}")
    refused = mooring("run", project.folder, *words)
    assert refused.code == 2
    assert said in refused.err
