"""Every start takes the checkpoint along under a new name, and nothing can be written under the old one."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.errors import EngineError
from mooring.spark.storage.fencing import current_epoch, drop_unfinished, retire, take_epoch
from mooring.spark.storage.fresh_folder import in_order
from mooring.spark.storage.sink_numbers import SinkPlace, disagreement, given_up
from tests.spark.storage.remembering_disk import RememberingDisk


def test_a_new_epoch_holds_what_the_old_one_held_and_the_old_name_is_closed(tmp_path: Path) -> None:
    home = tmp_path / "f"
    assert not current_epoch(home).exists()
    first = take_epoch(home)
    (first / "offsets").mkdir()
    (first / "offsets" / "0").write_text("v1")
    second = take_epoch(home)
    assert current_epoch(home) == second != first
    assert (second / "offsets" / "0").read_text() == "v1"
    with pytest.raises(NotADirectoryError):
        (first / "offsets" / "1").write_text("v1")
    with pytest.raises(NotADirectoryError):
        os.makedirs(first / "commits")


def test_a_file_that_was_begun_under_the_old_name_cannot_be_put_into_place(tmp_path: Path) -> None:
    """Spark writes a hidden file and renames it: the rename is what the fence stops."""
    old = take_epoch(tmp_path)
    (old / "commits").mkdir()
    with (old / "commits" / ".7.tmp").open("w") as begun:
        take_epoch(tmp_path)
        begun.write("v1")
    with pytest.raises(NotADirectoryError):
        os.rename(old / "commits" / ".7.tmp", old / "commits" / "7")
    assert not (current_epoch(tmp_path) / "commits" / "7").exists()


@given(st.lists(st.sampled_from(["take", "write", "stray", "unburied"]), max_size=25))
@settings(max_examples=60, deadline=None)
def test_the_newest_epoch_is_the_checkpoint_whatever_old_queries_and_crashes_leave(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    home = tmp_path_factory.mktemp("f")
    now = take_epoch(home)
    written = 0
    for step in steps:
        older = home / f"{int(now.name) - 1:06d}"
        if step == "take":
            now = take_epoch(home)
        elif step == "write":
            (now / str(written)).touch()
            written += 1
        elif step == "unburied" and int(now.name) > 1:  # a crash between the rename and the tombstone
            older.unlink(missing_ok=True) if not older.is_dir() else None
        elif step == "stray" and int(now.name) > 1 and not older.exists():  # the old query makes it again
            (older / "offsets").mkdir(parents=True)
        assert current_epoch(home) == now
    now = take_epoch(home)
    assert sorted(os.listdir(now)) == sorted(str(n) for n in range(written))
    for number in range(1, int(now.name)):
        assert (home / f"{number:06d}").is_file()


def test_a_fence_that_cannot_be_set_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a file where the folder should be")
    with pytest.raises(EngineError, match="nothing was started"):
        take_epoch(tmp_path / "f")


def test_only_unfinished_entries_leave_the_sinks_log(tmp_path: Path) -> None:
    for name in ("0", "1", "9.compact", ".2.8a4e.tmp", ".1.mooring"):
        (tmp_path / name).touch()
    assert drop_unfinished(tmp_path, Path.unlink) == [".2.8a4e.tmp"]
    assert sorted(os.listdir(tmp_path)) == [".1.mooring", "0", "1", "9.compact"]
    assert drop_unfinished(tmp_path / "nowhere", Path.unlink) == []


def test_an_epoch_is_never_used_twice_even_after_everything_was_forgotten(tmp_path: Path) -> None:
    """A query left behind in its first epoch must not find its checkpoint's path alive again."""
    home = tmp_path / "fragment"
    first = take_epoch(home)
    (first / "offsets").mkdir()
    retire(home)
    assert not first.is_dir()
    with pytest.raises(OSError, match=r"exists|directory"):
        (first / "offsets").mkdir(parents=True)
    second = take_epoch(home)
    assert int(second.name) > int(first.name)
    assert list(second.iterdir()) == []
    retire(home)
    assert int(take_epoch(home).name) > int(second.name)


def test_what_is_moved_out_of_the_way_gets_a_name_that_nobody_can_have_taken(tmp_path: Path) -> None:
    """Who can write there could put a link, or a folder, where a name was to be had by counting."""
    home, victim = tmp_path / "fragment", tmp_path / "victim"
    first = take_epoch(home)
    victim.mkdir()
    (victim / "precious").touch()
    for attempt in range(20):
        (home / f".{first.name}.stray{attempt}").symlink_to(victim)
    take_epoch(home)
    first.unlink()
    (first / "offsets").mkdir(parents=True)  # the old query makes it again
    take_epoch(home)
    assert first.is_file()
    assert (victim / "precious").exists()
    assert not [name for name in os.listdir(home) if "stray-" in name]


def test_a_link_in_the_place_of_an_old_epoch_goes_and_what_it_points_to_stays(tmp_path: Path) -> None:
    home, victim = tmp_path / "fragment", tmp_path / "victim"
    first = take_epoch(home)
    victim.mkdir()
    (victim / "precious").touch()
    take_epoch(home)
    first.unlink()
    first.symlink_to(victim)
    take_epoch(home)
    assert first.is_file()
    assert not first.is_symlink()
    assert (victim / "precious").exists()
    assert not [name for name in os.listdir(home) if "stray" in name]


