"""`mooring agent`: certificates, what agents know, and a real process that ends when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mooring.agents.measured_latencies import keep_survey
from mooring.agents.project_members import SPEC_NAMES, read_project_members
from mooring.coordination.survey import NetworkFigures, SiteFigures
from mooring.model.network.coordinate import Coordinate

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mooring.yml").write_text("sites: {oslo: {capacity: 1}, rome: {capacity: 1}}\n")
    return folder


def started(project: Path, *options: str) -> subprocess.Popen[str]:
    """An agent that listens."""
    words = [sys.executable, "-m", "mooring", "agent", str(project), "--site", "oslo", *options]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline().startswith("listens on 127.0.0.1:")
    return child


def test_agents_end_when_told_to_or_with_who_started_them(mooring: Mooring, project: Path) -> None:
    made = mooring("agent", project, "--make-certificates", "--json")
    assert made.document["made"] == ["oslo", "rome", "runner"]
    assert mooring("agent", project, "--make-certificates", "--json").document["made"] == []
    told = started(project)
    second = mooring("agent", project, "--site", "oslo")
    assert second.code == 4
    assert "already runs" in second.err
    os.kill(told.pid, signal.SIGTERM)
    assert told.wait() == 0
    orphan = started(project, "--embedded")
    assert orphan.stdin is not None
    orphan.stdin.close()
    assert orphan.wait() == 0
    for child in (told, orphan):
        assert child.stdout is not None
        child.stdout.close()
        assert child.stdin is not None
        child.stdin.close()
    shown = mooring("agent", project, "--json").document
    assert [(agent["site"], agent["runs"], agent["incarnation"]) for agent in shown["agents"]] == [
        ("oslo", False, 1)
    ]


def test_an_agent_loads_neither_spark_nor_compiled_code(project: Path) -> None:
    """Eighty megabytes are not much, also where it hosts optimisers."""
    check = (
        "import sys, mooring.cli.main, mooring.cli.verbs.agent; "
        "from mooring.algorithms.catalogue import hosted_protocol; hosted_protocol('relaxation'); "
        "print([name for name in ('pyspark', 'numba', 'scipy', 'pandas') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_what_agents_know_is_shown(mooring: Mooring, project: Path) -> None:
    members = read_project_members(project).members
    figures = NetworkFigures(((0, SiteFigures(Coordinate((0.0, 0.0)), ((1, 12.5),))),))
    keep_survey(members, "oslo", figures)
    shown = mooring("agent", project, "--json").document
    assert list(shown) == ["version", "agents", "latency_ms", "notes"]
    assert shown["latency_ms"] == {"oslo": {"rome": 12.5}}
    assert "oslo - rome: 12.5 ms" in mooring("agent", project).out


def test_sites_and_addresses_are_checked_by_name(mooring: Mooring, project: Path) -> None:
    wrong = mooring("agent", project, "--site", "olso")
    assert wrong.code == 2
    assert "did you mean 'oslo'" in wrong.err
    (project / "mooring.yml").write_text("sites: {oslo: {capacity: 1}}\nagents: {oslo: nowhere}\n")
    wrong = mooring("agent", project)
    assert wrong.code == 2
    assert "HOST:PORT" in wrong.err
    (project / "mooring.yml").write_text("sites: {runner: {capacity: 1}}\n")
    assert "another name" in mooring("agent", project).err


def test_specs_have_the_names_that_spark_gives_them() -> None:
    cli = pytest.importorskip("pyspark.pipelines.cli")
    assert set(SPEC_NAMES) == set(cli.PIPELINE_SPEC_FILE_NAMES)
