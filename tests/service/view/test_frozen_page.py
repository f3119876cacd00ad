"""The report of a run in a browser: the same page, from one file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mooring.controller.journal import Journal
from mooring.service.page import __file__ as page_folder
from mooring.service.view.frozen_page import MODULES, frozen_page, joined_script
from mooring.service.view.page_sources import page_names
from mooring.spark.engine.snapshot import snapshot_from_json
from tests.service.browser import CHROMIUM, opened_browser
from tests.service.served import PATIENCE_S, TOKEN, serving_run
from tests.service.simulated_project import PROBLEM, SimulatedProject


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


SAME = ("#name", "#tiles", "#lanes", "#queries", "#happenings")
"""Sections of the page that a report has too."""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium was found: install Debian's `chromium`")
def test_a_frozen_page_shows_what_the_page_showed_without_a_server(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    with opened_browser() as browser, SimulatedProject(tmp_path / "demo") as project:
        page = browser.new_page()
        page.set_default_timeout(1000.0 * PATIENCE_S)
        with serving_run(project.folder) as served:
            served.until("/api/v1/picture", lambda picture: picture.get("proposal"))
            project.pause()
            status = project.files.read_status()
            assert status is not None
            records = Journal(project.files.folder, lambda: 0.0).records()
            page.goto(f"{served.url}#token={TOKEN}")
            page.wait_for_function("at => Number(document.body.dataset.at) === at", arg=status["at_s"])
            page.wait_for_selector("#slice svg")
            shown = {place: page.locator(place).text_content() for place in SAME}
        snapshots = [snapshot_from_json(status)]
        status["policy"] = "rod</script><script>alert(1)</script>"
        file.write_text(
            frozen_page(
                PROBLEM, status, [*snapshots, *snapshots], records, "stopped by SIGTERM", "<h2>Notes</h2>"
            )
        )
        failures: list[str] = []
        page.on("pageerror", lambda failure: failures.append(str(failure)))
        page.on("dialog", lambda dialog: failures.append(dialog.message))
        page.goto(file.as_uri())
        page.wait_for_selector("#lanes svg")
        assert {place: page.locator(place).text_content() for place in SAME} == shown
        assert page.locator("#state").inner_text().endswith("stopped by SIGTERM")
        assert page.locator("#slice svg").count() == 1
        assert "alert(1)" in page.locator("#placed").inner_text()
        assert not failures
