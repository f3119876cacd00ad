"""A pipeline that two hosts may run, and all that can happen to it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lab.benchmarks._demo_project import SITES, Feeder, copy_example
from lab.benchmarks._user_run import UserRun
from lab.benchmarks._wide_project import FAR, VIEW, WideProject
from lab.benchmarks._wrong_clock import DAY_S, Clock
from mooring.controller.parts import is_aside
from mooring.spark.sites.file_name import file_name
from mooring.spark.storage.compacted_name import read_name
from mooring.spark.storage.fencing import current_epoch
from mooring.spark.storage.owned_folder import newest_owned
from mooring.spark.storage.stream_logs import last_batch

HERE = "the runner and its sites"
SILENCE_S = 10
AIM_S = 30.0
WAYS_TO_LOSE_AN_OWNER = ("owner killed", "owner frozen", "owner's host frozen")
"""In turn, so that three rounds of one take-over each have all of them."""
WRONG_BY_DAYS = (30, -30, 3650, -400)
"""In turn; within the years that docs/faults.md names."""
DISK_MB = 96
"""Of the storage's disk: several times what a part stores, and full in a moment."""


class UnderFire:
    """One storage, and two checkouts of the project that use it, as two hosts would."""

    def __init__(
        self,
        project: WideProject,
        landing: Path,
        hosts: Mapping[Path, Path],
        clocks: Mapping[str, Clock],
        seed: int,
    ) -> None:
        """`hosts`: the project's folder of each, and under which path it has the storage. `clocks`: the
        endpoint's as FAR, and that of the machine of all others as HERE.
        """
        self.project, self.storage, self.clocks = project, project.storage, clocks
        self.hosts = [
            UserRun(folder, clocks[HERE].environment, module="lab.benchmarks._quick_merges")
            for folder in hosts
        ]
        for host in self.hosts:
            copy_example(host.folder, landing, self.storage)
            project.widen(host.folder)
        self.at = self.hosts[0]
        """The host that runs the project now."""
        self.feeder: Feeder | None = None
        """Whoever brings packets."""
        self.seed, self.draw = seed, random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.merged: set[str] = set()
        """Names of merged files that were seen."""
        self.pauses_s: list[float] = []
        self.noticed_s: list[float] = []
        self.taken_over_s: list[float] = []

    def run(self) -> None:
        """In the background, until everything runs."""
        self.at.forget_status()
        started = self.at.begin("--silence", f"{SILENCE_S}s")

        def runs() -> bool:
            if started.poll() is not None:
                raise RuntimeError(f"the run ended with {started.poll()}\n{self.at.log_end()}")
            return self.runs_everything()

        self.at.wait(runs, "everything to run")

    @property
    def is_fed(self) -> bool:
        """Whether packets still come."""
        return self.feeder is not None and self.feeder.is_alive()

    def runs_everything(self) -> bool:
        return len(self.at.status()["fragments"]) == self.project.fragments

    def stop(self) -> None:
        for host in self.hosts:
            with contextlib.suppress(RuntimeError):
                host.stop()

    # What a user does

    def move_some(self, count: int) -> None:
        """A list of moves, drawn fragments to drawn sites; where they cannot go there, another draw."""
        for _ in range(20):
            placement = self.drawn_placement(count)
            if self.moved(placement):
                shows = partial(self.shows, placement)
                self.at.wait(shows, "the status to follow")
                return
            time.sleep(3.0)
        raise RuntimeError("twenty lists of moves were refused in a row")

    def drawn_placement(self, count: int = 1) -> dict[str, str]:
        """So many fragments elsewhere."""
        placement = dict(self.at.status()["placement"])
        movable = sorted(name for name in placement if not name.endswith(":ingest"))
        for name in self.draw.sample(movable, count):
            placement[name] = self.draw.choice(sorted({*SITES, FAR} - {placement[name]}))
        return placement

    def moved(self, placement: dict[str, str]) -> bool:
        try:
            steps = self.at.moved(placement)
        except RuntimeError as refused:
            self.counts["moves refused"] += 1
            print(f"  {' '.join(str(refused).split()[-60:])}", file=sys.stderr, flush=True)
            return False
        self.counts["moves"] += len(steps)
        self.pauses_s += [float(step["pause_s"]) for step in steps]
        return bool(steps)

    def shows(self, placement: dict[str, str]) -> bool:
        return bool(self.at.status()["placement"] == placement)

    def update_once(self) -> None:
        """Stopped; one update, which must reach the end of what there is; and on."""
        self.pause()
        self.at.stop()
        done = self.at.mooring("run", str(self.at.folder), "--once", "--silence", f"{SILENCE_S}s")
        if done["ended"] != "up to date":
            raise RuntimeError(f"an update ended otherwise than up to date: {done['ended']}")
        self.counts["updates (--once) in between"] += 1
        self.run()
        self.settle()

    # What happens to sites

    def kill_site(self, *, aimed: bool) -> None:
        site = self.draw.choice(SITES)
        self.kill(self.at.server_of(site), sorted(self.fragments_at(site)), aimed=aimed)
        self.counts["site kills"] += 1
        began = time.monotonic()
        self.at.wait(lambda: self.at.status()["troubles"], "the lost site to be noticed")
        self.noticed_s.append(time.monotonic() - began)
        self.settle()

    def freeze_site(self) -> None:
        """Frozen, its fragments go elsewhere; thawed, it changes nothing and is used again."""
        site = self.draw.choice(SITES)
        self.pause()
        with frozen([self.at.server_of(site)]):
            self.at.wait(lambda: f"site {site}" in self.troubles(), "the frozen site to be noticed")
            away = {n for n in self.at.status()["placement"] if not n.endswith(":ingest")}
            self.at.wait(partial(self.run_beside, site, away), "its fragments to run elsewhere")
            self.pause()
        self.counts["site freezes"] += 1
        self.settle()

    def cut_off(self) -> None:
        """The endpoint, with fragments at it, is out of reach but goes on with the disk; its fragments run
        elsewhere, and what it does meanwhile changes nothing.
        """
        there = self.some_at_the_endpoint()
        self.pause()
        failed_before = self.project.far.failures()
        with self.project.far.place.cut_off():
            self.at.wait(lambda: f"site {FAR}" in self.troubles(), "the cut-off endpoint to be noticed")
            self.at.wait(partial(self.run_beside, FAR, there), "its fragments to run elsewhere")
            # With the disk in sight its queries come to their next batch, and find themselves fenced off.
            self.wait_failed_there(failed_before)
            self.pause()
        self.counts["cut-offs of an endpoint that sees the storage"] += 1
        self.counts["queries fenced off at the cut-off endpoint"] += (
            self.project.far.failures() - failed_before
        )
        self.settle()

    def some_at_the_endpoint(self) -> set[str]:
        """What runs there, once that are two fragments at least."""
        while len(there := self.fragments_at(FAR)) < 2:
            placement = dict(self.at.status()["placement"])
            movable = sorted(n for n, at in placement.items() if at != FAR and not n.endswith(":ingest"))
            self.moved(placement | dict.fromkeys(self.draw.sample(movable, 2), FAR))
        return there

    def wait_failed_there(self, before: int) -> None:
        self.at.wait(
            lambda: self.project.far.failures() > before or not self.is_fed,
            "a fenced query at the cut-off endpoint to fail",
        )

    def fragments_at(self, site: str) -> set[str]:
        return {n for n, f in self.at.status()["fragments"].items() if f["site"] == site}

    def run_beside(self, site: str, fragments: set[str]) -> bool:
        running = self.at.status()["fragments"]
        return fragments <= running.keys() and all(at["site"] != site for at in running.values())

    # What happens to Mooring

    def kill_mooring(self, *, aimed: bool) -> None:
        self.kill(self.at.pid(), list(self.at.status()["fragments"]), aimed=aimed)
        self.counts["Mooring kills"] += 1
        self.at.wait(lambda: not self.at.processes(), "the killed runner's sites to end")
        self.at.forget_status()
        self.run()

    def take_over(self) -> None:
        """A standby at the other host takes over from an owner that is killed, or frozen and comes back."""
        owner, standby = self.hosts if self.at is self.hosts[0] else self.hosts[::-1]
        standby.forget_status()
        waiting = standby.begin("--standby", "--silence", f"{SILENCE_S}s")
        owner.wait(lambda: "waiting until it is released" in standby.said(), "the standby to wait")
        how = WAYS_TO_LOSE_AN_OWNER[(self.seed + self.counts["take-overs"]) % 3]
        pid = owner.pid()
        self.pause()
        if waiting.poll() is not None:
            raise RuntimeError(f"the standby ended instead of waiting\n{standby.log_end()}")
        self.counts[f"take-overs, {how}"] += 1
        began = time.monotonic()
        if how == "owner killed":
            self.kill(pid, list(owner.status()["fragments"]), aimed=False)
            self.taken_over(standby, began)
        else:
            with frozen([pid] if how == "owner frozen" else owner.processes()):
                self.taken_over(standby, began)
                self.pause()
        self.counts["take-overs"] += 1
        owner.wait(lambda: not owner.processes(), "the old owner and its sites to end")
        self.settle()

    def taken_over(self, standby: UserRun, began: float) -> None:
        self.at = standby
        standby.wait(self.runs_everything, "the standby to run everything")
        self.taken_over_s.append(time.monotonic() - began)

    # What happens to clocks

    def set_clock(self, whose: str) -> None:
        """Wrong for a while, with a move meanwhile, and right again; batches are committed after each."""
        days = WRONG_BY_DAYS[(self.seed + self.counts["wrong clocks"]) % len(WRONG_BY_DAYS)]
        if whose == FAR:
            self.some_at_the_endpoint()
        self.pause()
        with self.clocks[whose].ahead(days * DAY_S):
            self.wait_committed("under a wrong clock")
            self.move_some(1)
            self.pause()
        self.counts["wrong clocks"] += 1
        self.counts[f"wrong clocks, {whose}, by {days} days"] += 1
        self.counts["wrong clocks after the last packet"] += not self.is_fed
        self.wait_committed("after the clock was set right")
        self.settle()

    def wait_committed(self, when: str) -> None:
        """All queries go on, as long as packets come; the view has none of its own. Two batches of each: one
        may have been under way.
        """
        before = {name: self.standing(name)[2] for name in self.at.status()["fragments"] if name != VIEW}

        def committed() -> bool:
            return not self.is_fed or all(self.standing(name)[2] > done + 1 for name, done in before.items())

        self.at.wait(committed, f"batches to be committed {when}")

    # What happens to the storage

    def fill_disk(self) -> None:
        """Full at a drawn moment of a move, and again when something frees a little."""
        asking = threading.Thread(target=self.moved_on_full_disk, args=(self.drawn_placement(),))
        asking.start()
        self.pause()
        with full(self.storage.parent / "ballast") as fill_again:

            def noticed() -> bool:
                fill_again()
                return "No space left" in str(self.troubles())

            self.at.wait(noticed, "the full disk to be noticed")
            asking.join()
            self.pause()
        self.counts["full disks"] += 1
        self.settle()

    def moved_on_full_disk(self, placement: dict[str, str]) -> None:
        came = "carried out" if self.moved(placement) else "refused or failed"
        self.counts[f"moves asked for as a disk fills, {came}"] += 1

    # How it is done

    def kill(self, pid: int, fragments: list[str], *, aimed: bool) -> None:
        self.pause()
        if aimed:
            self.aim(fragments)
        os.kill(pid, signal.SIGKILL)
        standing = [self.standing(fragment) for fragment in fragments]
        self.counts["kills"] += 1
        self.counts["kills aimed"] += aimed
        self.counts["kills inside a batch"] += any(begun > done for begun, _, done in standing)
        self.counts["unaimed kills inside a batch"] += not aimed and any(b > d for b, _, d in standing)
        self.counts["kills between the two commits"] += any(sunk > done for _, sunk, done in standing)

    def aim(self, fragments: list[str]) -> None:
        """Wait for the moment after a sink's commit and before the checkpoint's."""
        deadline = time.monotonic() + AIM_S
        while time.monotonic() < deadline:
            for fragment in fragments:
                _, sunk, done = self.standing(fragment)
                if sunk > done:
                    return

    def standing(self, fragment: str) -> tuple[int, int, int]:
        """The newest batch begun, in the sink's log, and committed."""
        owned = newest_owned(self.storage)
        assert owned is not None, "it runs, so it has an owner"
        checkpoint = current_epoch(owned.checkpoints / file_name(fragment))
        name = file_name(fragment)
        done = last_batch(checkpoint / "commits")
        log = self.project.sink_log(fragment)
        sunk = last_batch(log or self.storage / "channels" / name / name / "_spark_metadata")
        return last_batch(checkpoint / "offsets"), sunk, max(done, last_batch(checkpoint / "commits"))

    def pause(self) -> None:
        """So that moments are drawn too."""
        time.sleep(self.draw.uniform(0.0, 5.0))

    def troubles(self) -> dict[str, Any]:
        found: dict[str, Any] = self.at.status()["troubles"]
        return found

    def settle(self) -> None:
        """What rows arrive without, slow batches or a stream that rests, is nothing to wait for."""
        self.at.wait(
            lambda: all(map(is_aside, self.troubles())) and self.runs_everything(),
            "everything to run again",
        )
        self.merged |= {
            file.name for file in self.storage.glob("channels/*/*/merged-*") if read_name(file.name)
        }


@contextlib.contextmanager
def frozen(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def small_disk(folder: Path, size_mb: int = DISK_MB) -> Iterator[None]:
    """A disk of its own at `folder`, small enough to be filled; needs the right to mount one."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(mount)}: {done.stderr}; run without --full-disks, or as root")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def full(ballast: Path) -> Iterator[Callable[[], None]]:
    """A disk without room, for the length of the block; call what is given to take new room too."""
    with ballast.open("wb", buffering=0) as out:

        def fill() -> None:
            with contextlib.suppress(OSError):
                while out.write(bytes(4096)):
                    pass

        fill()
        try:
            yield fill
        finally:
            ballast.unlink()
