"""The owner of a storage root: one process at a time, on any machine, as long as it renews its lease.

An owner has a generation, a folder of that name for all it writes (`owned_folder.py`), and in it a record of
who it is, a counter that it raises while its run is alive, and a file that it holds locked. From elsewhere
it looks like one of these:

| state     | how that is known                               | who comes next may have it        |
| --------- | ----------------------------------------------- | --------------------------------- |
| free      | there was none yet, or the record says released | at once                           |
| gone      | it was on this machine, and the lock is free    | at once                           |
| here      | it is on this machine, and holds the lock       | when the counter has stood still  |
| elsewhere | the record names another machine or boot        | when the counter has stood still  |

The watcher's own clock measures how long a counter has stood still: clocks of two machines are never
compared. Taking over gives the root's next generation to the new owner and takes the old one's folder away,
so it does not matter whether the old owner is dead, frozen or only slow.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from mooring.checksum import checked, with_sum
from mooring.disk import DISK, Disk, HeldLock, is_file, is_folder
from mooring.errors import EngineError, OvertakenError
from mooring.spark.storage.fencing import current_epoch, newest_number, take_next
from mooring.spark.storage.fresh_folder import carry_into
from mooring.spark.storage.owned_folder import OWNED, OwnedFolder

LEASE_S = 20.0
"""Seconds after which an owner that does not raise its counter may be overtaken, where nothing else is said:
ten times what a busy machine or a slow network file system holds a small write up for."""
SHORTEST_LEASE_S = 2.0
"""Below that, an owner is overtaken because its machine was busy for a moment."""
_RECORD, _COUNTER, _LOCK = "owner.json", "beat", "lock"
_OWN = (_RECORD, _COUNTER, _LOCK, "status.json", "out")
"""What belongs to one owner and is never carried along."""
_WRITTEN_IN_PLACE = ("journal.jsonl",)

State = Literal["free", "gone", "here", "elsewhere"]


class OwnerRecord(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    boot: str
    """Of the machine's kernel, new with every boot; empty where it cannot be told."""
    pid: int
    project: str
    """The project's folder, as that machine sees it."""
    lease_s: float
    since: str
    """For people: when it began, by that machine's clock."""
    released: bool = False
    version: Literal[1] = 1

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, from {self.project}, since {self.since}"


@dataclass(frozen=True)
class Standing:
    """A root's owner, or its last one, as seen from this process."""

    state: State
    generation: int
    """0: there never was one."""
    record: OwnerRecord | None = None
    counter: bytes = b""

    @property
    def is_taken(self) -> bool:
        return self.state in ("here", "elsewhere")


class Ownership:
    """A storage root that this process owns, until it lets go of it or is overtaken."""

    def __init__(
        self, owned: OwnedFolder, record: OwnerRecord, lock: HeldLock | None, disk: Disk = DISK
    ) -> None:
        """`lock` is None where the file system has no locks."""
        self.owned, self.record = owned, record
        self._lock, self._disk, self._count = lock, disk, 0

    @property
    def generation(self) -> int:
        return int(self.owned.folder.name)

    def beat(self) -> None:
        """Raise the counter; `OvertakenError` if the root belongs to somebody else by now.

        In place: that needs no room on a full disk, and watchers on NFS see it as soon as they open the file.
        """
        self._count += 1
        try:
            self._disk.overwrite(self.owned.folder / _COUNTER, _digits(self._count))
        except OSError as failure:
            self.check()
            raise EngineError(
                f"the lease of {self.owned.folder} cannot be kept alive: {failure}",
                remedy="check that the storage root exists and is writable",
            ) from failure

    def check(self) -> None:
        """`OvertakenError` if the root belongs to somebody else by now."""
        home = self.owned.folder.parent
        try:
            # Where not even the folder of generations is there, the storage is away, not somebody else's.
            lost = newest_number(home, self._disk) > self.generation or (
                is_folder(self._disk, home) and not is_folder(self._disk, self.owned.folder)
            )
        except OSError as failure:
            raise _unreadable(home, failure) from failure
        if lost:
            by = None
            with contextlib.suppress(EngineError):
                by = look(home.parent, self._disk).record
            raise OvertakenError(
                f"this run was overtaken: the storage {home.parent} now belongs to "
                f"{'another run' if by is None else by}",
                remedy="this run has ended its queries; see `mooring status`",
            )

    def release(self) -> None:
        """Let the next owner begin at once. Nothing happens if there is one already."""
        with contextlib.suppress(OSError):
            _write_record(self._disk, self.owned.folder, msgspec.structs.replace(self.record, released=True))
        if self._lock is not None:
            self._lock.close()


