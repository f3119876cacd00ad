"""`mooring run --once` as a user meets it: what there is has been read when it ends, and none of it twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

if TYPE_CHECKING:
    from tests.spark.runs.conftest import EvenNumbersMaker, Verb


def test_updates_and_a_run_in_between_deliver_every_row_once(
    even_numbers: EvenNumbersMaker, mooring: Verb, up_already: str
) -> None:
    """An update reads what there is and ends; a run goes on from there, and an update from that."""
    project = even_numbers(f"{{here: {up_already}, there: {up_already}}}")
    folder = project.folder
    project.feed(range(100))
    done = mooring("run", folder, "--once", "--json").document
    assert done["ended"] == "up to date"
    fragments = done["update"]["fragments"]
    assert {name: each["state"] for name, each in fragments.items()} == {"numbers": "done", "kept": "done"}
    assert fragments["kept"]["rows_read"] == 100
    assert fragments["kept"]["rows_written"] == 50
    assert project.kept() == list(range(0, 100, 2))
    pid = project.detach()
    assert pid > 0
    project.feed(range(100, 200))
    project.wait_for(200)
    assert mooring("stop", folder).code == 0
    project.feed(range(200, 300))
    shown = mooring("run", folder, "--once", "--refresh", "numbers")
    assert shown.code == 0, shown.err
    assert "numbers" in shown.out
    assert project.kept() == list(range(0, 200, 2)), "kept was not asked for"
    assert mooring("run", folder, "--once").code == 0
    assert project.kept() == list(range(0, 300, 2))
    report = json.loads((folder / ".mooring" / "report.json").read_text())
    assert report["update"]["done"]
    refused = mooring("run", folder, "--once", "--refresh", "kepd")
    assert refused.code == 2
    assert "did you mean 'kept'?" in refused.err
