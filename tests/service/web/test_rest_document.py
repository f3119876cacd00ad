"""What docs/rest.md shows works as it stands there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mooring.service.view.history import History
from mooring.service.view.planning_desk import PlanningDesk
from mooring.service.view.run_source import RunSource
from mooring.service.view.run_view import RunView
from mooring.service.web.desk_service import desk_app
from mooring.service.web.guard import Rules
from mooring.service.web.openapi import openapi_document
from mooring.service.web.run_service import run_app
from mooring.spark.runs.system_clock import SystemClock
from tests.service.served import TOKEN, serving_run
from tests.service.simulated_project import PROBLEM, SimulatedProject

GUIDE = Path("docs/rest.md")


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl was found")
def test_the_examples_of_the_guide_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) >= 2
    with SimulatedProject(tmp_path / "demo") as project, serving_run(project.folder) as served:
        served.until("/api/v1/picture", lambda picture: picture.get("proposal"))
        (project.files.folder / "token").write_text(TOKEN)
        for block in blocks:
            script = block.replace("http://127.0.0.1:8080/", served.url).replace(
                "PROJECT", str(project.folder)
            )
            script = script.replace("curl -s", "curl -sf")
            command = ["bash", "-euc", script]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
            assert done.returncode == 0, (script, done.stdout, done.stderr)


def test_the_openapi_document_has_every_route_and_no_other(tmp_path: Path) -> None:
    run = RunView(RunSource(tmp_path, SystemClock()), History(None))
    rules = Rules("t" * 40, ["localhost"], reading_is_open=True)
    for kind, app in (
        ("run", run_app(run, rules)),
        ("desk", desk_app(PlanningDesk("small", PROBLEM), rules)),
    ):
        there = {
            (route.path, method.lower())
            for route in app.app.routes
            for method in route.methods - {"HEAD"}
            if route.path != "/" and not route.path.startswith("/page/")
        }
        paths = openapi_document(kind)["paths"]
        assert there == {(path, method) for path, operations in paths.items() for method in operations}
        names = [each["operationId"] for operations in paths.values() for each in operations.values()]
        assert len(names) == len(set(names))


def test_the_guide_names_every_path() -> None:
    text = GUIDE.read_text()
    for kind in ("run", "desk"):
        for path in openapi_document(kind)["paths"]:
            shown = re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), path)
            assert shown in text or shown.rpartition("/")[2] in text, path
