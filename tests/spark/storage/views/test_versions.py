"""A view's current version is the old or the new one, whole, and the overtaken publish nothing (no Spark)."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from mooring.spark.storage import stream_logs
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.views.versions import ListedVersion, ReadsOf, ViewVersion, ViewVersions

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lab.storage_faults.simulated_disk import SimulatedDisk, SimulatedStorage, VirtualClock
from mooring.errors import EngineError
from mooring.spark.storage.fencing import take_epoch
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.views.versions import GRACE_S


def written(versions: ViewVersions, text: str = "rows") -> ViewVersion:
    """As a site leaves it behind."""
    folder = versions.next_folder()
    folder.mkdir(parents=True)
    (folder / "part-0").write_text(text)
    (folder / "part-1").write_text(text)
    return ViewVersion(folder.name, ("part-0", "part-1"), 2, 8, 0.0, 1.0, 5, ReadsOf(), "what it does")


def test_a_refresh_that_was_overtaken_publishes_nothing(tmp_path: Path) -> None:
    owned, versions = unowned(tmp_path), ViewVersions(tmp_path / "views" / "v")
    old = take_epoch(owned.checkpoints / "v")
    first, late = written(versions), written(versions)
    versions.publish(first, old)
    new = take_epoch(owned.checkpoints / "v")
    with pytest.raises(OSError, match=r"No such file or directory|Not a directory"):
        versions.publish(late, old)
    assert versions.files() == [versions.folder / first.folder / name for name in ("part-0", "part-1")]
    versions.publish(written(versions), new)
    assert (found := versions.current()) is not None
    assert found.number == 3, "a folder that was begun keeps its number"
    assert set(found.earlier) == {first.folder}


def test_an_owner_that_was_overtaken_publishes_nothing(tmp_path: Path) -> None:
    owned, versions = unowned(tmp_path), ViewVersions(tmp_path / "views" / "v")
    epoch = take_epoch(owned.checkpoints / "v")
    version = written(versions)
    owned.folder.rename(tmp_path / "taken")
    with pytest.raises(OSError, match=r"No such file or directory|Not a directory"):
        versions.publish(version, epoch)
    assert versions.current() is None


def test_a_damaged_pointer_is_named(tmp_path: Path) -> None:
    versions = ViewVersions(tmp_path)
    versions.pointer.write_text("{")
    with pytest.raises(EngineError, match="cannot be read"):
        versions.current()


def test_a_pointer_that_disagrees_with_its_checksum_is_named(tmp_path: Path) -> None:
    owned, versions = unowned(tmp_path), ViewVersions(tmp_path / "views" / "v")
    versions.publish(written(versions), take_epoch(owned.checkpoints / "v"))
    whole = versions.pointer.read_bytes()
    versions.pointer.write_bytes(whole.replace(b"part-1", b"part-0"))
    with pytest.raises(EngineError, match=r"current\.json cannot be read: its checksum is"):
        versions.current()


def test_a_pointer_that_survives_a_power_cut_names_files_that_do(tmp_path: Path) -> None:
    """Spark has synced none of them."""
    for seed in range(20):
        storage = SimulatedStorage(VirtualClock(), "in any order")
        disk = SimulatedDisk(storage)
        disk.make_folder(Path("/v"))
        disk.make_folder(Path("/epoch"))
        disk.sync([Path("/")])
        versions = ViewVersions(Path("/v"), disk)
        folder = versions.next_folder()
        for name in ("part-0", "day=1/part-1"):
            disk.make_folder((folder / name).parent, parents=True, exist_ok=True)
            disk.write_file(folder / name, b"rows", durable=False)
        version = ViewVersion(folder.name, ("part-0", "day=1/part-1"), 2, 8, 0.0, 1.0, 5, ReadsOf(), "it")
        versions.publish(version, Path("/epoch"))
        storage.power_cut(seed)
        after = ViewVersions(Path("/v"), SimulatedDisk(storage))
        assert [SimulatedDisk(storage).read(file).data for file in after.files()] == [b"rows", b"rows"]


class Life(RuleBasedStateMachine):
    """Refreshes begin, are published or overtaken; readers hold versions; time passes, and it is swept."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.owned: OwnedFolder = unowned(self.root)
        self.versions = ViewVersions(self.root / "views" / "v")
        self.epoch = take_epoch(self.owned.checkpoints / "v")
        self.begun: list[tuple[ViewVersion, Path]] = []
        self.held: list[ViewVersion] = []
        self.published: list[str] = []
        self.late_s = 0.0

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @rule()
    def begin(self) -> None:
        self.begun.append((written(self.versions), self.epoch))

    @precondition(lambda self: self.begun)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        version, epoch = self.begun.pop(data.draw(st.integers(0, len(self.begun) - 1)))
        stands = epoch == self.epoch
        try:
            self.versions.publish(version, epoch)
        except OSError:
            assert not stands
            return
        assert stands, "it was overtaken"
        self.published.append(version.folder)

    @rule()
    def overtake(self) -> None:
        self.epoch = take_epoch(self.owned.checkpoints / "v")
        self.begun = [each for each in self.begun if each[1] == self.epoch or len(self.begun) > 2]

    @rule()
    def hold(self) -> None:
        if (found := self.versions.hold()) is not None:
            self.held.append(found)

    @precondition(lambda self: self.held)
    @rule()
    def release(self) -> None:
        self.versions.release(self.held.pop(0))

    @rule(later=st.booleans())
    def sweep(self, later: bool) -> None:
        self.late_s += 2 * GRACE_S if later else 0.0
        self.versions._making = {version.folder for version, _ in self.begun}
        self.versions.sweep(self.owned.remove, time.monotonic() + self.late_s)

    @invariant()
    def whoever_reads_finds_all_of_it(self) -> None:
        found = self.versions.current()
        assert (found.folder if found else None) == (self.published[-1] if self.published else None)
        for version in [*self.held, *([found] if found else [])]:
            for name in version.files:
                assert (self.versions.path(version) / name).read_text() == "rows"

    @invariant()
    def no_folder_is_used_twice(self) -> None:
        assert len({*self.published}) == len(self.published)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


