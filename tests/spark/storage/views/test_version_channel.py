"""Every version that was published reaches every reader once, whole and in order (no Spark)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mooring.spark.storage import stream_logs
from mooring.spark.storage.fencing import take_epoch
from mooring.spark.storage.owned_folder import OwnedFolder, unowned
from mooring.spark.storage.views.version_channel import VersionChannel
from mooring.spark.storage.views.versions import ReadsOf, ViewVersion, ViewVersions


class View:
    """A view with its versions and its channel, as one run has them."""

    def __init__(self, root: Path) -> None:
        self.root, self.owned = root, unowned(root)
        self.versions = ViewVersions(root / "views" / "v")
        self.epoch = take_epoch(self.owned.checkpoints / "v")
        folder, link = root / "channels" / "v" / "v", root / "links" / "v"
        self.channel = VersionChannel(
            "v", folder, link, self.checkpoint, self.owned, self.versions, lambda path: f"file://{path}"
        )
        self.channel.create()

    def checkpoint(self, reader: str) -> Path:
        return self.root / "readers" / reader

    def refreshed(self, *names: str) -> ViewVersion:
        """A version as a site leaves it behind, published."""
        folder = self.versions.next_folder()
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(folder.name)
        folder.mkdir(parents=True, exist_ok=True)
        version = ViewVersion(folder.name, names, len(names), 8, 0.0, 1.0, 5, ReadsOf(), "query")
        self.versions.publish(version, self.epoch)
        return version

    def refresh(self, *names: str) -> str:
        self.channel.hand_over()
        version = self.refreshed(*names)
        self.channel.hand_over()
        return version.folder


class Reader:
    """A file source as Spark has it: takes in what the log names and it has not seen, batch by batch."""

    def __init__(self, view: View, name: str) -> None:
        self.view, self.name = view, name
        self.checkpoint = view.checkpoint(name)
        for part in ("sources/0", "offsets", "commits"):
            (self.checkpoint / part).mkdir(parents=True)
        self.seen: list[str] = []
        self.rows: list[str] = []
        """Versions, file by file, in the order of reading."""
        self.batch = -1
        self.planned: list[Path] = []
        view.channel.register(name)

    def plan(self) -> None:
        entries = stream_logs.sink_entries(self.view.channel.sink_log)
        fresh = [entry for entry in entries if str(entry.path) not in self.seen]
        fresh.sort(key=lambda entry: entry.modified_s)
        if not fresh:
            return
        self.batch += 1
        lines = [
            json.dumps({"path": f"file://{entry.path}", "timestamp": 0, "batchId": self.batch})
            for entry in fresh
        ]
        (self.checkpoint / "sources/0" / str(self.batch)).write_text("\n".join(["v1", *lines]))
        offsets = ["v1", "{}", json.dumps({"logOffset": self.batch})]
        (self.checkpoint / "offsets" / str(self.batch)).write_text("\n".join(offsets))
        self.planned = [entry.path for entry in fresh]
        self.seen += [str(path) for path in self.planned]

    def commit(self) -> None:
        # A file that is gone is empty to Spark, and so its rows would be lost.
        self.rows += [path.read_text() for path in self.planned]
        self.planned = []
        if self.batch >= 0:
            (self.checkpoint / "commits" / str(self.batch)).write_text("v1\n{}")

    def read(self) -> list[str]:
        self.plan()
        self.commit()
        return self.rows


def test_a_reader_gets_every_version_once_and_nothing_is_kept_for_it_afterwards(tmp_path: Path) -> None:
    view = View(tmp_path)
    reader = Reader(view, "r")
    view.channel.begin("r")
    first, second = view.refresh("part-0", "part-1"), view.refresh("part-0")
    view.channel.trim()
    assert reader.read() == [first, first, second]
    third = view.refresh("part-0")
    assert reader.read() == [first, first, second, third]
    view.channel.trim()
    left = {entry.path.name for entry in stream_logs.sink_entries(view.channel.sink_log)}
    assert left == {f"{third}-part-0"}, "which stays for readers to come"
    assert {path.name for path in view.channel.folder.iterdir()} == {"_spark_metadata", f"{third}-part-0"}
    assert reader.read() == [first, first, second, third]


def test_files_outlive_their_version(tmp_path: Path) -> None:
    view = View(tmp_path)
    reader = Reader(view, "r")
    view.channel.begin("r")
    first, second = view.refresh("part-0"), view.refresh("part-0")
    view.versions.sweep(view.owned.remove, now_s=1e12)
    assert not (view.versions.folder / first).exists()
    view.channel.trim()
    assert reader.read() == [first, second]


def test_a_reader_that_starts_for_the_first_time_begins_with_the_current_version(tmp_path: Path) -> None:
    """As under plain Spark, where no other version is there any more."""
    view = View(tmp_path)
    early, late = Reader(view, "early"), Reader(view, "late")
    view.channel.begin("early")
    first = view.refresh("part-0")
    early.read()
    second = view.refresh("part-0")
    early.read()
    view.channel.begin("late")
    assert late.read() == [second]
    assert early.read() == [first, second]


def test_a_reader_that_was_forgotten_begins_again_with_the_current_version(tmp_path: Path) -> None:
    view = View(tmp_path)
    reader = Reader(view, "r")
    view.channel.begin("r")
    view.refresh("part-0")
    reader.read()
    view.channel.forget("r")
    shutil.rmtree(reader.checkpoint)
    again = Reader(view, "r")
    second = view.refresh("part-0")
    view.channel.begin("r")
    assert again.read() == [second]


def test_a_version_that_was_published_and_not_handed_over_is_so_by_whoever_comes_next(tmp_path: Path) -> None:
    view = View(tmp_path)
    reader = Reader(view, "r")
    view.channel.begin("r")
    first = view.refreshed("part-0").folder  # killed here
    second = view.refresh("part-0")
    assert reader.read() == [first, second]
    third = view.refreshed("part-0").folder
    view.channel.create()  # as the next run does
    assert reader.read() == [first, second, third]


def test_versions_without_files_and_with_partitions_are_versions_too(tmp_path: Path) -> None:
    view = View(tmp_path)
    reader = Reader(view, "r")
    view.channel.begin("r")
    first = view.refresh("k=a b/part-0", "k=c/part-0")
    assert sorted(reader.read()) == [first, first]
    names = {str(path.relative_to(view.channel.folder)) for path in view.channel.folder.glob("k=*/*")}
    assert names == {f"k=a b/{first}-part-0", f"k=c/{first}-part-0"}, "as partitions are found by"
    view.refresh()
    view.channel.trim()
    assert stream_logs.sink_entries(view.channel.sink_log) == [], "the current one has no rows"
    third = view.refresh("k=c/part-0")
    assert reader.read() == [first, first, third]


def test_a_version_whose_folder_was_removed_by_somebody_holds_nobody_up(tmp_path: Path) -> None:
    view = View(tmp_path)
    reader = Reader(view, "r")
    view.channel.begin("r")
    gone = view.refreshed("part-0")
    shutil.rmtree(view.versions.path(gone))
    second = view.refresh("part-0")
    assert reader.read() == [second]


def test_a_file_that_is_missing_is_told_while_a_reader_needs_it(tmp_path: Path) -> None:
    """Spark would take it as empty, and the rows of one version would be delivered in part."""
    view = View(tmp_path)
    reader = Reader(view, "r")
    view.channel.begin("r")
    view.refresh("part-0", "part-1")
    assert view.channel.lost() is None
    *_, file = [entry.path for entry in stream_logs.sink_entries(view.channel.sink_log)]
    file.rename(tmp_path / "away")
    assert str(view.channel.lost()) == f"the file {file} is missing"
    (tmp_path / "away").rename(file)
    reader.read()
    file.unlink()
    assert view.channel.lost() is None, "everybody has it"


def test_where_files_can_have_no_second_name_they_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(source: Path, path: Path, **_: object) -> None:
        raise PermissionError(errno.EPERM, "no hard links here", str(source))

    monkeypatch.setattr(os, "link", refused)
    view = View(tmp_path)
    reader = Reader(view, "r")
    assert reader.read() == []
    first = view.refresh("part-0")
    assert reader.read() == [first]


def test_an_owner_that_was_overtaken_hands_nothing_over(tmp_path: Path) -> None:
    view = View(tmp_path)
    view.refreshed("part-0")
    view.owned.folder.rename(tmp_path / "taken")
    with pytest.raises(OSError, match=r"No such file or directory|Not a directory"):
        view.channel.hand_over()
    assert stream_logs.sink_entries(view.channel.sink_log) == []


class _Killed(BaseException):
    """The process, at that very moment."""


class Life(RuleBasedStateMachine):
    """Refreshes are published and killed anywhere on the way to readers, which plan, commit and join."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.view = View(self.root)
        self.published: list[str] = []
        self.readers: list[tuple[Reader, int]] = []

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @rule(files=st.integers(0, 2), steps=st.integers(0, 8))
    def refresh(self, files: int, steps: int) -> None:
        """Killed after so many changes to the storage, if it makes as many; then somebody takes over."""
        names = [f"part-{number}" for number in range(files)]
        with pytest.MonkeyPatch.context() as patch:
            left = [steps]
            for change in ("replace", "remove", "make_twin", "make_folder"):
                patch.setattr(OwnedFolder, change, _counted(getattr(OwnedFolder, change), left))
            before = self.view.versions.current()
            with contextlib.suppress(_Killed):
                self.view.refresh(*names)
        found = self.view.versions.current()
        if found is not None and (before is None or found.folder != before.folder) and found.files:
            self.published.append(found.folder)
        self.view = self._taken_over()

    def _taken_over(self) -> View:
        view = View(self.root)
        for reader, _ in self.readers:
            reader.view = view
        return view

    @precondition(lambda self: len(self.readers) < 3)
    @rule()
    def join(self) -> None:
        name = f"r{len(self.readers)}"
        reader = Reader(self.view, name)
        self.view.channel.begin(name)
        held = stream_logs.sink_entries(self.view.channel.sink_log)
        first = held[0].path.name.rpartition("-part-")[0] if held else None
        since = len(self.published) if first is None else self.published.index(first)
        self.readers.append((reader, since))

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), commits=st.booleans())
    def read(self, data: st.DataObject, commits: bool) -> None:
        reader, _ = data.draw(st.sampled_from(self.readers))
        if not reader.planned:
            reader.plan()
        if commits:
            reader.commit()

    @rule()
    def trim(self) -> None:
        self.view.channel.trim()

    @rule()
    def sweep(self) -> None:
        self.view.versions.sweep(self.view.owned.remove, now_s=1e12)

    @invariant()
    def nothing_is_lost_doubled_or_out_of_order(self) -> None:
        for reader, since in self.readers:
            delivered = list(dict.fromkeys(reader.rows))
            assert delivered == self.published[since : since + len(delivered)]
            for folder in delivered:
                assert reader.rows.count(folder) in (1, 2)
            assert len(set(reader.seen)) == len(reader.seen)

    @invariant()
    def what_is_still_to_come_is_there(self) -> None:
        logged = stream_logs.sink_entries(self.view.channel.sink_log)
        for reader, since in self.readers:
            fresh = [entry.path for entry in logged if str(entry.path) not in reader.seen]
            coming = dict.fromkeys(path.read_text() for path in [*reader.planned, *fresh])
            done = list(dict.fromkeys(reader.rows))
            assert [*done, *(each for each in coming if each not in done)] == self.published[since:]


def _counted(change, left: list[int]):  # type: ignore[no-untyped-def]
    def counted(self: OwnedFolder, *given: object, **named: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise _Killed
        change(self, *given, **named)

    return counted


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
