"""One process owns a storage root, and one that was overtaken can change nothing in it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.checksum import checked
from mooring.controller.journal import Journal
from mooring.disk import Content, DiskEntry, RealDisk
from mooring.errors import EngineError, OvertakenError
from mooring.spark.ownership import owner
from mooring.spark.ownership.lease import Claim, LeaseWatch
from mooring.spark.ownership.lease_renewal import Pulse
from mooring.spark.ownership.owner import Ownership, Standing, look, take
from mooring.spark.storage.fencing import drop_unfinished, take_epoch
from mooring.spark.storage.owned_folder import OwnedFolder

ROOT = Path(__file__).parents[3]
OWNER = """\
import sys
from pathlib import Path
from mooring.spark.ownership.owner import look, take
root = Path(sys.argv[1])
own = take(root, look(root), Path("/elsewhere/project"), lease_s=5.0)
print(own.generation, flush=True)
for line in sys.stdin:
    own.beat()
    print("beat", flush=True)
"""


class StillClock:
    """Goes forward only while somebody sleeps; `each` is called with every sleep."""

    def __init__(self, each: Callable[[], None] = lambda: None) -> None:
        self.at_s, self.each = 100.0, each

    def now_s(self) -> float:
        return self.at_s

    def monotonic_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds
        self.each()


@pytest.fixture(autouse=True)
def release_all(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Owners that a test leaves behind."""
    made: list[Ownership] = []
    real = Ownership.__init__

    def remembered(self: Ownership, *given: Any) -> None:
        real(self, *given)
        made.append(self)

    monkeypatch.setattr(Ownership, "__init__", remembered)
    yield
    for own in made:
        own.release()


