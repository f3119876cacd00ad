"""A root that is not the one a project stores in is refused, and nothing is made in its place."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError
from mooring.spark.ownership.owner import look, take
from mooring.spark.pipeline.project import Project, load_project
from mooring.spark.runs.known_root import KnownRoot, MissingRootError
from mooring.spark.runs.project_run import forget_everything
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.run_lock import Hold, HoldOptions, held_project
from mooring.spark.storage.storage_root import StorageRoot, identity_of

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker
    from tests.spark.runs.conftest import Verb

SETTINGS = "sites: {here: {capacity: 2}}\nstreams: {numbers: {site: here, rate: 1}}\nstorage: STORAGE\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "mount" / "storage"


@pytest.fixture
def project(make_project: ProjectMaker, root: Path) -> Project:
    """One that has run once."""
    found = load_project(make_project(SETTINGS.replace("STORAGE", str(root))))
    said: list[str] = []
    with hold(found, tell=said.append) as held:
        (held.owned.folder / "journal.jsonl").touch()
    assert said == [f"{root} is a new storage root, {identity_of(root)}"]
    with hold(found, tell=said.append):
        assert len(said) == 1, "it is said of a root that is new"
    return found


def hold(project: Project, *, fresh: bool = False, **options: Any) -> AbstractContextManager[Hold]:
    return held_project(project, RunFiles(project.work_folder), HoldOptions(**options), fresh=fresh)


def unmount(root: Path) -> Path:
    """Leaves the empty folder that a mount point is."""
    away = root.rename(root.with_name("away"))
    root.mkdir()
    return away


def mount(away: Path, root: Path) -> None:
    root.rmdir()
    away.rename(root)


VERBS = {
    "run": ("run",),
    "run once": ("run", "--once"),
    "standby": ("run", "--standby"),
    "edit": ("run", "--drop", "numbers", "--accept-edits"),
    "doctor": ("doctor",),
    "status": ("status",),
    "stop": ("stop",),
    "tables": ("tables",),
    "moves": ("moves", "--leave", "here", "--apply"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_an_empty_mount_point(
    project: Project, root: Path, mooring: Verb, verb: str
) -> None:
    identity = identity_of(root)
    away = unmount(root)
    word, *more = VERBS[verb]
    answer = mooring(word, project.folder, *more)
    assert answer.code == 4, answer.out + answer.err
    said = " ".join((answer.out + answer.err).split())
    if word == "doctor":  # in columns
        said = " ".join(mooring("doctor", project.folder, "--json").out.split())
    assert f"expected the storage {identity} in {root}, found an empty folder" in said
    assert "mount it there, or restore it from a copy" in said
    assert "--fresh" in said
    assert not os.listdir(root), "a storage under the mount point"
    mount(away, root)
    assert mooring("doctor", project.folder).code == 0
    with hold(project):
        pass


@pytest.mark.parametrize("relative", [False, True])
def test_a_root_without_a_folder_is_refused_and_not_made(
    project: Project, root: Path, monkeypatch: pytest.MonkeyPatch, relative: bool
) -> None:
    """From whichever folder a command comes: relative paths of storage start at the project."""
    root.rename(root.with_name("away"))
    if relative:
        monkeypatch.chdir("/")
        stated = os.path.relpath(root, project.folder)
        project.settings_file.write_text(SETTINGS.replace("STORAGE", stated))
    with pytest.raises(MissingRootError, match="found no folder"), hold(load_project(project.folder)):
        pass
    assert not root.exists()


def test_a_link_that_leads_elsewhere_now_is_refused(
    project: Project, root: Path, tmp_path: Path, mooring: Verb
) -> None:
    """Whatever path is stated, the storage is known by its mark."""
    link, other = tmp_path / "link", tmp_path / "other"
    link.symlink_to(root)
    project.settings_file.write_text(SETTINGS.replace("STORAGE", str(link)))
    with hold(load_project(project.folder)):
        pass
    other.mkdir()
    link.unlink()
    link.symlink_to(other)
    with pytest.raises(MissingRootError, match="found an empty folder"), hold(load_project(project.folder)):
        pass
    assert mooring("doctor", project.folder).code == 4
    link.unlink()
    root.rename(other / "moved")
    link.symlink_to(other / "moved")
    assert not mooring("status", project.folder, "--json").document["running"]
    with hold(load_project(project.folder)):
        pass


@pytest.mark.parametrize("fresh", [False, True])
def test_the_root_of_another_project_is_neither_taken_nor_cleared(
    project: Project, root: Path, tmp_path: Path, fresh: bool
) -> None:
    root.rename(root.with_name("away"))
    StorageRoot(root).begin()
    take(root, look(root), tmp_path / "theirs").release()
    theirs = f"found the storage {identity_of(root)}, used by {tmp_path / 'theirs'}"
    with pytest.raises(MissingRootError, match=theirs), hold(project, fresh=fresh):
        pass
    assert look(root).generation == 1
    KnownRoot(project.work_folder).work_folder.joinpath("storage.mark").unlink()  # as the remedy says
    with hold(project):
        pass


def test_a_storage_that_is_gone_for_good_is_followed_by_a_fresh_one(project: Project, root: Path) -> None:
    before = identity_of(root)
    away, said = unmount(root), list[str]()
    with hold(project, fresh=True, tell=said.append) as held:
        forget_everything(project, held.owned)
    assert said == [f"{root} is a new storage root, {identity_of(root)}"]
    assert identity_of(root) != before
    with hold(project):
        pass
    root.rename(root.with_name("second"))
    away.rename(root)
    with pytest.raises(MissingRootError, match=f"found the storage {before}"), hold(project):
        pass


def test_a_fresh_start_keeps_the_identity_that_others_know_the_root_by(project: Project, root: Path) -> None:
    """As a standby of another checkout does."""
    before = identity_of(root)
    with hold(project, fresh=True) as held:
        forget_everything(project, held.owned)
    assert identity_of(root) == before
    with hold(project, standby=True):
        pass


def test_a_mark_that_is_gone_is_to_be_put_back(project: Project, root: Path) -> None:
    mark = root / "mooring-storage.json"
    text = mark.read_text()
    mark.unlink()
    without = r"found a storage without its mooring-storage\.json"
    with pytest.raises(MissingRootError, match=without), hold(project):
        pass
    mark.write_text(text)
    with hold(project):
        pass


@pytest.mark.parametrize("there", [True, False])
def test_what_an_older_mooring_noted_is_completed_once_the_root_is_there(
    project: Project, root: Path, there: bool
) -> None:
    """It noted the path alone."""
    (project.work_folder / "storage.mark").unlink()
    away = None if there else unmount(root)
    if away is not None:
        with pytest.raises(MissingRootError, match="expected the storage of the last run"), hold(project):
            pass
        mount(away, root)
    with hold(project):
        pass
    assert (project.work_folder / "storage.mark").read_text() == identity_of(root)


def test_a_standby_makes_no_root(make_project: ProjectMaker, root: Path) -> None:
    project = load_project(make_project(SETTINGS.replace("STORAGE", str(root))))
    first = "start the first run without --standby"
    with pytest.raises(EngineError, match=first), hold(project, standby=True):
        pass
    assert not root.exists()


def test_a_standby_waits_for_a_root_that_goes_away_while_it_waits(
    project: Project, root: Path, tmp_path: Path
) -> None:
    """Its run may have the storage mounted still."""
    own = take(root, look(root), tmp_path / "other", lease_s=30.0)
    said, taken = list[str](), threading.Event()
    end = threading.Event()

    def stand_by() -> None:
        with hold(project, standby=True, tell=said.append, given_up=end.is_set):
            taken.set()

    waiting = threading.Thread(target=stand_by)
    waiting.start()
    try:
        until(lambda: "waiting until it is released" in " ".join(said))
        away = unmount(root)
        until(lambda: "is missing from" in " ".join(said))
        assert not os.listdir(root)
        mount(away, root)
        own.release()
        assert taken.wait(60.0)
    finally:
        end.set()
        waiting.join()


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)