def look(root: Path, disk: Disk = DISK) -> Standing:
    """Who owns the root now; changes nothing."""
    try:
        return _look(root, disk)
    except OSError as failure:
        raise _unreadable(root / OWNED, failure) from failure


def _look(root: Path, disk: Disk) -> Standing:
    home = root / OWNED
    folder, generation = current_epoch(home, disk), newest_number(home, disk)
    if not is_folder(disk, folder):
        return Standing("free", generation)
    try:
        content = disk.read(folder / _RECORD).data
        counter = disk.read(folder / _COUNTER).data
    except FileNotFoundError:  # nobody's yet, or being taken over at this moment
        return Standing("free", generation)
    try:
        record = msgspec.json.decode(checked(content), type=OwnerRecord)
    except (msgspec.DecodeError, ValueError) as damage:
        raise EngineError(
            f"{folder / _RECORD} cannot be read: {damage}",
            remedy="check that no run uses this storage on any machine, then remove the file",
        ) from damage
    if record.released:
        return Standing("free", generation, record, counter)
    if not record.boot or record.boot != _boot_id():
        return Standing("elsewhere", generation, record, counter)
    return Standing("here" if disk.is_locked(folder / _LOCK) else "gone", generation, record, counter)


def _unreadable(home: Path, failure: OSError) -> EngineError:
    return EngineError(
        f"the owner of the storage {home.parent} cannot be read: {failure}",
        remedy="check that the storage root exists and is readable",
    )


def owner_lock(root: Path, disk: Disk = DISK) -> Path | None:
    """The file that the root's owner holds locked; None if nobody ever owned it."""
    lock = current_epoch(root / OWNED, disk) / _LOCK
    return lock if is_file(disk, lock) else None


def take(root: Path, seen: Standing, project: Path, lease_s: float = LEASE_S, disk: Disk = DISK) -> Ownership:
    """Own the root from now on, given how it was last seen. `OSError` if somebody else was quicker. A root is
    made only where none was seen.

    An owner that ended is followed by giving its folder the next name. One that may still be there could have
    it open, so what it holds is carried into a fresh one (`fresh_folder.py`).
    """
    home = root / OWNED
    if seen.generation == 0:
        disk.make_folder(home, exist_ok=True)  # in a root that is there: an empty mount point gets none
    record = OwnerRecord(
        host=platform.node(),
        boot=_boot_id(),
        pid=os.getpid(),
        project=str(project),
        lease_s=lease_s,
        since=time.strftime("%Y-%m-%d %H:%M:%S %z"),
    )
    locks: list[HeldLock | None] = []
    # What was left by a take-over cut short might still be in somebody's hands.
    in_place = not seen.is_taken and current_epoch(home, disk).name.isdigit()

    def finish(old: Path, making: Path) -> Path:
        if not is_folder(disk, old):
            if seen.generation > 0:
                raise FileExistsError(f"another run is taking over {home}")
            disk.make_folder(making)
        elif in_place:
            making = old
        else:
            carry_into(old, making, disk, copied=_WRITTEN_IN_PLACE, left_out=_OWN)
        locks.append(_furnish(disk, making, record))
        return making

    try:
        folder = take_next(home, finish, disk, after=seen.generation)
    except BaseException:
        for lock in locks:
            if lock is not None:
                lock.close()
        raise
    return Ownership(OwnedFolder(folder, disk), record, locks[0], disk)


def _furnish(disk: Disk, folder: Path, record: OwnerRecord) -> HeldLock | None:
    """Make anew what belongs to one owner. The lock is held before the folder has its name."""
    for name in _OWN:
        with contextlib.suppress(OSError) if name == "out" else contextlib.nullcontext():
            disk.delete(folder / name)
    OwnedFolder(folder, disk).make_parts()
    disk.replace(folder / _COUNTER, _digits(0), durable=False)
    # Where a file system has no locks, nobody can be told to be gone: the lease alone decides.
    lock = disk.lock(folder / _LOCK)
    try:
        _write_record(disk, folder, record)
    except BaseException:
        if lock is not None:
            lock.close()
        raise
    return lock


def _write_record(disk: Disk, folder: Path, record: OwnerRecord) -> None:
    disk.replace(folder / _RECORD, with_sum(msgspec.json.encode(record)))


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _digits(count: int) -> bytes:
    """Always as long, so that a counter is overwritten and never cut."""
    return b"%020d" % count
