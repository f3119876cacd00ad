"""`mooring moves --leave` and `--return` as a user meets them: with a run in progress, and without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

if TYPE_CHECKING:
    from tests.spark.runs.conftest import EvenNumbersMaker, Verb


def test_a_site_is_left_stays_empty_over_a_restart_and_is_used_again(
    even_numbers: EvenNumbersMaker, up_already: str, mooring: Verb, tmp_path: Path
) -> None:
    project = even_numbers(f"{{here: {up_already}, there: {up_already}}}")
    folder, plan = project.folder, tmp_path / "plan.json"
    plan.write_text(json.dumps({"numbers:ingest": "here", "kept": "there"}))
    try:
        project.detach("--placement", str(plan))
        project.feed(range(100))
        project.wait_for(100)
        refused = mooring("moves", folder, "--leave", "here")
        assert refused.code == 3
        assert "numbers can run at 'here' only" in refused.err
        left = mooring("moves", folder, "--leave", "there", "--json").document
        assert left["answer"]["placement"] == {"numbers": "here", "kept": "here"}
        assert mooring("status", folder, "--json").document["left_sites"].keys() == {"there"}
        project.feed(range(100, 200))
        project.wait_for(200)
        back = mooring("moves", folder, "--rollback", "--apply")
        assert back.code == 4
        assert "there is kept empty" in back.err
    finally:
        mooring("stop", folder)
    assert "there is kept empty until" in mooring("status", folder).out
    planned = mooring("plan", folder, "--json").document
    assert set(planned["placement"].values()) == {"here"}
    assert planned["left_sites"].keys() == {"there"}
    given = mooring("run", folder, "--placement", plan, "--for", "1")
    assert given.code == 2
    assert "has 'kept' at 'there', which is kept empty" in given.err
    # Without a run it is recorded for the next.
    assert "the next run uses there again" in mooring("moves", folder, "--return", "there").out
    assert mooring("moves", folder, "--return", "there").code == 2
    refused = mooring("moves", folder, "--leave", "here")
    assert refused.code == 3
    assert "can run at" in refused.err
    assert mooring("moves", folder, "--leave", "nowhere").code == 2
    assert "the next run leaves there empty" in mooring("moves", folder, "--leave", "there").out
    assert mooring("status", folder, "--json").document["left_sites"].keys() == {"there"}


def test_a_run_begins_although_a_site_that_was_left_is_down(
    even_numbers: EvenNumbersMaker, up_already: str, mooring: Verb
) -> None:
    sites = f"{{here: {up_already}, away: {{capacity: 1, connect: DOWN}}}}"
    project = even_numbers(sites.replace("DOWN", '"sc://localhost:1"'))
    refused = mooring("run", project.folder, "--for", "1")
    assert refused.code == 4
    assert "away" in refused.err
    assert mooring("moves", project.folder, "--leave", "away").code == 0
    try:
        project.detach()
        project.feed(range(100))
        project.wait_for(100)
        status = mooring("status", project.folder, "--json").document["last"]
        assert status["troubles"]["site away"].startswith("lost")
    finally:
        mooring("stop", project.folder)
