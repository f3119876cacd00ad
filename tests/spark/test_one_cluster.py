"""The same project on one cluster: by Spark's own `spark-pipelines`, and by Mooring at its endpoint."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.embedded_site import EmbeddedOptions, EmbeddedSite, spark_home
from mooring.spark.java import find_java
from mooring.spark.project import load_project
from mooring.spark.project_run import prepared_run
from mooring.spark.results import read_dataset

PATIENCE_S = 90
KEPT = """
from pyspark import pipelines as dp

@dp.table
def kept():
    return spark.readStream.table("numbers").filter("n % 2 = 0")
"""


def feed(folder: Path, numbers: range) -> None:
    lines = [json.dumps({"n": n, "at": "2020-01-01T00:00:00Z"}) for n in numbers]
    (folder / "input" / f"f{numbers.start}.json").write_text("\n".join(lines))


def test_the_unchanged_project_runs_with_spark_pipelines(make_project, site, session) -> None:
    folder = make_project(kept_py=KEPT)
    feed(folder, range(20))
    command = [
        sys.executable,
        "-m",
        "pyspark.pipelines.cli",
        "run",
        "--spec",
        str(folder / "spark-pipeline.yml"),
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


@pytest.fixture
def standalone_master(tmp_path: Path) -> Iterator[str]:
    """A standalone cluster of one worker with one core."""
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


def test_a_standalone_clusters_endpoint_serves_as_a_site(make_project, standalone_master, tmp_path) -> None:
    settings = {
        "spark.master": standalone_master,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    endpoint = EmbeddedSite(
        "cluster", tmp_path / "cluster", find_java(), options=EmbeddedOptions(settings=settings)
    )
    endpoint.start()
    try:
        url = endpoint.wait_ready().url
        folder = make_project(
            settings=f"""\
            sites: {{here: {{capacity: 1, connect: "{url}"}}}}
            streams: {{numbers: {{site: here, rate: 100}}}}
            queries: {{kept: {{site: here}}}}
            trigger_s: 0.5
            """,
            kept_py=KEPT,
        )
        feed(folder, range(30))
        with prepared_run(load_project(folder)) as prepared, prepared.engine() as engine:
            prepared.deploy(engine, {"numbers:ingest": "here", "kept": "here"})
            deadline = time.monotonic() + PATIENCE_S
            while read_dataset(prepared.layout, "kept").num_rows < 15:
                engine.check()
                assert time.monotonic() < deadline
                time.sleep(0.2)
            seen = engine.snapshot().sites["here"]
            assert seen.estimated
            engine.stop_all()
            assert sorted(read_dataset(prepared.layout, "kept")["n"].to_pylist()) == list(range(0, 30, 2))
    finally:
        endpoint.stop()
