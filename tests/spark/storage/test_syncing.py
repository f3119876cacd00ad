"""Where nothing syncs what Spark writes, a power cut costs no row: what was made of trimmed files is on disk,
and queries go back to what whole logs prove (no Spark needed).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from lab.storage_faults.simulated_disk import SimulatedDisk, SimulatedStorage, VirtualClock
from lab.storage_faults.spark_model import (
    ChannelSource,
    FileSink,
    MicroBatches,
    OutsideSource,
    Source,
    SparkFailure,
    SparkOptions,
)
from mooring.errors import EngineError
from mooring.spark.runs.falling_back import FallingBack
from mooring.spark.storage.fencing import current_epoch, take_epoch
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.pipeline_record import FlowRecord, PipelineRecord
from mooring.spark.storage.retention import READ
from mooring.spark.storage.syncing import Syncing

OPTIONS = SparkOptions(durable=False, compact_interval=5, retained_batches=6, cleanup_delay_s=600)
ROOT, SINK = Path("/root"), Path("/out")
RECORD = PipelineRecord(
    {"in": ("in",), "out": ("out",)},
    {"in": FlowRecord("t", "table", "", False), "out": FlowRecord("s", "sink", "", False)},
    {"out": ("in",)},
)


class Two:
    """A query that writes a channel, and one that copies it into a sink of files. No site syncs."""

    def __init__(self, seed: int) -> None:
        self.draws = np.random.default_rng(seed)
        self.storage = SimulatedStorage(VirtualClock())
        self.disk = SimulatedDisk(self.storage)
        self.disk.make_folder(ROOT)
        self.disk.make_folder(SINK)
        self.disk.sync([Path("/")])
        self.offered = list[str]()
        self.owned = unowned(ROOT, self.disk)
        self.disk.sync([ROOT, self.owned.folder.parent, self.owned.folder])
        self.went_back = 0
        self.begin()
        self.channel.create()
        self.channel.register("out")

    def checkpoint(self, fragment: str) -> Path:
        return current_epoch(self.owned.checkpoints / fragment, self.disk)

    def begin(self) -> None:
        """A run starts, and with it both queries."""
        folder, link = ROOT / "channels" / "t" / "in", ROOT / "links" / "in"
        self.channel = FileChannel("in", folder, link, self.checkpoint, self.owned, READ)
        logs = {"in": self.channel.sink_log, "out": SINK / "_spark_metadata"}
        self.syncing = syncing = Syncing(self.disk, self.checkpoint, logs.get, lambda fragment: False)
        self.channel.is_on_disk = lambda: syncing.is_done(["in", "out"])
        self.falling = FallingBack(ROOT, RECORD, self.owned, logs.get)
        self.queries: dict[str, MicroBatches] = {}

    def fence(self, fragment: str) -> Path:
        def begin(checkpoint: Path) -> None:
            if self.disk.look(checkpoint / "metadata") is None:
                self.disk.replace(checkpoint / "metadata", json.dumps({"id": str(uuid.UUID(int=7))}).encode())

        return take_epoch(self.owned.checkpoints / fragment, self.disk, begin)

    def query(self, fragment: str) -> MicroBatches:
        if fragment not in self.queries:
            checkpoint, sources = self.fence(fragment), list[Source]()
            if fragment == "in":
                sources.append(OutsideSource(self.offered, 3))
            else:
                log = checkpoint / "sources" / "0"
                sources.append(ChannelSource(self.disk, self.channel.link, log, OPTIONS))
            sink = FileSink(self.disk, self.channel.link if fragment == "in" else SINK, OPTIONS)
            self.queries[fragment] = MicroBatches(self.disk, checkpoint, sources, sink, OPTIONS)
        return self.queries[fragment]

    def work(self, turns: int) -> None:
        for turn in range(turns):
            self.storage.clock.sleep(2)
            self.offered += [f"r{len(self.offered)}", f"r{len(self.offered) + 1}"]
            for fragment in ("in", "out"):
                if self.draws.random() < 0.8:
                    self.query(fragment).step()
            if turn % 3 == 2:  # a look of the run
                self.syncing.is_done(["in", "out"])
                self.channel.trim()

    def cut(self, *, torn: bool) -> None:
        """With `torn`, each file may be there as a whole, in part or not at all, whichever was written first.
        Otherwise all that was not synced is empty, as file systems leave it.
        """
        seed = int(self.draws.integers(2**32))
        while not torn and np.random.default_rng(seed).random() >= 0.5:  # what the simulated disk draws first
            seed += 1
        self.storage.power_cut(seed)
        self.disk = SimulatedDisk(self.storage)
        self.owned = unowned(ROOT, self.disk)
        self.begin()
        self.went_back += len(self.falling.fall_back())

    def finish(self) -> list[str]:
        for fragment in ("in", "out"):
            while self.query(fragment).step():
                pass
        return FileSink(self.disk, SINK, OPTIONS).delivered()


def cuts(seed: int, *, torn: bool = False) -> Two:
    two = Two(seed)
    for _ in range(3):
        two.work(int(two.draws.integers(1, 16)))
        two.cut(torn=torn)
    assert sorted(two.finish()) == sorted(two.offered), "every row once"
    return two


def test_a_power_cut_that_empties_all_that_was_not_synced_costs_no_row_and_no_refusal() -> None:
    assert sum(cuts(seed).went_back for seed in range(25)) > 50


def test_whatever_is_torn_every_row_is_there_once_or_a_file_is_named() -> None:
    refused = list[EngineError]()
    for seed in range(25):
        try:
            cuts(seed, torn=True)
        except EngineError as refusal:
            refused.append(refusal)
    assert len(refused) < 10
    assert all(refusal.message.startswith(("/root/", "/out/")) for refusal in refused)


def test_without_syncing_before_trimming_runs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Syncing, "is_done", lambda self, fragments: True)
    broken = 0
    for seed in range(15):
        try:
            cuts(seed)
        except (AssertionError, EngineError, SparkFailure):
            broken += 1
    assert broken > 3


def test_nobody_goes_back_behind_what_was_trimmed() -> None:
    two = Two(seed=3)
    two.work(12)
    reached = two.channel.least_batch("in"), two.channel.least_batch("out")
    assert min(reached) > 3
    for fragment, batch in zip(("in", "out"), reached, strict=True):
        checkpoint = two.checkpoint(fragment)
        for number in map(int, two.disk.list(checkpoint / "offsets")):
            if number >= batch:
                two.storage.damage(checkpoint / "offsets" / str(number), b"")
        with pytest.raises(
            EngineError, match=rf"no intact log proves .* from batch {batch + 1} on"
        ) as refused:
            two.falling.find(fragment)
        assert "--full-refresh" in str(refused.value.remedy)


def test_a_sink_on_a_disk_that_lost_its_newest_names_gets_their_rows_again() -> None:
    two = Two(seed=3)
    two.work(12)
    for _ in range(2):  # whose input was not trimmed yet
        two.offered.append(f"r{len(two.offered)}")
        assert two.query("in").step()
        assert two.query("out").step()
    log = SINK / "_spark_metadata"
    for name in sorted((name for name in two.disk.list(log) if name.isdigit()), key=int)[-2:]:
        two.disk.delete(log / name)
    two.begin()
    (said,) = two.falling.fall_back()
    assert "damaged or missing; whole logs prove batch" in said
    assert sorted(two.finish()) == sorted(two.offered)


def test_what_begins_anew_is_not_refused_for_what_is_damaged_of_it() -> None:
    two = Two(seed=3)
    two.work(12)
    log = SINK / "_spark_metadata"
    for name in two.disk.list(log):
        two.storage.damage(log / name, b"")
    with pytest.raises(EngineError, match="no intact log proves") as refused:
        two.falling.fall_back()
    assert f"empty {SINK} and recompute" in str(refused.value.remedy)
    assert two.falling.fall_back(but=["out"]) == []


def test_what_a_site_syncs_itself_is_synced_once_after_each_start_and_the_rest_when_it_changes() -> None:
    two, synced = Two(seed=3), list[Path]()
    syncing = Syncing(two.disk, two.checkpoint, lambda fragment: None, lambda fragment: fragment == "in")
    two.work(4)
    before = two.disk.sync

    def sync(paths: Iterable[Path]) -> None:
        synced.extend(paths := list(paths))
        before(paths)

    two.disk.sync = sync  # type: ignore[method-assign]

    def counted() -> dict[str, int]:
        synced.clear()
        assert syncing.is_done(["in", "out"])
        return {
            name: sum(path.is_relative_to(two.owned.checkpoints / name) for path in synced)
            for name in ("in", "out")
        }

    assert min(counted().values()) > 8
    assert counted() == {"in": 0, "out": 0}
    two.offered.append("one more")
    assert two.query("in").step()
    assert two.query("out").step()
    changed = counted()
    assert changed["in"] == 0
    assert 0 < changed["out"] < 9
    two.queries.clear()
    two.query("in")
    assert counted()["in"] > 8, "a new start"
