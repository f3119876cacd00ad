"""What the calls of the real disk promise beyond those of Python that they are made of."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from mooring.disk import DISK, everything_below, is_folder, is_link


def refusing(number: int) -> object:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


def test_nothing_there_is_no_error_and_a_failing_disk_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "none", tmp_path / "file" / "none", tmp_path / "loop"):
        assert DISK.look(path) is None
    for path in (tmp_path / "none", tmp_path / "file"):
        assert DISK.target(path) is None
        assert DISK.list(path) == []
    DISK.delete(tmp_path / "none")
    for name, call in (
        ("stat", DISK.look),
        ("listdir", DISK.list),
        ("readlink", DISK.target),
        ("unlink", DISK.delete),
    ):
        for number in (errno.EIO, errno.ESTALE):
            with monkeypatch.context() as patch:
                patch.setattr(os, name, refusing(number))
                with pytest.raises(OSError, match=os.strerror(number)):
                    call(tmp_path / "file")


def test_deleting_takes_files_links_and_folders_but_nothing_behind_a_link(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file").write_text("x")
    kept.mkdir()
    (kept / "precious").write_text("x")
    (folder / "link").symlink_to(kept)
    (tmp_path / "link").symlink_to(kept)
    for path in (folder, tmp_path / "link"):
        DISK.delete(path)
    assert DISK.list(tmp_path) == ["kept"]
    assert (kept / "precious").read_text() == "x"


def test_a_folder_that_somebody_else_empties_is_deleted_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real, calls = tmp_path / "folder", shutil.rmtree, []
    folder.mkdir()

    def disturbed(path: Path) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise FileNotFoundError(errno.ENOENT, "gone", "inner")
        real(path)

    monkeypatch.setattr(shutil, "rmtree", disturbed)
    DISK.delete(folder)
    assert not is_folder(DISK, folder)


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("number", [None, errno.EPERM])
def test_a_file_is_made_once_whether_there_are_hard_links_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool, number: int | None
) -> None:
    if number is not None:
        monkeypatch.setattr(os, "link", refusing(number))
    DISK.create(tmp_path / "file", b"first", durable=durable)
    with pytest.raises(FileExistsError):
        DISK.create(tmp_path / "file", b"second", durable=durable)
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileExistsError):
        DISK.create(tmp_path / "folder", b"", durable=durable)
    assert DISK.read(tmp_path / "file").data == b"first"
    assert DISK.list(tmp_path) == ["file", "folder"]


def test_a_copy_apart_stays_as_it_is_when_the_other_is_written_to(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_bytes(b"a")
    DISK.copy(old, tmp_path / "twin")
    DISK.copy(old, tmp_path / "apart", apart=True)
    DISK.overwrite(old, b"b")
    assert [DISK.read(tmp_path / name).data for name in ("twin", "apart")] == [b"b", b"a"]


def test_a_folder_is_made_like_another_one(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir(mode=0o750)
    (tmp_path / "old").chmod(0o2770)
    DISK.make_folder(tmp_path / "new", like=tmp_path / "old")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "old").stat().st_mode


def test_whatever_lies_below_a_folder_is_found_but_not_behind_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("x")
    (tmp_path / "a" / "back").symlink_to(tmp_path)
    found = [path.relative_to(tmp_path).as_posix() for path, _ in everything_below(DISK, tmp_path)]
    assert found == ["a", "a/b", "a/b/file", "a/back"]
    assert is_link(DISK, tmp_path / "a" / "back")


def test_a_current_listing_changes_the_folder_first_as_far_as_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By that a client of a network file system forgets what it remembers of the folder."""
    (tmp_path / "a").write_text("")
    before = tmp_path.stat().st_mtime_ns
    assert DISK.list(tmp_path, current=True) == ["a"]
    assert tmp_path.stat().st_mtime_ns > before
    assert DISK.list(tmp_path / "none", current=True) == []
    for number in (errno.EACCES, errno.EROFS, errno.ENOSPC):
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refusing(number))
            assert DISK.list(tmp_path, current=True) == ["a"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing(errno.EIO))
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            DISK.list(tmp_path, current=True)
