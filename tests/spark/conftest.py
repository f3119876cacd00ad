"""One small embedded site for all tests of a process, and project folders written on the spot."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.shared_cluster import SharedCluster

SPEC = """\
name: test
storage: file://FOLDER/pipelines-storage
libraries:
  - glob:
      include: transformations/**
"""
SETTINGS = """\
sites:
  here: {capacity: 2}
streams:
  numbers: {site: here, rate: 100}
trigger_s: 0.2
"""
NUMBERS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.active()

@dp.table
def numbers():
    return spark.readStream.schema("n long, at timestamp").json("INPUT")
"""

ProjectMaker = Callable[..., Path]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSite]:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from mooring.spark.sites.java import find_java
    from tests.spark.quick_start import quick_start

    folder = tmp_path_factory.mktemp("site")
    # Ended queries stay in the server's heap for a while, each with its settings: 1 MB and more.
    options = quick_start(heap_mb=1024)
    site = EmbeddedSite("here", folder, find_java(), capacity=2, options=options)
    site.start()
    try:
        site.wait_ready()
        yield site
    finally:
        site.stop()


@pytest.fixture
def session(site: EmbeddedSite) -> Iterator[SparkSession]:
    from mooring.spark.sites.endpoint import close_session, open_session

    opened = open_session(site.endpoint)
    yield opened
    close_session(opened)


@pytest.fixture(scope="session")
def standalone_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedCluster]:
    from tests.spark.shared_cluster import shared_cluster

    base = tmp_path_factory.getbasetemp()
    of_session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with shared_cluster(of_session / "cluster") as cluster:
        yield cluster


@pytest.fixture
def cluster(standalone_cluster: SharedCluster) -> Iterator[SharedCluster]:
    """A real master, workers of one core, and a Connect server, for one test at a time."""
    with standalone_cluster.one_at_a_time():
        yield standalone_cluster


@pytest.fixture
def make_project(tmp_path: Path) -> ProjectMaker:
    """A project folder from file texts; `numbers.py` reads JSON lines from `input/` unless replaced."""

    def make(settings: str = SETTINGS, **files: str) -> Path:
        folder = tmp_path / "project"
        (folder / "transformations").mkdir(parents=True, exist_ok=True)
        (folder / "input").mkdir(exist_ok=True)
        (folder / "spark-pipeline.yml").write_text(SPEC.replace("FOLDER", str(folder)))
        (folder / "mooring.yml").write_text(textwrap.dedent(settings))
        texts = {"numbers_py": NUMBERS} | files
        for name, text in texts.items():
            file = folder / "transformations" / ".".join(name.rsplit("_", 1))
            file.write_text(textwrap.dedent(text).replace("INPUT", str(folder / "input")))
        return folder

    return make


@pytest.fixture(scope="session")
def batch_endpoint(site: EmbeddedSite) -> str:
    """Where batch jobs run, as `--master` takes it: at the site that is up already."""
    return site.endpoint.url


@pytest.fixture(scope="session")
def batch(batch_endpoint: str) -> Iterator[SparkSession]:
    from mooring.spark.jobs.batch_session import batch_session

    with batch_session(batch_endpoint) as session:
        yield session
