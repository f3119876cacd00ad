"""The same project on one cluster: by Spark's own `spark-pipelines`, and by `mooring run` at its endpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError
from mooring.spark.definitions.pipeline_spec import MARK_NOTE
from mooring.spark.engine.engine import SparkEngine
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.left_sessions import FILE_NAME, read_entries
from mooring.spark.runs.project_run import check_storage, read_layout
from mooring.spark.sites.endpoint import Endpoint, open_session
from mooring.spark.sites.sites import SiteHandle, SiteHandles
from mooring.spark.storage.owned_folder import newest_owned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.runs.conftest import EvenNumbers, EvenNumbersMaker, Verb, WaitUntil
    from tests.spark.shared_cluster import SharedCluster

PATIENCE_S = 90


def test_the_unchanged_project_runs_with_spark_pipelines(
    even_numbers: EvenNumbersMaker, site: EmbeddedSite, session: SparkSession
) -> None:
    project = even_numbers("{here: {capacity: 2}}")
    project.feed(range(20))
    command = [
        sys.executable,
        "-m",
        "pyspark.pipelines.cli",
        "run",
        "--spec",
        str(project.folder / "spark-pipeline.yml"),
    ]
    environment = os.environ | {"SPARK_REMOTE": site.endpoint.url}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(row.n for row in session.table("kept").collect()) == list(range(0, 20, 2))
    for table in ("kept", "numbers"):
        session.sql(f"DROP TABLE {table}")


def test_mooring_run_works_at_a_standalone_clusters_endpoint_as_on_embedded_sites(
    even_numbers: EvenNumbersMaker,
    mooring: Verb,
    cluster: SharedCluster,
    wait_until: WaitUntil,
    tmp_path: Path,
) -> None:
    """Planned, run for a while, reported, resumed in the background and stopped, with every row once."""
    project = even_numbers(f'{{here: {{capacity: 2, connect: "{cluster.url}"}}}}')
    folder = project.folder
    project.feed(range(30))
    placed = {"numbers:ingest": "here", "kept": "here"}
    assert mooring("plan", folder, "--json").document["placement"] == placed
    first = mooring("run", folder, "--for", "1s", "--json").document
    assert first["ended"] == "stopped after the time of --for"
    assert first["sites"] == {"here": "existing endpoint; load estimated"}
    assert cluster.url.split("token=")[1] not in (folder / ".mooring" / "report.json").read_text()
    assert project.kept() in (list(range(0, 30, 2)), [])  # however slow the machine, no row twice
    project.feed(range(30, 60))
    project.detach()
    try:
        project.wait_for(60)
        owned = newest_owned(load_project(folder).settings.storage)
        assert owned is not None
        sessions = read_entries((owned.folder / FILE_NAME).read_bytes())
    finally:
        mooring("stop", folder)
    assert project.kept() == list(range(0, 60, 2))
    assert json.loads((folder / ".mooring" / "report.json").read_text())["ended"] == "stopped by SIGTERM"
    assert {entry["fragment"] for entry in sessions} == {"numbers", "kept"}
    for entry in sessions:  # released, and what ran in them with them
        with pytest.raises(EngineError, match="SESSION_CLOSED"):
            open_session(Endpoint(cluster.url), entry["session"])
    _check_a_mount_of_the_clusters_own(project, cluster, wait_until, tmp_path)


def _check_a_mount_of_the_clusters_own(
    project: EvenNumbers, cluster: SharedCluster, wait_until: WaitUntil, tmp_path: Path
) -> None:
    """The session's word for where the storage is mounted reaches the executors, for reading and writing."""
    (project.folder / ".mooring" / MARK_NOTE).unlink()  # another storage, and on purpose
    (tmp_path / "mounted").symlink_to(tmp_path / "other")
    with (project.folder / "mooring.yml").open("a") as settings:
        settings.write(f"storage: {{root: {tmp_path}/other, sites: {{here: {tmp_path}/mounted}}}}\n")
    loaded = load_project(project.folder)
    sites = SiteHandles([SiteHandle("here", 2.0, Endpoint(cluster.url), None)])
    check_storage(loaded, sites)
    layout = read_layout(loaded, sites["here"])
    engine = SparkEngine(layout, sites, {"kept": "kept"})
    try:
        engine.start("numbers", "here")
        engine.start("kept", "here")

        def delivered() -> bool:
            engine.check()
            return project.kept() == list(range(0, 60, 2))

        wait_until(delivered, "all rows")
    finally:
        engine.close()
    log = (layout.channels["kept"].folder / "_spark_metadata" / "0").read_text()
    assert "viewfs://mooring-" in log
    assert str(tmp_path) not in log
