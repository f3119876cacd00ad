"""The report of a run in a browser: the same page, from one file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mooring.service.page import __file__ as page_folder
from mooring.service.view.frozen_page import MODULES, frozen_page, joined_script
from mooring.service.view.page_sources import page_names
from mooring.spark.running.snapshot import snapshot_from_json
from tests.service.browser import CHROMIUM, opened_browser
from tests.service.served import serving_run
from tests.service.simulated_project import PROBLEM, SimulatedProject


def status_of_a_run(folder: Path) -> dict[str, Any]:
    with SimulatedProject(folder) as project, serving_run(folder) as served:
        served.until("/api/v1/picture", lambda picture: picture.get("proposal"))
        status = project.files.read_status()
    assert status is not None
    return status


def test_all_modules_are_joined_and_no_name_stands_in_two() -> None:
    assert sorted(MODULES) == [name for name in page_names() if name.endswith(".js")]
    script = joined_script()
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    names = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names))


def test_the_page_loads_nothing_from_elsewhere() -> None:
    for path in Path(page_folder).parent.glob("*.*"):
        addresses = re.findall(r"https?://[^\s\"'`]+", path.read_text())
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium was found: install Debian's `chromium`")
def test_a_frozen_page_shows_the_run_without_a_server(tmp_path: Path) -> None:
    status = status_of_a_run(tmp_path / "demo")
    status["troubles"] = {"busy": "</script><script>alert(1)</script>"}
    snapshots = [snapshot_from_json(status)]
    text = frozen_page(PROBLEM, status, [*snapshots, *snapshots], [], "stopped by SIGTERM", "<h2>Notes</h2>")
    file = tmp_path / "report.html"
    file.write_text(text)
    assert json.loads(re.findall(r'id="frozen">(.*?)</script>', text)[0])["ended"] == "stopped by SIGTERM"
    with opened_browser() as browser:
        page = browser.new_page()
        failures: list[str] = []
        page.on("pageerror", lambda failure: failures.append(str(failure)))
        page.on("dialog", lambda dialog: failures.append(dialog.message))
        page.goto(file.as_uri())
        page.wait_for_selector("#lanes svg")
        assert page.locator("#state").inner_text().endswith("stopped by SIGTERM")
        assert page.locator("[data-fragment=busy]").count() == 1
        assert page.locator("#slice svg").count() == 1
        assert "alert(1)" in page.locator("#troubles").inner_text()
        assert not failures
