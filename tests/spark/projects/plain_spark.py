"""What plain Spark makes of a project: `spark-pipelines run` at a server that is up, and its tables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet
from pyspark.pipelines.cli import load_pipeline_spec

from mooring.spark.definitions.names import PipelineNames
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from tests.spark.projects.rows import as_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 600


def update(project: Path, endpoint: Endpoint, *options: str) -> None:
    """One update by the program behind `spark-pipelines run`, told where the server is."""
    command = [
        sys.executable,
        "-m",
        "pyspark.pipelines.cli",
        "run",
        "--spec",
        str(_spec_of(project)),
        *options,
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    done = subprocess.run(
        command,
        env=kept | {"SPARK_REMOTE": endpoint.url},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=project,
    )
    assert done.returncode == 0, f"{project.name} failed under plain Spark:\n{done.stdout}\n{done.stderr}"


@contextmanager
def catalog_for(project: Path, endpoint: Endpoint) -> Iterator[None]:
    """The server's catalog with what the project's `setup.sql` says; nothing is left in it afterwards."""
    setup = project / "setup.sql"
    statements = setup.read_text().split(";") if setup.is_file() else []
    with _session(endpoint) as session:
        for statement in statements:
            if statement.strip():
                session.sql(statement)
    try:
        yield
    finally:
        with _session(endpoint) as session:
            for table in _tables(session):
                session.sql(f"DROP TABLE {table}")
            for database in session.catalog.listDatabases():
                if database.name != "default":
                    session.sql(f"DROP DATABASE {database.name}")


def all_rows(project: Path, endpoint: Endpoint) -> dict[str, list[str]]:
    """Of every table in the server's catalog, and of every parquet sink of the project, by the names that
    Mooring gives them.
    """
    names = PipelineNames.of(load_pipeline_spec(_spec_of(project)))
    with _session(endpoint) as session:
        found = {names.key(name): as_lines(session.table(name).toArrow()) for name in _tables(session)}
    return found | sink_rows(project)


def sink_rows(project: Path) -> dict[str, list[str]]:
    """Of the parquet sinks, which lie in `out/` by name. All files are committed where nothing was killed."""
    found = {}
    for folder in sorted((project / "out").glob("*")):
        parts = [pyarrow.parquet.ParquetFile(file).read() for file in sorted(folder.glob("*.parquet"))]
        found[f"sink {folder.name}"] = as_lines(pyarrow.concat_tables(parts)) if parts else []
    return found


def _spec_of(project: Path) -> Path:
    (spec,) = project.glob("spark-pipeline.y*ml")
    return spec


def _tables(session: SparkSession) -> list[str]:
    return [
        f"`{database.name}`.`{table.name}`"
        for database in session.catalog.listDatabases()
        for table in session.catalog.listTables(database.name)
        if not table.isTemporary
    ]


@contextmanager
def _session(endpoint: Endpoint) -> Iterator[SparkSession]:
    session = open_session(endpoint)
    try:
        yield session
    finally:
        close_session(session)
