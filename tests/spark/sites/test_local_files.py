"""Embedded sites write local files without starting a process for each, as Hadoop would."""

from __future__ import annotations

import stat
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyspark

from mooring.spark.sites import local_files
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 6


def childrens_cpu_ticks(site: EmbeddedSite) -> int:
    """Of all processes that the server has started and that have ended."""
    fields = Path(f"/proc/{site._server_pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[13]) + int(fields[14])


def run_batches(session: SparkSession, folder: Path) -> None:
    for n in range(BATCHES):
        session.range(n, n + 5).coalesce(1).write.mode("append").parquet(str(folder / "in"))
    rows = session.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    counts = rows.selectExpr("id", "timestamp_seconds(id) AS at").withWatermark("at", "1 second")
    query = (
        counts.groupBy("at")
        .count()
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)


@pytest.fixture(scope="module")
def warm(site: EmbeddedSite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where batches ran, so that whatever is started once has been."""
    folder = tmp_path_factory.mktemp("warm")
    session = open_session(site.endpoint)
    run_batches(session, folder)
    close_session(session)
    return folder


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.usefixtures("warm")
def test_a_micro_batch_starts_no_process(site: EmbeddedSite, session: SparkSession, tmp_path: Path) -> None:
    before = childrens_cpu_ticks(site)
    run_batches(session, tmp_path)
    # None ended, so none took any CPU, however busy the machine is. With Hadoop's own files: a dozen
    # processes per batch, and nine ticks.
    assert childrens_cpu_ticks(site) - before <= 2


def test_files_and_folders_have_the_modes_that_hadoops_mask_leaves(warm: Path) -> None:
    files = [file for file in (warm / "checkpoint").rglob("*") if file.is_file()]
    assert len(files) > BATCHES
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o644}
    folders = [file for file in (warm / "checkpoint").rglob("*") if file.is_dir()]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o755}


def synced(session: SparkSession) -> int:
    """How often the site has synced a file or folder so far."""
    (row,) = session.sql("SELECT reflect('mooring.LocalFiles', 'synced')").collect()
    return int(row[0])


@pytest.mark.usefixtures("warm")
def test_every_file_is_synced_and_the_folder_of_rows_once_per_batch(
    session: SparkSession, tmp_path: Path
) -> None:
    """A power cut would otherwise leave files of zero bytes, and names that nobody finds again."""
    before = synced(session)
    run_batches(session, tmp_path)
    counted = synced(session) - before
    stayed = [file for file in tmp_path.rglob("*") if file.is_file()]
    rows = [file for file in stayed if file.parent.name == "out"]
    entries = [file for file in stayed if file.parent not in (tmp_path / "in", tmp_path / "out")]
    assert len(rows) > BATCHES
    # Each file by itself; each entry of a log with its folder; rows with their folder once per batch, which
    # the sink's log notes. What Spark renames for the input, and folders that are made, come on top.
    least = len(stayed) + len(entries) + len([*(tmp_path / "out" / "_spark_metadata").iterdir()])
    assert least <= counted <= least + 8 * BATCHES + 20


def test_whoever_relies_upon_what_is_being_synced_waits_for_it(tmp_path: Path) -> None:
    """Else a power cut could leave a commit without its sink's log, or that without rows."""
    java, jars = find_java(), Path(pyspark.__file__).parent / "jars" / "*"
    for folder in ("classes", "tried"):
        (tmp_path / folder).mkdir()
    path = f"{jars}:{local_files.local_files_jar(java, tmp_path)}:{tmp_path / 'classes'}"
    start = [java.path, "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", f"-Djava.io.tmpdir={tmp_path / 'tmp'}"]
    compiler, source = local_files._CLASSES / "Compile.java", Path(__file__).with_name("Ordering.java")
    for words in (
        (local_files._COMPILER, str(compiler), "mooring.Compile", str(tmp_path / "classes"), str(source)),
        ("mooring.Ordering", str(tmp_path / "tried")),
    ):
        command = [*start, "-cp", path, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == 7
    assert [line for line in said if not line.startswith("yes: ")] == []


def test_nothing_is_synced_where_nobody_cares(tmp_path: Path) -> None:
    made = {}
    for durable in (True, False):
        made[durable] = EmbeddedSite("s", tmp_path, find_java(), options=EmbeddedOptions(durable=durable))
        command = made[durable]._command(tmp_path)
        assert ("-Dmooring.durability=fast" in command) is not durable
        assert any("mooring.LocalFiles" in word for word in command)
    assert (made[True].durable, made[False].durable) == (True, False)


def test_the_same_source_gives_the_same_jar_without_compiling_it_for_every_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java, made = find_java(), []
    for site in ("one", "two", "three"):
        (tmp_path / site).mkdir()
        if site != "three":
            local_files._compiled.cache_clear()
        else:
            monkeypatch.setattr(local_files, "_COMPILER", "nowhere")
        made.append(local_files.local_files_jar(java, tmp_path / site))
    assert len({jar.read_bytes() for jar in made}) == 1
    names = {*local_files.SETTINGS.values(), local_files.CHECKED}
    assert {f"{name.replace('.', '/')}.class" for name in names} <= set(zipfile.ZipFile(made[0]).namelist())
    assert [file.name for file in made[0].parent.iterdir()] == [made[0].name]


@pytest.mark.parametrize("left", [b"", b"\0" * 4096])
def test_a_jar_that_a_power_cut_damaged_is_made_again(tmp_path: Path, left: bytes) -> None:
    java = find_java()
    jar = local_files.local_files_jar(java, tmp_path)
    whole = jar.read_bytes()
    jar.write_bytes(left)
    assert local_files.local_files_jar(java, tmp_path).read_bytes() == whole


@pytest.mark.parametrize("folder", ["not made", "a:b"])
def test_where_it_cannot_be_made_sites_use_hadoops_own(tmp_path: Path, folder: str) -> None:
    (tmp_path / "a:b").mkdir()
    site = EmbeddedSite("s", tmp_path / folder, find_java())
    command = site._command(tmp_path)
    assert "a process per file" in site.note
    assert "-Dspark.hadoop.fs.file.impl=org.apache.hadoop.fs.RawLocalFileSystem" in command
    assert not any("local-files" in word for word in command)
    assert not site.durable


@pytest.mark.parametrize("settings", [{"spark.master": "spark://127.0.0.1:7077"}, local_files.HADOOPS_FILES])
def test_executors_elsewhere_and_those_who_ask_for_another_do_not_get_it(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    command = EmbeddedSite("s", tmp_path, find_java(), options=EmbeddedOptions(settings=settings))._command(
        tmp_path
    )
    assert not any("mooring.LocalFiles" in word or "local-files" in word for word in command)
