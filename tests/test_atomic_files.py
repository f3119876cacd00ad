"""A file is written whole or not at all, and nothing else is touched."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from pathlib import Path

import pytest

from mooring.atomic_files import read_private, write_whole


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.mark.parametrize("content", ["ä", b"\xff\x00", ""])
def test_the_content_replaces_what_was_there_and_nothing_is_left_beside_it(
    tmp_path: Path, content: str | bytes
) -> None:
    file = tmp_path / "plan.json"
    for _ in range(2):
        write_whole(file, content)
    assert file.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert os.listdir(tmp_path) == ["plan.json"]


def test_a_failure_before_the_rename_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plan.json"
    file.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for step in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, full)
            with pytest.raises(OSError, match="No space"):
                write_whole(file, "new", on_disk=True)
        assert file.read_text() == "old"
        assert os.listdir(tmp_path) == ["plan.json"]


def test_even_at_a_name_that_was_guessed_a_planted_link_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, victim = tmp_path / "plan.json", tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(secrets, "token_hex", lambda count: "0" * 2 * count)
    trap = tmp_path / f".plan.json.{'0' * 16}.new"
    trap.symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_whole(file, "new")
    assert victim.read_text() == "precious"
    assert trap.is_symlink()


def test_hidden_names_differ_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = os.replace

    def watched(source: Path, target: Path) -> None:
        seen.append(source.name)
        real(source, target)

    monkeypatch.setattr(os, "replace", watched)
    for _ in range(3):
        write_whole(tmp_path / "plan.json", "x")
    assert len(set(seen)) == 3
    assert all(name.startswith(".") for name in seen)


def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("precious")
    victim.chmod(0o604)
    link.symlink_to(victim)
    write_whole(link, "new")
    assert (victim.read_text(), mode_of(victim)) == ("precious", 0o604)
    assert (link.is_symlink(), link.read_text()) == (False, "new")


def test_permissions_stay_and_new_files_get_what_the_process_gives(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", "x")
        (tmp_path / "old").touch(mode=0o600)
        write_whole(tmp_path / "old", "x")
    finally:
        os.umask(mask)
    assert [mode_of(tmp_path / name) for name in ("new", "old")] == [0o640, 0o600]


def test_content_reaches_the_disk_before_its_name_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, rename = os.fsync, os.replace

    def synced(handle: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def renamed(source: Path, target: Path) -> None:
        steps.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write_whole(tmp_path / "note", "x", on_disk=True)
    assert steps == ["file", "rename", "folder"]


def test_of_many_writers_at_once_one_wins_whole(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    contents = [letter * 100_000 for letter in "abcdefgh"]
    writers = [threading.Thread(target=write_whole, args=(file, content)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert file.read_text() in contents
    assert os.listdir(tmp_path) == ["status.json"]


def test_the_longest_name_a_file_may_have_is_written(tmp_path: Path) -> None:
    file = tmp_path / ("n" * 255)
    write_whole(file, "x")
    assert file.read_text() == "x"


def test_a_secret_is_one_only_while_nobody_else_could_have_it(tmp_path: Path) -> None:
    secret, link = tmp_path / "key", tmp_path / "link"
    secret.write_text("hush")
    link.symlink_to(secret)
    for mode, alone, placed in ((0o600, True, True), (0o640, False, True), (0o644, False, False)):
        secret.chmod(mode)
        assert (read_private(secret) is not None) == alone
        assert (read_private(link, placed=True) is not None) == placed
    with pytest.raises(OSError, match="symbolic links"):
        read_private(link)
    assert read_private(tmp_path) is None


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.ESTALE, errno.EDQUOT, errno.EACCES])
def test_a_disk_that_fails_to_keep_a_name_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse_folders(monkeypatch, number)
    with pytest.raises(OSError, match=os.strerror(number)):
        write_whole(tmp_path / "plan.json", "new", on_disk=True)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF])
def test_file_systems_that_sync_no_folders_are_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse_folders(monkeypatch, number)
    write_whole(tmp_path / "plan.json", "new", on_disk=True)
    assert (tmp_path / "plan.json").read_text() == "new"


def refuse_folders(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    real = os.fsync

    def sync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        real(handle)

    monkeypatch.setattr(os, "fsync", sync)
