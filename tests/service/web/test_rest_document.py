"""What docs/rest.md shows works as it stands there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mooring.service.web.openapi import openapi_document
from tests.service.served import TOKEN, serving_run
from tests.service.simulated_project import SimulatedProject

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


def test_the_guide_names_every_path() -> None:
    text = GUIDE.read_text()
    for kind in ("run", "desk"):
        for path in openapi_document(kind)["paths"]:
            shown = re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), path)
            assert shown in text or shown.rpartition("/")[2] in text, path