@pytest.fixture
def start_owner(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """A process that owns the root, and beats for every line it is given."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().strip().isdigit()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def beat(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "beat\n"


def claim(root: Path, clock: StillClock | None = None, *, standby: bool = False) -> Claim:
    return Claim(root, root / "project", clock or StillClock(), standby=standby)


def owned_by(made: Claim) -> Ownership:
    own = made.settle()
    assert own is not None
    return own


def elsewhere(root: Path, monkeypatch: pytest.MonkeyPatch) -> Ownership:
    """An owner on a machine that this one cannot look into."""
    with monkeypatch.context() as there:
        there.setattr(owner, "_boot_id", lambda: "another machine's")
        return take(root, look(root), Path("/there/project"), lease_s=5.0)


def test_a_root_has_one_owner_which_names_itself_and_hands_over_at_once_when_it_ends_cleanly(
    tmp_path: Path,
) -> None:
    assert look(tmp_path) == Standing("free", 0)
    first = owned_by(claim(tmp_path))
    (first.owned.folder / "journal.jsonl").write_text("so far\n")
    seen = look(tmp_path)
    assert (seen.state, seen.generation) == ("here", 1)
    with pytest.raises(EngineError, match=f"process {os.getpid()} on .*, from {tmp_path / 'project'}"):
        claim(tmp_path).settle()
    first.release()
    clock = StillClock()
    second = owned_by(claim(tmp_path, clock))
    assert second.generation == 2
    assert clock.at_s == 100.0, "nobody had to be waited for"
    assert (second.owned.folder / "journal.jsonl").read_text() == "so far\n"
    second.release()


def test_an_owner_that_was_killed_on_this_machine_is_followed_without_waiting(
    tmp_path: Path, start_owner: Callable[[], subprocess.Popen[str]]
) -> None:
    process = start_owner()
    assert look(tmp_path).state == "here"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert look(tmp_path).state == "gone"
    clock, said = StillClock(), list[str]()
    owned_by(Claim(tmp_path, tmp_path, clock, tell=said.append)).release()
    assert clock.at_s == 100.0
    assert "ended without releasing" in said[0]


def test_a_frozen_owner_is_waited_for_and_finds_itself_overtaken_when_it_comes_back(
    tmp_path: Path, start_owner: Callable[[], subprocess.Popen[str]]
) -> None:
    process = start_owner()
    beat(process)
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(EngineError, match="already runs"):
        claim(tmp_path).settle()
    clock, said = StillClock(), list[str]()
    own = owned_by(Claim(tmp_path, tmp_path, clock, standby=True, tell=said.append))
    assert 105.0 <= clock.at_s < 106.0, "the lease of the owner, by the watcher's clock"
    assert "waiting until it is released" in said[0]
    assert "took over from" in said[1]
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate("\n")
    del errors
    assert process.returncode == 1, "the beat raised"
    own.beat()
    own.release()


def test_a_standby_waits_for_as_long_as_the_counter_moves_and_no_clock_of_the_owner_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = elsewhere(tmp_path, monkeypatch)
    os.utime(first.owned.folder / "beat", (0, 0))  # what that machine's clock says of it
    beats = 0

    def alive() -> None:
        nonlocal beats
        beats += 1
        if beats <= 200:
            first.beat()

    clock = StillClock(alive)
    own = owned_by(claim(tmp_path, clock, standby=True))
    assert beats > 200, "taken while it was alive"
    assert clock.at_s - 100.0 >= 200 * 0.2 + 5.0
    own.release()


def test_an_owner_elsewhere_that_is_alive_is_a_refusal_and_one_that_is_not_is_followed_after_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = elsewhere(tmp_path, monkeypatch)
    with pytest.raises(EngineError, match="from /there/project"):
        claim(tmp_path, StillClock(first.beat)).settle()
    clock = StillClock()
    owned_by(claim(tmp_path, clock)).release()
    assert clock.at_s >= 105.0


def test_a_watcher_that_was_held_up_itself_does_not_blame_the_owner(tmp_path: Path) -> None:
    watch = LeaseWatch()
    assert watch.stood_still_s(Standing("here", 1, None, b"1"), 10.0) == 0.0
    assert watch.stood_still_s(Standing("here", 1, None, b"2"), 90.0) == 0.0
    assert watch.stood_still_s(Standing("here", 1, None, b"2"), 93.0) == 3.0
    assert watch.stood_still_s(Standing("here", 2, None, b"2"), 99.0) == 0.0
    record = take(tmp_path, look(tmp_path), tmp_path, lease_s=20.0).record
    held_up = LeaseWatch()
    assert held_up.stood_still_s(Standing("here", 1, record, b"1"), 10.0) == 0.0
    assert held_up.stood_still_s(Standing("here", 1, record, b"1"), 90.0) == 5.0, "a look that took 80 s"


def test_a_standby_that_is_told_to_end_ends_and_has_changed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = elsewhere(tmp_path, monkeypatch)
    clock = StillClock()
    asked = Claim(tmp_path, tmp_path, clock, standby=True, given_up=lambda: clock.at_s > 103.0)
    assert asked.settle() is None
    first.beat()
    assert look(tmp_path).generation == 1


class FailingDisk(RealDisk):
    """Fails with every look while `number` is set."""

    number = 0

    def list(self, folder: Path, *, current: bool = False) -> list[str]:
        self._fail(folder)
        return super().list(folder, current=current)

    def look(self, path: Path, *, follow: bool = True) -> DiskEntry | None:
        self._fail(path)
        return super().look(path, follow=follow)

    def read(self, path: Path, start: int = 0) -> Content:
        self._fail(path)
        return super().read(path, start)

    def _fail(self, path: Path) -> None:
        if self.number:
            raise OSError(self.number, os.strerror(self.number), str(path))


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ETIMEDOUT, errno.EINTR, errno.EACCES])
def test_a_standby_waits_on_while_the_disk_fails_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    first, disk, said = elsewhere(tmp_path, monkeypatch), FailingDisk(), list[str]()

    def turn() -> None:
        disk.number = number if 101.0 < clock.at_s < 104.0 else 0
        if clock.at_s > 105.0 and not first_released:
            first_released.append(True)
            first.release()

    first_released: list[bool] = []
    clock = StillClock(turn)
    own = owned_by(Claim(tmp_path, tmp_path, clock, standby=True, tell=said.append, disk=disk))
    assert own.generation == 2
    assert len(said) == 3, said
    assert os.strerror(number) in said[1]
    assert said[1].endswith("waiting until it is usable")
    assert said[2].endswith("is usable again")


def test_a_run_that_does_not_wait_names_the_disk_that_fails(tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.number = errno.ESTALE
    with pytest.raises(EngineError, match=f"{tmp_path} cannot be read: .*Stale file handle"):
        Claim(tmp_path, tmp_path, StillClock(), disk=disk).settle()


def test_an_owner_is_not_overtaken_for_time_in_which_nobody_could_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What keeps a standby from the storage may keep its owner from it too: both get it back at once."""
    first, disk = elsewhere(tmp_path, monkeypatch), FailingDisk()
    beats = 0

    def turn() -> None:
        nonlocal beats
        disk.number = errno.ESTALE if 101.0 < clock.at_s < 160.0 else 0
        if 161.0 < clock.at_s < 200.0:
            first.beat()
            beats += 1

    clock = StillClock(turn)
    owned_by(Claim(tmp_path, tmp_path, clock, standby=True, disk=disk))
    assert beats > 100
    assert clock.at_s >= 205.0


def test_a_standby_makes_no_root_and_waits_for_one_that_is_away(tmp_path: Path) -> None:
    root, away, said = tmp_path / "root", tmp_path / "away", list[str]()
    root.mkdir()
    take(root, look(root), tmp_path).release()
    root.rename(away)
    root.mkdir()  # the empty folder under a mount

    def turn() -> None:
        assert list(root.iterdir()) == [] or clock.at_s > 130.0
        if clock.at_s > 130.0 and away.exists():
            root.rmdir()
            away.rename(root)

    clock = StillClock(turn)
    own = owned_by(Claim(root, tmp_path, clock, standby=True, tell=said.append))
    assert own.generation == 2
    assert "has no storage yet" in said[0]
    assert len(said) == 1, "and then it runs"


def test_a_root_that_goes_away_before_it_is_taken_is_not_made_anew(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    take(root, look(root), tmp_path).release()
    seen = look(root)
    root.rename(tmp_path / "away")
    with pytest.raises(OSError, match=r"owned|expected"):
        take(root, seen, tmp_path)
    assert not root.exists()


def test_of_many_who_wait_one_takes_over(tmp_path: Path) -> None:
    """Each as if it alone had seen the owner go."""
    seen = look(tmp_path)
    first = take(tmp_path, seen, tmp_path)
    for _ in range(3):
        with pytest.raises(OSError, match="now, expected"):
            take(tmp_path, seen, tmp_path)
    first.beat()


def test_everything_an_overtaken_owner_tries_fails_in_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its looking first: it may have been frozen right after it looked."""
    old = elsewhere(tmp_path, monkeypatch)
    sink_log = tmp_path / "channels" / "c" / "_spark_metadata"
    old.owned.make_folder(sink_log)
    kept = tmp_path / "channels" / "c" / "part-0"
    kept.touch()
    home = old.owned.checkpoints / "f"
    epoch = take_epoch(home)
    (epoch / "metadata").write_text("id")
    journal = Journal(old.owned.folder, lambda: 0.0)
    journal.append("placement", placement={}, why="first")
    open_journal = journal.file.open("ab")  # as if frozen in the middle of an append
    new = take(tmp_path, look(tmp_path), tmp_path)
    log = sink_log / "0"
    log.write_text("v1\nshortened by the new owner")
    unfinished = sink_log / ".1.c0ffee.tmp"
    unfinished.touch()
    link = tmp_path / "links"
    tries: list[Callable[[], object]] = [
        old.beat,
        lambda: take_epoch(home),
        lambda: (epoch / "offsets").mkdir(parents=True),
        lambda: journal.append("placement", placement={}, why="second"),
        lambda: old.owned.replace(log, "v1\nas the old owner read it"),
        lambda: old.owned.remove(kept),
        lambda: old.owned.remove(tmp_path / "channels"),
        lambda: drop_unfinished(sink_log, old.owned.remove),
        lambda: old.owned.make_folder(tmp_path / "channels" / "d"),
        lambda: old.owned.make_link(link, "channels"),
        lambda: old.owned.channel_note("c").write_text("{}"),
    ]
    for attempt in tries:
        with pytest.raises((OSError, EngineError, OvertakenError)):
            attempt()
    with open_journal:
        open_journal.write(b"late\n")
    old.release()
    assert log.read_text() == "v1\nshortened by the new owner"
    assert kept.exists()
    assert unfinished.exists()
    assert not link.is_symlink()
    assert not (tmp_path / "channels" / "d").exists()
    assert (OwnedFolder(new.owned.folder).checkpoints / "f" / epoch.name / "metadata").read_text() == "id"
    written = Journal(new.owned.folder, lambda: 0.0).records()
    assert [record["why"] for record in written] == ["first"]
    assert look(tmp_path).state == "here"
    new.beat()


def test_a_root_that_is_away_is_trouble_and_no_overtaking(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    own = take(root, look(root), tmp_path)
    root.rename(tmp_path / "away")
    with pytest.raises(EngineError, match="cannot be kept alive"):
        own.beat()
    (tmp_path / "away").rename(root)
    own.beat()


def test_an_owner_whose_successor_cannot_be_read_is_overtaken_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = elsewhere(tmp_path, monkeypatch)
    new = take(tmp_path, look(tmp_path), tmp_path)
    (new.owned.folder / "owner.json").write_text("")
    with pytest.raises(OvertakenError, match="another run"):
        old.beat()


def test_a_loop_that_hangs_loses_its_lease_and_a_long_turn_does_not(tmp_path: Path) -> None:
    clock = StillClock()
    own = take(tmp_path, look(tmp_path), tmp_path)
    pulse = Pulse(own, clock, patience_s=60.0)
    clock.sleep(59.0)
    assert pulse.beat(), "a turn may take that long"
    clock.sleep(2.0)
    before = look(tmp_path).counter
    assert not pulse.beat()
    assert look(tmp_path).counter == before
    pulse.sign()
    assert pulse.beat()


def test_an_overtaken_owner_learns_it_with_its_next_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = elsewhere(tmp_path, monkeypatch)
    pulse = Pulse(old, StillClock())
    pulse.sign()
    take(tmp_path, look(tmp_path), Path("/new/project"))
    assert not pulse.beat()
    with pytest.raises(OvertakenError, match=r"now belongs to process .*, from /new/project") as overtaken:
        pulse.sign()
    assert overtaken.value.exit_code == 4


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    own = take(tmp_path, look(tmp_path), tmp_path)
    (own.owned.folder / "owner.json").write_text(json.dumps({"host": 3}))
    with pytest.raises(EngineError, match="cannot be read"):
        look(tmp_path)


def test_a_record_of_which_a_bit_flipped_is_named_and_one_without_a_checksum_is_read(tmp_path: Path) -> None:
    record = take(tmp_path, look(tmp_path), Path("/the/project")).owned.folder / "owner.json"
    written = record.read_bytes()
    record.write_bytes(checked(written))  # as an earlier Mooring wrote it
    assert look(tmp_path).state == "here"
    record.write_bytes(written.replace(b'"lease_s":20', b'"lease_s":60'))
    with pytest.raises(EngineError, match=r"owner.json cannot be read: its checksum is"):
        look(tmp_path)


def test_a_beat_that_raises_anything_is_reported_and_the_next_one_keeps_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread would end otherwise, and the run would go on without a lease until somebody took over."""
    own = take(tmp_path, look(tmp_path), tmp_path)
    pulse = Pulse(own, StillClock())

    def odd() -> None:
        raise ZeroDivisionError("float division by zero")

    with monkeypatch.context() as patch:
        patch.setattr(own, "beat", odd)
        assert not pulse.beat()
    with pytest.raises(EngineError, match="ZeroDivisionError: float division by zero"):
        pulse.check()
    assert pulse.beat()
    pulse.check()