def test_versions_go_when_nobody_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owned, versions = unowned(tmp_path), ViewVersions(tmp_path / "views" / "v")
    epoch = take_epoch(owned.checkpoints / "v")
    folders = []
    for _ in range(3):
        versions.publish(written(versions), epoch)
        found = versions.current()
        assert found is not None
        folders.append(found.folder)
    orphan = written(versions).folder
    with versions.making() as under_way:
        under_way.mkdir()
        versions.sweep(owned.remove)
        assert sorted(os.listdir(versions.folder)) == sorted([*folders, under_way.name, "current.json"]), (
            orphan
        )
    found = versions.current()
    assert found is not None
    again = ViewVersions(versions.folder)  # the next run, whatever the clock says by then
    monkeypatch.setattr(time, "time", lambda: 1e12)
    again.sweep(owned.remove)
    assert (versions.folder / folders[-2]).is_dir(), "as long again for those who list it now"
    later_s = time.monotonic() + GRACE_S + 1
    versions.sweep(owned.remove, later_s)
    assert sorted(os.listdir(versions.folder)) == sorted([folders[-1], "current.json"])


def test_a_pointer_is_read_back_as_it_was_published(tmp_path: Path) -> None:
    owned, versions = unowned(tmp_path), ViewVersions(tmp_path / "views" / "v")
    version = msgspec.structs.replace(
        written(versions), reads=ReadsOf({"f": 7}, {"f": "0a"}, {"w": "000001-00000000"})
    )
    versions.publish(version, take_epoch(owned.checkpoints / "v"))
    assert versions.current() == version


@pytest.fixture
def listed(tmp_path: Path) -> ListedVersion:
    versions = ViewVersions(tmp_path / "views" / "v")
    versions.folder.mkdir(parents=True)
    return ListedVersion(versions, unowned(tmp_path), lambda path: f"file://{path}")


def publish(listed: ListedVersion, *names: str) -> list[Path]:
    """A version with these files, which are returned."""
    folder = listed.versions.next_folder()
    folder.mkdir()
    for name in names:
        (folder / name).write_text("rows")
    version = ViewVersion(folder.name, names, 1, 4, 0.0, 1.0, 5, ReadsOf(), "query")
    listed.versions.publish(version, listed.owned.out)
    return [folder / name for name in names]


def named(listed: ListedVersion) -> list[Path]:
    return [entry.path for entry in stream_logs.sink_entries(listed.folder / "_spark_metadata")]


def test_it_names_one_version_after_the_other_and_nothing_before_the_first(listed: ListedVersion) -> None:
    listed.follow()
    assert named(listed) == []
    assert listed.folder.is_dir(), "so that the table can be read"
    for number in range(4):
        files = publish(listed, "part-0", f"part-{number + 1}")
        assert named(listed) != files, "it follows, and a kill in between leaves the one before"
        listed.follow()
        assert named(listed) == files
    listed.follow()
    left = sorted(path.name for path in (listed.folder / "_spark_metadata").iterdir())
    assert left == ["3.compact", "4.compact"], "nothing to say, nothing written"


def test_a_sweep_leaves_it_alone(listed: ListedVersion) -> None:
    files = publish(listed, "part-0")
    listed.follow()
    listed.versions.sweep(listed.owned.remove, now_s=1e12)
    assert named(listed) == files
    assert all(file.is_file() for file in files)


def test_an_owner_that_was_overtaken_changes_nothing(listed: ListedVersion, tmp_path: Path) -> None:
    before = publish(listed, "part-0")
    listed.follow()
    publish(listed, "part-0")
    listed.owned.folder.rename(tmp_path / "taken")
    with pytest.raises(OSError, match=r"No such file or directory|Not a directory"):
        listed.follow()
    assert named(listed) == before
