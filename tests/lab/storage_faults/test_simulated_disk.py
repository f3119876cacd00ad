"""The simulated disk obeys the real one's contract, and forgets only what a disk may forget."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.storage_faults.simulated_disk import Order, SimulatedDisk, SimulatedStorage, Stopped, VirtualClock
from mooring.disk import Disk, RealDisk, StaleTagError, is_folder, read_if_there

MakeDisk = Callable[[], tuple[Disk, Path]]


def simulated(order: Order = "in order") -> tuple[SimulatedDisk, Path]:
    disk = SimulatedDisk(SimulatedStorage(VirtualClock(), order))
    disk.make_folder(Path("/root"))
    disk.sync([Path("/")])
    return disk, Path("/root")


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, Path]:
    return (RealDisk(), tmp_path) if request.param == "real" else simulated()


# What both obey


def test_a_file_is_created_once(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.create(root / "a", b"one")
    with pytest.raises(FileExistsError):
        disk.create(root / "a", b"two")
    assert disk.read(root / "a").data == b"one"
    assert disk.read(root / "a", start=1).data == b"ne"
    assert disk.list(root) == ["a"], "nothing hidden is left"


def test_a_file_is_replaced_whole_and_only_over_what_was_read(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.replace(root / "a", b"one")
    seen = disk.read(root / "a")
    disk.replace(root / "a", b"three", tag=seen.tag)
    assert disk.read(root / "a").tag != seen.tag
    with pytest.raises(StaleTagError):
        disk.replace(root / "a", b"two", tag=seen.tag)
    with pytest.raises(StaleTagError):
        disk.replace(root / "none", b"two", tag=seen.tag)
    assert disk.read(root / "a").data == b"three"
    assert disk.list(root) == ["a"]


def test_without_the_folder_it_goes_through_nothing_is_replaced(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.make_folder(root / "out")
    disk.replace(root / "a", b"one", through=root / "out")
    disk.delete(root / "out")
    with pytest.raises(FileNotFoundError):
        disk.replace(root / "a", b"two", through=root / "out")
    assert disk.read(root / "a").data == b"one"


def test_what_is_not_there_is_told_as_the_system_tells_it(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.create(root / "file", b"")
    assert disk.look(root / "none") is None
    assert disk.look(root / "file" / "below") is None
    assert disk.list(root / "none") == disk.list(root / "file") == []
    assert disk.target(root / "file") is None
    assert read_if_there(disk, root / "none") is None
    for missing, error in (
        (root / "none", FileNotFoundError),
        (root / "none" / "below", FileNotFoundError),
        (root / "file" / "below", NotADirectoryError),
        (root, IsADirectoryError),
    ):
        with pytest.raises(error):
            disk.read(missing)
    with pytest.raises(FileNotFoundError):
        disk.replace(root / "none" / "below", b"")
    with pytest.raises(FileNotFoundError):
        disk.overwrite(root / "none", b"")
    with pytest.raises(FileNotFoundError):
        disk.move(root / "none", root / "other")
    with pytest.raises(FileNotFoundError):
        disk.copy(root / "none", root / "other")
    with pytest.raises(FileNotFoundError):
        disk.sync([root / "none"])
    disk.delete(root / "none")
    disk.delete(root / "none" / "below")


def test_a_look_tells_kind_size_and_a_tag_that_changes(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.create(root / "a", b"one")
    found = disk.look(root / "a")
    assert found is not None
    assert (found.name, found.kind, found.size) == ("a", "file", 3)
    assert found.tag == disk.read(root / "a").tag
    assert disk.append(root / "a", b"two") == 6
    assert disk.read(root / "a").tag != found.tag


def test_appending_makes_the_file_and_cuts_it_where_asked(place: tuple[Disk, Path]) -> None:
    disk, root = place
    assert disk.append(root / "a", b"one") == 3
    assert disk.append(root / "a", b"two") == 6
    assert disk.append(root / "a", b"x", at=4) == 5
    assert disk.read(root / "a").data == b"onetx"


def test_overwriting_keeps_the_rest(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.create(root / "a", b"0000")
    disk.overwrite(root / "a", b"12")
    assert disk.read(root / "a").data == b"1200"


def test_a_second_name_outlives_the_first(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.create(root / "a", b"one")
    disk.copy(root / "a", root / "b")
    with pytest.raises(FileExistsError):
        disk.copy(root / "a", root / "b")
    disk.delete(root / "a")
    assert disk.read(root / "b").data == b"one"


def test_moves_replace_files_and_nothing_that_holds_something(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.create(root / "a", b"a")
    disk.create(root / "b", b"b")
    disk.move(root / "a", root / "b")
    assert (disk.list(root), disk.read(root / "b").data) == (["b"], b"a")
    for name in ("one", "two", "empty"):
        disk.make_folder(root / name)
    disk.create(root / "one" / "x", b"x")
    disk.create(root / "two" / "y", b"y")
    with pytest.raises(OSError, match="not empty") as refused:
        disk.move(root / "one", root / "two")
    assert refused.value.errno == errno.ENOTEMPTY
    with pytest.raises(NotADirectoryError):
        disk.move(root / "one", root / "b")
    with pytest.raises(IsADirectoryError):
        disk.move(root / "b", root / "empty")
    disk.move(root / "one", root / "empty")
    assert disk.read(root / "empty" / "x").data == b"x"
    disk.delete(root / "empty")
    assert disk.list(root) == ["b", "two"]


def test_folders_are_made_once_and_with_those_above_them(place: tuple[Disk, Path]) -> None:
    disk, root = place
    with pytest.raises(FileNotFoundError):
        disk.make_folder(root / "a" / "b")
    disk.make_folder(root / "a" / "b", parents=True)
    with pytest.raises(FileExistsError):
        disk.make_folder(root / "a")
    disk.make_folder(root / "a" / "b", parents=True, exist_ok=True)
    disk.create(root / "file", b"")
    with pytest.raises(FileExistsError):
        disk.make_folder(root / "file", exist_ok=True)
    assert is_folder(disk, root / "a" / "b")


def test_links_lead_on_until_their_folder_is_gone(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.make_folder(root / "data" / "x", parents=True)
    disk.make_folder(root / "links")
    disk.link(root / "links" / "x", "../data/x")
    disk.create(root / "links" / "x" / "a", b"one")
    assert disk.list(root / "data" / "x") == ["a"]
    assert disk.target(root / "links" / "x") == "../data/x"
    assert disk.real(root / "links" / "x" / "a") == disk.real(root / "data" / "x" / "a")
    link = disk.look(root / "links" / "x", follow=False)
    assert link is not None
    assert link.kind == "link"
    disk.move(root / "data" / "x", root / "away")
    assert disk.look(root / "links" / "x") is None
    with pytest.raises(FileNotFoundError):
        disk.create(root / "links" / "x" / "b", b"two")
    with pytest.raises(FileExistsError):
        disk.make_folder(root / "links" / "x", exist_ok=True)
    with pytest.raises(FileExistsError):
        disk.link(root / "links" / "x", "other")
    disk.delete(root / "links" / "x")
    assert disk.list(root / "away") == ["a"]


def test_a_lock_has_one_holder(place: tuple[Disk, Path]) -> None:
    disk, root = place
    assert not disk.is_locked(root / "lock")
    held = disk.lock(root / "lock")
    assert held is not None
    assert disk.is_locked(root / "lock")
    with pytest.raises(BlockingIOError):
        disk.lock(root / "lock")
    held.close()
    assert not disk.is_locked(root / "lock")
    assert disk.free_bytes(root) > 0


# What only the simulated one does


def test_what_was_synced_survives_every_power_cut() -> None:
    for order in ("in order", "in any order"):
        for seed in range(40):
            disk, root = simulated(order)
            disk.create(root / "created", b"one")
            disk.replace(root / "replaced", b"old")
            disk.replace(root / "replaced", b"two")
            disk.append(root / "appended", b"three")
            disk.write_file(root / "loose", b"lost or not", durable=False)
            disk.storage.power_cut(seed)
            survivor = SimulatedDisk(disk.storage)
            assert survivor.read(root / "created").data == b"one"
            assert survivor.read(root / "replaced").data == b"two"
            assert survivor.read(root / "appended").data == b"three"


def test_what_was_not_synced_is_lost_torn_or_kept() -> None:
    outcomes, data = set(), b"d" * 200
    for seed in range(600):
        disk, root = simulated()
        disk.write_file(root / "a", data, durable=False)
        disk.storage.power_cut(seed)
        outcomes.add(read_if_there(SimulatedDisk(disk.storage), root / "a"))
    assert outcomes == {None, b"", data, bytes(200), data[:64], data[:128], data[:192]}, "whole pages"


def test_names_survive_in_order_where_the_file_system_keeps_a_journal() -> None:
    for seed in range(100):
        disk, root = simulated()
        for name in "abcdef":
            disk.make_folder(root / name)
        disk.storage.power_cut(seed)
        left = "".join(SimulatedDisk(disk.storage).list(root))
        assert "abcdef".startswith(left)


def test_a_sync_of_anything_keeps_all_earlier_names_of_a_journal() -> None:
    """That is how notes which were synced made the deletion of files durable whose successors were not."""
    disk, root = simulated()
    disk.create(root / "old", b"rows")
    disk.write_file(root / "new", b"the same rows", durable=False)
    disk.delete(root / "old")
    disk.replace(root / "note", b"old is gone")
    disk.storage.power_cut(_worst_seed())
    survivor = SimulatedDisk(disk.storage)
    assert survivor.list(root) == ["new", "note"]
    assert survivor.read(root / "new").data == b""


def test_in_any_order_only_synced_folders_keep_their_names() -> None:
    outcomes = set()
    for seed in range(60):
        disk, root = simulated("in any order")
        disk.make_folder(root / "below")
        disk.write_file(root / "below" / "a", b"x", durable=True)
        disk.make_folder(root / "beside")
        disk.sync([root / "below"])
        disk.storage.power_cut(seed)
        outcomes.add(tuple(SimulatedDisk(disk.storage).list(root)))
    assert outcomes == {(), ("below",), ("beside",), ("below", "beside")}


def test_a_stopped_process_does_nothing_more_and_lets_go_of_its_locks() -> None:
    disk, root = simulated()
    disk.lock(root / "lock")
    other = SimulatedDisk(disk.storage, "other")
    with pytest.raises(BlockingIOError):
        other.lock(root / "lock")

    def end(name: str, path: Path) -> None:
        if name == "move":
            disk.stop()

    disk.before = end
    with pytest.raises(Stopped):
        disk.replace(root / "a", b"one")
    left = other.list(root)
    assert [name for name in left if not name.startswith(".a.")] == ["lock"]
    assert len(left) == 2, "the hidden file is there, and was not put into place"
    with pytest.raises(Stopped):
        disk.list(root)
    assert other.lock(root / "lock") is not None


def test_a_full_disk_takes_nothing_and_lets_files_go() -> None:
    disk, root = simulated()
    disk.create(root / "counter", b"00")
    disk.storage.full = True
    for refused in (
        lambda: disk.create(root / "a", b"x"),
        lambda: disk.replace(root / "counter", b"x"),
        lambda: disk.append(root / "counter", b"x"),
        lambda: disk.make_folder(root / "b"),
    ):
        with pytest.raises(OSError, match="No space left") as failure:
            refused()
        assert failure.value.errno == errno.ENOSPC
    disk.overwrite(root / "counter", b"01")
    disk.move(root / "counter", root / "moved")
    assert disk.list(root) == ["moved"]


def test_a_listing_may_lag_behind_others_and_never_behind_oneself() -> None:
    disk, root = simulated()
    disk.create(root / "old", b"")
    far = SimulatedDisk(disk.storage, "far", "far", behind_s=10)
    assert far.list(root) == ["old"]
    disk.create(root / "new", b"")
    disk.delete(root / "old")
    assert far.list(root) == ["old"]
    assert far.look(root / "new") is not None, "asked for by name it is found"
    disk.storage.clock.sleep(11)
    assert far.list(root) == ["new"]
    disk.create(root / "newer", b"")
    assert far.list(root) == ["new"]
    far.create(root / "own", b"")
    assert far.list(root) == ["new", "newer", "own"]


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(["in order", "in any order"]))
def test_the_same_seed_leaves_the_same(seed: int, order: Order) -> None:
    def left() -> tuple[str, dict[str, bytes | None]]:
        disk, root = simulated(order)
        for i in range(6):
            disk.replace(root / f"a{i}", b"data", durable=i % 3 == 0)
        disk.storage.power_cut(seed)
        return disk.storage.digest, disk.storage.tree()

    assert left() == left()


def _worst_seed() -> int:
    """With which all names survive and no content."""
    for seed in range(100):
        disk, root = simulated()
        for i in range(8):
            disk.write_file(root / str(i), b"x", durable=False)
        disk.storage.power_cut(seed)
        if list(disk.storage.tree("/root").values()) == [None, *[b""] * 8]:
            return seed
    raise AssertionError("no seed is the worst")
