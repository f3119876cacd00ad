"""What an edit of mooring.yml means for a project that runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.model.problem.latencies import as_matrix
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.live_settings import SettingsWatch, live_edit
from tests.spark.conftest import ProjectMaker

BEFORE = """\
sites: {here: {capacity: 2}, there: {capacity: 1}}
latency_ms: {here: {there: 10}}
streams: {numbers: {site: here, rate: 100}}
trigger_s: 1
"""


def test_a_site_that_is_added_comes_last_wherever_it_stands_in_the_file(make_project: ProjectMaker) -> None:
    old = load_project(make_project(settings=BEFORE)).settings
    after = BEFORE.replace("{here: {capacity: 2}", "{new: {capacity: 3}, here: {capacity: 2}").replace(
        "latency_ms: {here: {there: 10}}", "latency_ms: {here: {there: 10, new: 20}, there: {new: 30}}"
    )
    edit = live_edit(old, load_project(make_project(settings=after)).settings)
    assert [site.name for site in edit.settings.sites] == ["here", "there", "new"]
    assert [site.name for site in edit.added] == ["new"]
    latency_ms = edit.settings.around.network.latency_ms
    assert latency_ms is not None
    assert as_matrix(latency_ms).tolist() == [[0, 10, 20], [10, 0, 30], [20, 30, 0]]
    assert not edit.network
    assert edit.waiting == ()


def test_what_else_has_changed_waits_for_the_next_run_and_is_named(make_project: ProjectMaker) -> None:
    old = load_project(make_project(settings=BEFORE)).settings
    after = BEFORE.replace("trigger_s: 1", "trigger_s: 5\npolicy: llf").replace("capacity: 1", "capacity: 4")
    edit = live_edit(old, load_project(make_project(settings=after)).settings)
    assert edit.waiting == ("sites.there", "trigger_s", "policy")
    assert edit.settings.sites == old.sites
    assert edit.settings.trigger_s == old.trigger_s
    assert not edit.added
    assert not edit.network
    slower = live_edit(
        old, load_project(make_project(settings=BEFORE.replace("there: 10", "there: 99"))).settings
    )
    assert slower.network


def test_a_site_that_is_gone_is_refused_with_what_to_do(make_project: ProjectMaker) -> None:
    old = load_project(make_project(settings=BEFORE)).settings
    after = BEFORE.replace(", there: {capacity: 1}", "").replace("latency_ms: {here: {there: 10}}\n", "")
    with pytest.raises(InputError, match="the site 'there' was removed while the run uses it"):
        live_edit(old, load_project(make_project(settings=after)).settings)


def test_a_change_is_told_once_and_only_when_the_file_lies_still(make_project: ProjectMaker) -> None:
    folder = make_project(settings=BEFORE)
    project = load_project(folder)
    watch, file = SettingsWatch(project), folder / "mooring.yml"
    assert not watch.has_changed()
    file.write_text(BEFORE + "# and")
    assert not watch.has_changed()
    file.write_text(BEFORE + "# and more")
    assert not watch.has_changed()
    assert watch.has_changed()
    assert not watch.has_changed()
    gone = Path(f"{file}.gone")
    os.replace(file, gone)
    assert not watch.has_changed()
    os.replace(gone, file)
    assert not watch.has_changed()
    assert not watch.has_changed()
