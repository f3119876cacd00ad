"""`mooring example`: what a wheel brings along can be listed and copied."""

from __future__ import annotations

import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import setuptools  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring

ROOT = Path(__file__).parents[3]


def test_a_copied_example_can_be_planned(
    mooring: Mooring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    listed = mooring("example", "--json").document["examples"]
    assert "network_monitoring" in listed
    assert all(listed.values())  # each has its line
    assert mooring("example", "network_monitoring.yaml").out == "Copied to network_monitoring.yaml\n"
    assert mooring("check", "network_monitoring.yaml").code == 0


def test_a_folder_is_copied_whole_and_overwrites_nothing(mooring: Mooring, tmp_path: Path) -> None:
    target = tmp_path / "mine"
    assert mooring("example", "network_monitoring", "--to", target).code == 0
    assert {"spark-pipeline.yml", "mooring.yml", "transformations"} <= {
        each.name for each in target.iterdir()
    }
    again = mooring("example", "network_monitoring", "--to", target)
    assert again.code == 2
    assert "exists already" in again.err


def test_a_mistyped_name_gets_the_nearest(mooring: Mooring) -> None:
    assert "did you mean 'forest.yaml'?" in mooring("example", "forrest.yaml").err


def packaged(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    given: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **words: given.update(words))
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    return given


def test_every_example_is_in_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "mooring.examples" in packaged(monkeypatch)["packages"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["mooring.examples"]
    listed = subprocess.run(
        ["git", "ls-files", "."], cwd=ROOT / "examples", capture_output=True, text=True, check=True
    )
    for file in map(Path, listed.stdout.splitlines()):
        is_module = len(file.parts) == 1 and file.suffix == ".py"
        assert is_module or any(file.match(one) and one.count("/") == len(file.parts) - 1 for one in patterns)


def test_the_description_of_the_wheel_has_no_link_into_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = re.findall(r"\]\(([^)]*)\)", packaged(monkeypatch)["long_description"])
    assert [target for target in targets if not target.startswith("https://")] == []
