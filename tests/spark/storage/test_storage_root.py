"""Sites may mount one storage root under different paths; no log names any of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError, InputError
from mooring.spark.engine.engine import SparkEngine
from mooring.spark.engine.warm_up import warm_up
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import check_storage, forget_everything, read_layout
from mooring.spark.runs.results import read_stored
from mooring.spark.sites.embedded_site import EmbeddedSite
from mooring.spark.sites.java import find_java
from mooring.spark.sites.sites import SiteHandle, SiteHandles
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.storage_root import StorageRoot, local_path
from tests.spark.quick_start import quick_start

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

PATIENCE_S = 60
COUNTED = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def counted():
    numbers = spark.readStream.table("numbers").withWatermark("at", "1 second")
    return numbers.groupBy(F.window("at", "10 seconds")).agg(F.sum("n").alias("n"))
"""
SETTINGS = """\
sites: {a: {capacity: 1}, b: {capacity: 1}}
streams: {numbers: {site: a, rate: 100}}
queries: {counted: {site: b}}
tables: {numbers: {keep: read}}
trigger_s: 0.3
storage: {root: STORAGE/real, sites: {a: STORAGE/at_a, b: STORAGE/at_b}}
"""


def feed(folder: Path, second: int) -> None:
    at = f"2020-01-01T00:{second // 60:02d}:{second % 60:02d}Z"
    hidden = folder / "input" / f".{second}"
    hidden.write_text(json.dumps({"n": second, "at": at}))
    hidden.rename(folder / "input" / f"{second:04d}.json")


def wait_until(engine: SparkEngine, happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        engine.check()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def other_site(tmp_path: Path) -> Iterator[EmbeddedSite]:
    made = EmbeddedSite("a", tmp_path / "site", find_java(), capacity=2, options=quick_start())
    made.start()
    try:
        made.wait_ready()
        yield made
    finally:
        made.stop()


@pytest.mark.spark
def test_rows_cross_between_sites_that_mount_the_storage_under_different_paths(
    make_project: ProjectMaker, site: EmbeddedSite, other_site: EmbeddedSite, tmp_path: Path
) -> None:
    """Each path is a link that only the site it belongs to has while that site works."""
    (tmp_path / "real").mkdir()
    at_a, at_b = tmp_path / "at_a", tmp_path / "at_b"
    folder = make_project(settings=SETTINGS.replace("STORAGE", str(tmp_path)), counted_py=COUNTED)
    sites = SiteHandles([SiteHandle("a", 1.0, other_site.endpoint, other_site)])
    at_a.symlink_to(tmp_path / "real")
    project = load_project(folder)
    check_storage(project, sites)
    layout = read_layout(project, sites["a"])
    sites.replace(SiteHandle("b", 1.0, site.endpoint, site))
    engine = SparkEngine(layout, sites, {"counted": "counted"})
    try:
        engine.start("numbers", "a")
        for second in range(60):
            feed(folder, second)
        feed(folder, 3000)
        wait_until(engine, lambda: read_stored(layout.root, "numbers").num_rows == 61)
        engine.stop("numbers")
        at_a.unlink()
        at_b.symlink_to(tmp_path / "real")
        check_storage(project, {"b": sites["b"]})
        # At its own path, though Mooring's is there too: `real` itself would do on this machine alone.
        assert warm_up("b", site.endpoint, layout.storage_root, stateful=True)
        engine.start("counted", "b")
        wait_until(engine, lambda: read_stored(layout.root, "counted").num_rows == 6)
        channel = layout.channels["numbers"]
        wait_until(engine, lambda: (channel.trim(), channel.state().start == channel.state().end)[1])
        engine.stop("counted")
    finally:
        engine.close()
    expected = [sum(range(start, start + 10)) for start in range(0, 60, 10)]
    assert sorted(read_stored(tmp_path / "real", "counted")["n"].to_pylist()) == expected
    assert not list(channel.folder.glob("*.parquet"))
    written = [path for path in (tmp_path / "real").rglob("*") if path.is_file()]
    assert not [path for path in written if b"/at_" in path.read_bytes()]
    logs = [path for path in written if path.parent.name == "_spark_metadata"]
    logs += (layout.checkpoint("counted") / "sources" / "0").iterdir()
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
    assert lines
    assert all(line["path"].startswith("viewfs://mooring-") for line in lines)
    assert not [path for path in written if path.suffix == ".crc"]


def test_a_site_with_another_folder_under_the_roots_path_is_named(
    site: EmbeddedSite, tmp_path: Path, make_project: ProjectMaker
) -> None:
    """Or with none: its readers would wait for ever for rows that others write elsewhere."""
    for elsewhere, match in (("at_b", "does not see the storage root"), ("other", "another folder")):
        settings = SETTINGS.replace("at_b", elsewhere).replace("STORAGE", str(tmp_path / elsewhere))
        project = load_project(make_project(settings=settings))
        if elsewhere == "other":
            StorageRoot(Path(project.settings.storage_sites["b"])).create()
        with pytest.raises(EngineError, match=match):
            check_storage(project, {"b": SiteHandle("b", 1.0, site.endpoint, site)})


def test_logs_that_name_plain_paths_are_not_given_site_paths_afterwards(
    tmp_path: Path, make_project: ProjectMaker
) -> None:
    plain = StorageRoot(tmp_path / "root", {"a": str(tmp_path / "root")})
    plain.create()
    assert plain.address(tmp_path / "root" / "x") == f"file://{tmp_path}/root/x"
    assert plain.session_settings("a") == {}
    differing = StorageRoot(tmp_path / "root", {"a": "/elsewhere"})
    (tmp_path / "root" / "channels").mkdir()
    with pytest.raises(InputError, match="--fresh"):
        differing.create()
    settings = SETTINGS.replace("STORAGE/real", str(tmp_path / "root")).replace("STORAGE", "/mnt")
    project = load_project(make_project(settings=settings))
    forget_everything(project, unowned(project.settings.storage))
    differing.create()
    address = differing.address(tmp_path / "root" / "channels" / "x")
    assert address.startswith("viewfs://mooring-")
    assert str(tmp_path) not in address
    log = tmp_path / "root" / "channels" / "_spark_metadata"
    assert local_path(address, log) == tmp_path / "root" / "channels" / "x"
    # Once made, the name stays, whatever the paths become.
    assert StorageRoot(tmp_path / "root").address(tmp_path / "root" / "channels" / "x") == address


@pytest.mark.parametrize(
    ("storage", "match"),
    [
        ("{root: x, sites: {c: /mnt}}", "storage.sites: found the unknown key 'c'"),
        ("{root: x, sites: {a: mnt}}", "an absolute path"),
        ("{roots: x}", "root"),
        ("s3a://bucket/x", "object stores cannot"),
        ("{sites: {a: 's3a://bucket/x'}}", "storage.sites.a"),
    ],
)
def test_storage_that_cannot_work_is_refused_by_name(
    make_project: ProjectMaker, storage: str, match: str
) -> None:
    settings = "\n".join([*SETTINGS.splitlines()[:-1], f"storage: {storage}"])
    with pytest.raises(InputError, match=match):
        load_project(make_project(settings=settings))


@pytest.mark.parametrize("mark", ["", '{"name": "moor', "[]"])
def test_a_torn_mark_is_named(tmp_path: Path, mark: str) -> None:
    (tmp_path / "mooring-storage.json").write_text(mark)
    with pytest.raises(EngineError, match=r"mooring-storage\.json cannot be read"):
        StorageRoot(tmp_path).create()
