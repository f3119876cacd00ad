"""A site added to mooring.yml of a running project is used without a restart; a broken edit is only said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

if TYPE_CHECKING:
    from tests.spark.runs.conftest import EvenNumbersMaker, Verb, WaitUntil


def test_an_embedded_site_joins_takes_a_fragment_and_ends_with_the_run(
    even_numbers: EvenNumbersMaker, up_already: str, mooring: Verb, wait_until: WaitUntil, tmp_path: Path
) -> None:
    project = even_numbers(f"{{here: {up_already}}}")
    folder, settings = project.folder, project.folder / "mooring.yml"
    text = settings.read_text()

    def status() -> dict[str, Any]:
        found: dict[str, Any] = json.loads((folder / ".mooring" / "status.json").read_text())
        return found

    try:
        project.detach()
        project.feed(range(100))
        project.wait_for(100)
        settings.write_text(text + "nonsense: true\n")
        wait_until(lambda: "nonsense" in status()["edit"], "the broken edit to be said")
        assert "the edit of mooring.yml is ignored" in mooring("status", folder).out
        settings.write_text(text.replace("sites: {", "sites: {new: {capacity: 1}, "))
        wait_until(lambda: "new joins" in status()["edit"], "the site to join")
        wait_until(lambda: "new" in status()["sites"], "the site to be seen")
        wait_until(lambda: "site new" not in status()["troubles"], "the site to be up")
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"numbers:ingest": "here", "kept": "new"}))
        moved = mooring("moves", folder, "--to", plan, "--apply", "--json").document["applied"]
        assert moved["placement"]["kept"] == "new"
        project.feed(range(100, 200))
        project.wait_for(200)
        assert status()["sites"]["new"]["fragments"] == ["kept"]
    finally:
        mooring("stop", folder)
    report = (folder / ".mooring" / "report.html").read_text()
    frozen = json.loads(report.partition('id="frozen">')[2].partition("</script>")[0])
    assert [site["name"] for site in frozen["picture"]["sites"]] == ["here", "new"]
    pids = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    mark = f"{folder}/.mooring/sites".encode()
    assert not [pid for pid in pids if mark in _command_line(pid)]


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
