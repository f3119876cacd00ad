"""A class archive in the user's cache, which about halves the start of an embedded site.

Optional: building takes a minute, once per Java and Spark version, and is only done when asked for
(`mooring run --class-archive`). An archive that is there is used. One that does not fit is ignored by Java
itself.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import pyspark

from mooring.disk import DISK
from mooring.errors import EngineError
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite, spark_class_path, spark_home
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import Java
from mooring.spark.sites.local_files import HADOOPS_FILES
from mooring.spark.sites.user_cache import kept_folder

_DUMP_PATIENCE_S = 180.0
"""Dumping took up to 48 s on an idle machine and must not be interrupted."""


def archive_path(java: Java) -> Path:
    """Where the archive for this Java and Spark lies, whether it has been built or not.

    Java takes an archive only for jars that lie where they lay, in the same order: every place of Spark has
    one of its own.
    """
    suffix = "aot" if java.major >= 24 else "jsa"
    places = f"{java.path.resolve()}\n{spark_home().resolve()}\n{spark_class_path()}"
    mark = hashlib.sha256(places.encode()).hexdigest()[:8]
    return kept_folder() / f"spark-{pyspark.__version__}-java-{java.major}-{mark}.{suffix}"


def usable_archive(java: Java) -> Path | None:
    path = archive_path(java)
    return path if path.is_file() and path.stat().st_size else None


def build_archive(java: Java) -> Path:
    """Start a site, exercise it, and keep the classes it loaded; atomic, so that two may build at once."""
    path = archive_path(java)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mooring-archive-", dir=path.parent) as folder:
        fresh = Path(folder) / path.name
        flag = "-XX:AOTCacheOutput" if java.major >= 24 else "-XX:ArchiveClassesAtExit"
        options = EmbeddedOptions(
            jvm_flags=(f"{flag}={fresh}",),
            grace_s=_DUMP_PATIENCE_S,
            settings=HADOOPS_FILES,  # an archive fits only jars that are always at one place
        )
        site = EmbeddedSite("archive", Path(folder), java, capacity=float("inf"), options=options)
        site.start()
        try:
            _exercise(site, Path(folder))
        finally:
            site.stop()
        if not fresh.is_file():
            raise EngineError(f"Java {java.major} wrote no class archive", remedy=f"see {site.log_file}")
        DISK.sync([fresh])
        os.replace(fresh, path)
    return path


def _exercise(site: EmbeddedSite, folder: Path) -> None:
    """Touch what a pipeline touches: files, a window, a checkpoint."""
    session = open_session(site.wait_ready())
    try:
        rows = session.range(10).selectExpr("timestamp_seconds(id) AS at", "id")
        rows.write.parquet(str(folder / "in"))
        stream = session.readStream.schema("at TIMESTAMP, id BIGINT").parquet(str(folder / "in"))
        stream.createOrReplaceTempView("numbers")
        counts = session.readStream.table("numbers").withWatermark("at", "1 second").groupBy("at").count()
        query = (
            counts.writeStream.format("parquet")
            .option("path", str(folder / "out"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)
    finally:
        close_session(session)
