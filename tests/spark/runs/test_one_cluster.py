"""The same project on one cluster: by Spark's own `spark-pipelines`, and by `mooring run` at its endpoint."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
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
from mooring.spark.sites.embedded_site import EmbeddedSite, spark_home
from mooring.spark.sites.endpoint import Endpoint, open_session
from mooring.spark.sites.java import find_java
from mooring.spark.sites.sites import SiteHandle, SiteHandles
from mooring.spark.storage.owned_folder import newest_owned
from tests.spark.quick_start import quick_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.runs.conftest import EvenNumbers, EvenNumbersMaker, Verb, WaitUntil

ROOT = Path(__file__).parents[3]
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


def launch(words: list[str], log: Path, pattern: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start a Spark daemon and wait until its log says what it was started for."""
    java = find_java()
    command = [str(java.path), "-Xmx384m", *java.module_options(), "-cp", f"{spark_home()}/jars/*", *words]
    environment = os.environ | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(java.path.resolve().parent.parent),
    }
    with log.open("wb") as out:
        daemon = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    deadline = time.monotonic() + PATIENCE_S
    while (match := re.search(pattern, log.read_text())) is None:
        if daemon.poll() is not None or time.monotonic() > deadline:
            daemon.kill()
            raise AssertionError(log.read_text())
        time.sleep(0.1)
    return daemon, match[1]


@pytest.fixture(scope="module")
def standalone_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A standalone cluster of one worker with one core."""
    tmp_path = tmp_path_factory.mktemp("standalone")
    master, url = launch(
        ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"],
        tmp_path / "master.log",
        r"Starting Spark master at (spark://\S+)",
    )
    try:
        limits = ["--cores", "1", "--memory", "700m", "--webui-port", "0"]
        folder = ["--work-dir", str(tmp_path / "work")]
        worker, _ = launch(
            ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", *limits, *folder, url],
            tmp_path / "worker.log",
            r"Successfully registered with master (\S+)",
        )
        try:
            yield url
        finally:
            worker.terminate()
            worker.wait(PATIENCE_S)
    finally:
        master.terminate()
        master.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def cluster(standalone_master: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Connect server that runs on that cluster and is none of Mooring's business."""
    settings = {
        "spark.master": standalone_master,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    options = quick_start(settings=settings)
    server = EmbeddedSite("cluster", tmp_path_factory.mktemp("cluster"), find_java(), options=options)
    server.start()
    try:
        yield server.wait_ready().url
    finally:
        server.stop()


@pytest.mark.spark
def test_mooring_run_works_at_a_standalone_clusters_endpoint_as_on_embedded_sites(
    even_numbers: EvenNumbersMaker, mooring: Verb, cluster: str, wait_until: WaitUntil, tmp_path: Path
) -> None:
    """Planned, run for a while, reported, resumed in the background and stopped, with every row once."""
    project = even_numbers(f'{{here: {{capacity: 2, connect: "{cluster}"}}}}')
    folder = project.folder
    project.feed(range(30))
    placed = {"numbers:ingest": "here", "kept": "here"}
    assert mooring("plan", folder, "--json").document["placement"] == placed
    first = mooring("run", folder, "--for", "1s", "--json").document
    assert first["ended"] == "stopped after the time of --for"
    assert first["sites"] == {"here": "existing endpoint; load estimated"}
    assert cluster.split("token=")[1] not in (folder / ".mooring" / "report.json").read_text()
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
            open_session(Endpoint(cluster), entry["session"])
    _check_a_mount_of_the_clusters_own(project, cluster, wait_until, tmp_path)


def _check_a_mount_of_the_clusters_own(
    project: EvenNumbers, cluster: str, wait_until: WaitUntil, tmp_path: Path
) -> None:
    """The session's word for where the storage is mounted reaches the executors, for reading and writing."""
    (project.folder / ".mooring" / MARK_NOTE).unlink()  # another storage, and on purpose
    (tmp_path / "mounted").symlink_to(tmp_path / "other")
    with (project.folder / "mooring.yml").open("a") as settings:
        settings.write(f"storage: {{root: {tmp_path}/other, sites: {{here: {tmp_path}/mounted}}}}\n")
    loaded = load_project(project.folder)
    sites = SiteHandles([SiteHandle("here", 2.0, Endpoint(cluster), None)])
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
