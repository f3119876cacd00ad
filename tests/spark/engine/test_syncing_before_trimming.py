"""An engine syncs what sites do not, before it trims and with every look (no Spark needed)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.disk import RealDisk
from mooring.model.placement.placement import FragmentSites
from mooring.spark.engine.engine import SparkEngine
from mooring.spark.engine.fragment_query import RunningFragment
from mooring.spark.sites.endpoint import Endpoint
from mooring.spark.sites.sites import SiteHandle, SiteHandles
from tests.spark.pipeline.written_storage import Flow, WrittenStorage

if TYPE_CHECKING:
    from mooring.spark.pipeline.layout import Layout
    from tests.spark.conftest import ProjectMaker

FLOWS = (Flow("packets", outside=True), Flow("clean", ("packets",)))
CUT = "cuts: [packets]\n"


class _SyncingServer:
    durable = True

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def engine_over(layout: Layout, *, durable: bool = False) -> SparkEngine:
    own = cast(Any, _SyncingServer()) if durable else None
    sites = SiteHandles([SiteHandle("here", 2, Endpoint("sc://localhost:1"), own)])
    engine = SparkEngine(layout, sites, {})
    nothing = cast(Any, None)
    for fragment in layout.fragments:
        engine.roster.add(RunningFragment(fragment, "here", nothing, fragment, nothing))
    assert engine.homes() == FragmentSites(dict.fromkeys(layout.fragments, "here"))
    return engine


@pytest.fixture
def did(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    """Files and folders that were synced, and files that were taken away, in order."""
    found = list[tuple[str, Path]]()
    sync, move = RealDisk.sync, RealDisk.move

    def noting_sync(self: RealDisk, paths: Iterable[Path]) -> None:
        for path in paths:
            found.append(("sync", path))
            sync(self, [path])

    def noting_move(self: RealDisk, old: Path, new: Path) -> None:
        found.append(("take away", old))
        move(self, old, new)

    monkeypatch.setattr(RealDisk, "sync", noting_sync)
    monkeypatch.setattr(RealDisk, "move", noting_move)
    return found


def taken_away(did: list[tuple[str, Path]]) -> list[int]:
    return [at for at, (what, path) in enumerate(did) if what == "take away" and path.suffix == ".parquet"]


def test_what_was_made_of_files_is_on_disk_before_they_are_deleted(
    make_project: ProjectMaker, did: list[tuple[str, Path]]
) -> None:
    layout = WrittenStorage(make_project).run(FLOWS, CUT, batches=3)
    engine = engine_over(layout)
    did.clear()
    assert engine.trim() > 0
    synced = [path for what, path in did[: taken_away(did)[0]] if what == "sync"]
    assert len(taken_away(did)) == 3
    checkpoint, written = layout.checkpoint("clean"), layout.channels["clean"]
    for part in ("offsets/2", "commits/2", "sources/0/2", "offsets", "commits"):
        assert checkpoint / part in synced
    assert checkpoint in synced
    assert synced.index(checkpoint / "commits" / "2") < synced.index(checkpoint / "commits")
    assert {entry.path for entry in written.committed().entries} <= set(synced)
    assert written.sink_log / "2" in synced
    engine.trim()  # and what trimming has changed
    did.clear()
    engine.trim()
    assert did == []


def test_a_disk_that_refuses_to_sync_keeps_every_file(
    make_project: ProjectMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = WrittenStorage(make_project).run(FLOWS, CUT, batches=3)
    engine = engine_over(layout)

    def refused(self: RealDisk, paths: Iterable[Path]) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(RealDisk, "sync", refused)
    with pytest.raises(OSError, match="Input/output error"):
        engine.trim()
    assert len(layout.channels["packets"].committed().entries) == 3


def test_at_sites_that_sync_nothing_more_is_synced_and_with_fast_nothing_is(
    make_project: ProjectMaker, did: list[tuple[str, Path]]
) -> None:
    storage = WrittenStorage(make_project)
    layout = storage.run(FLOWS, CUT, batches=3)
    engine = engine_over(layout, durable=True)
    engine.trim()
    did.clear()
    for name in ("offsets", "commits"):
        (layout.checkpoint("clean") / name / "3").write_text("v1\n{}")
    engine.trim()
    assert did == []
    fast = engine_over(storage.layout(FLOWS, f"{CUT}durability: fast\n"))
    did.clear()
    fast.trim()
    assert not [path for what, path in did if what == "sync"]
