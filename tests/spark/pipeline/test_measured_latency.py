"""`latency_ms: measured` in a project's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agents.measured_latencies import keep_survey
from mooring.coordination.survey import NetworkFigures, SiteFigures
from mooring.errors import InputError
from mooring.model.network.coordinate import Coordinate
from mooring.model.problem.latencies import as_matrix
from mooring.spark.pipeline.project import load_project


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spark-pipeline.yml").write_text(
        "name: p\nstorage: s\nlibraries: [{glob: {include: t/**}}]\n"
    )
    (tmp_path / "mooring.yml").write_text(
        "sites: {oslo: {capacity: 1}, rome: {capacity: 1}}\n"
        "latency_ms: measured\n"
        "agents: {rome: '10.0.0.2:7601'}\n"
    )
    return tmp_path


def test_before_anything_was_measured_latencies_are_not_known(folder: Path) -> None:
    settings = load_project(folder).settings
    assert settings.measures_latency
    assert settings.around.network.latency_ms is None
    assert "agents have measured no latencies yet" in settings.latency_notes[0]


def test_what_agents_measured_are_the_latencies(folder: Path) -> None:
    project = load_project(folder)
    figures = NetworkFigures(((0, SiteFigures(Coordinate((0.0, 0.0)), ((1, 12.5),))),))
    keep_survey(project.members.members, "oslo", figures)
    settings = load_project(folder).settings
    assert settings.around.network.latency_ms is not None
    assert as_matrix(settings.around.network.latency_ms).tolist() == [[0.0, 12.5], [12.5, 0.0]]
    assert settings.latency_notes == ("agents measured the latencies of 1 of 1 pairs of sites",)


def test_an_agent_of_no_site_is_refused(folder: Path) -> None:
    text = (folder / "mooring.yml").read_text().replace("{rome:", "{roma:")
    (folder / "mooring.yml").write_text(text)
    with pytest.raises(InputError, match="did you mean 'rome'"):
        load_project(folder)
