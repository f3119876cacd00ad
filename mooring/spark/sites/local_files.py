"""Local files without a process for each, and synced: a small Java class for embedded sites.

Spark reaches local files through Hadoop, which starts a `chmod` for every file it makes and two `readlink`
for every log entry it puts into place: a dozen processes per micro-batch, and a third of the CPU of a site
with small batches (docs/decisions/0019-no-process-per-file.md). `classes/LocalFiles.java` does the same with
calls to the system. Nor does Hadoop sync anything; this class does, so that what Spark has committed survives
a power cut (docs/decisions/0083-durable-by-default.md).

The class is compiled when a site first starts in a folder, by the compiler that Spark brings along for its
own queries, so that a Java without one will do. Where that fails, sites use Hadoop's own, and their note in
the report says why.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyspark

from mooring.atomic_files import write_whole
from mooring.spark.sites.java import Java

SETTINGS = {
    "spark.hadoop.fs.file.impl": "mooring.LocalFiles",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "mooring.LocalFiles$Context",
}
HADOOPS_FILES = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
"""The same without our class. Neither keeps a checksum file beside every small file, which halves the time of
log commits."""
CHECKED = "mooring.LocalFiles$Checked"
UNSYNCED = {"mooring.durability": "fast"}
"""A property of Java, by which our class leaves out every sync."""
_CLASSES = Path(__file__).parent / "classes"
_SOURCE = _CLASSES / "LocalFiles.java"
_COMPILER = "org.codehaus.janino.SimpleCompiler"
_PATIENCE_S = 120.0
_MADE_AT = (1980, 1, 1, 0, 0, 0)
"""The earliest time a jar can state: the same sources give the same bytes."""


def local_files_jar(java: Java, folder: Path) -> Path:
    """The jar to put behind Spark's own, made in `folder` if it is not there. An OSError or SubprocessError
    says why it cannot be.
    """
    if os.pathsep in str(folder):
        raise OSError(f"{folder} has a {os.pathsep!r} in its name, which divides a class path")
    mark = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    jar = folder / f"local-files-{mark}-spark-{pyspark.__version__}.jar"
    if not zipfile.is_zipfile(jar):  # not there, or damaged
        write_whole(jar, _compiled(java), on_disk=True)
    return jar


@functools.cache
def _compiled(java: Java) -> bytes:
    """A jar with the classes."""
    with tempfile.TemporaryDirectory(prefix="mooring-classes-") as folder:
        jars = Path(pyspark.__file__).parent / "jars" / "*"
        compiling = [_COMPILER, str(_CLASSES / "Compile.java"), "mooring.Compile", folder, str(_SOURCE)]
        subprocess.run(
            [java.path, "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp", str(jars), *compiling],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=True,
        )
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as jar:
            for file in sorted(Path(folder).rglob("*.class")):
                name = file.relative_to(folder).as_posix()
                jar.writestr(zipfile.ZipInfo(name, _MADE_AT), file.read_bytes())
        return packed.getvalue()