LATE_WRITER = """\
import os, sys
folder = os.open(sys.argv[1], os.O_RDONLY)
print("open", flush=True)
sys.stdin.readline()
try:
    handle = os.open(".8.late.tmp", os.O_WRONLY | os.O_CREAT, dir_fd=folder)
    os.write(handle, b"v1")
    os.rename(".8.late.tmp", "8", src_dir_fd=folder, dst_dir_fd=folder)
    print("written")
except OSError as failure:
    print("refused")
"""


def test_a_process_that_holds_the_old_folder_open_writes_nothing_into_the_new_epoch(tmp_path: Path) -> None:
    """So does a site whose network file system remembers where the folder's name led."""
    old = take_epoch(tmp_path)
    (old / "commits").mkdir()
    (old / "commits" / "7").write_text("v1")
    with subprocess.Popen(
        [sys.executable, "-c", LATE_WRITER, str(old / "commits")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as late:
        assert late.stdin is not None
        assert late.stdout is not None
        assert late.stdout.readline() == "open\n"
        new = take_epoch(tmp_path)
        late.stdin.write("go on\n")
        late.stdin.flush()
        assert late.stdout.readline() == "refused\n"
    assert os.listdir(new / "commits") == ["7"]


class CrashError(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("links", [True, False])
def test_a_take_that_is_cut_short_anywhere_loses_nothing_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    left = 0

    def counted(name: str) -> None:
        real = getattr(os, name)

        def call(*given: object, **options: object) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                raise CrashError
            if name == "link" and not links:
                raise OSError(errno.EPERM, "no hard links here")
            return real(*given, **options)

        monkeypatch.setattr(os, name, call)

    def content(folder: Path) -> dict[str, str]:
        return {str(f.relative_to(folder)): f.read_text() for f in folder.rglob("*") if f.is_file()}

    left = 1000
    first = take_epoch(tmp_path)
    for name in ("offsets/7", "commits/7", "state/0/0/8.zip", "state/0/0/SSTs/a.sst", "metadata"):
        (first / name).parent.mkdir(parents=True, exist_ok=True)
        (first / name).write_text(name)
    expected = content(first)
    (first / "offsets" / ".8.c0ffee.tmp").write_text("unfinished")
    for name in ("rename", "mkdir", "link", "chmod", "rmdir"):
        counted(name)
    for steps in itertools.count():
        left = steps
        cut_short = False
        try:
            take_epoch(tmp_path)
        except CrashError:
            cut_short = True
        left = 1000
        found = content(current_epoch(tmp_path))
        assert {name: text for name, text in found.items() if "tmp" not in name} == expected
        if not cut_short:
            break
    assert steps > 10
    last = take_epoch(tmp_path)
    assert content(last) == expected
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_what_was_written_last_is_taken_along_first(tmp_path: Path) -> None:
    """A commit that is seen must not miss the offsets that it closes, should both come meanwhile."""
    old = take_epoch(tmp_path)
    for name in ("offsets", "commits", "sources/0", "state/0/0/SSTs"):
        (old / name).mkdir(parents=True)
    for name in ("metadata", "state/0/0/1.zip"):
        (old / name).touch()
    names = [entry.name for entry in in_order(old)]
    assert names == ["metadata", "commits", "state", "offsets", "sources"]
    assert [entry.name for entry in in_order(old / "state" / "0" / "0")] == ["1.zip", "SSTs"]


def test_a_batch_that_this_machine_has_not_seen_in_its_old_listing_is_taken_along(tmp_path: Path) -> None:
    """Else the next query plans it anew, and the sink, which has it, skips the rows."""
    disk, home = RememberingDisk(), tmp_path / "home"
    first = take_epoch(home, disk)
    (first / "offsets").mkdir()
    (first / "offsets" / "0").write_text("v1")
    assert disk.list(first / "offsets") == ["0"]
    (first / "offsets" / "1").write_text("v1")
    assert disk.list(first / "offsets") == ["0"]
    second = take_epoch(home, disk)
    assert sorted(path.name for path in (second / "offsets").iterdir()) == ["0", "1"]


def test_the_number_of_a_sinks_newest_batch_is_that_of_a_current_listing(tmp_path: Path) -> None:
    disk, checkpoint = RememberingDisk(), tmp_path / "checkpoint"
    sink = SinkPlace("s", "parquet", str(tmp_path), tmp_path, disk=disk)
    for log in (tmp_path / "_spark_metadata", checkpoint / "offsets", checkpoint / "commits"):
        log.mkdir(parents=True)
        (log / "0").write_text("v1")
        disk.list(log)
        (log / "1").write_text("v1")
    assert sink.newest == 1
    assert disagreement(sink, "w", checkpoint) is None
    assert (given_up("w", sink, checkpoint).planned, given_up("w", sink, checkpoint).committed) == (1, 1)


def test_what_an_earlier_writer_began_goes_though_an_old_listing_lacks_it(tmp_path: Path) -> None:
    disk, log = RememberingDisk(), tmp_path / "_spark_metadata"
    log.mkdir()
    assert disk.list(log) == []
    begun = log / ".0.11-22.tmp"
    begun.write_text("v1")
    assert drop_unfinished(log, Path.unlink, disk) == [begun.name]
    assert not begun.exists()
