"""Processes over the simulated disk: runs, which own the storage, and the queries that they start.

A run is shipped code from the claim on the storage to the fence before each query: ownership, journal,
record and edits, layout, channels, trimming, merging. Modelled are Spark's queries (`spark_model.py`), and
replaced is what asks the machine for time, names by chance, and the rows of merged files.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from lab.storage_faults.pipeline import (
    IN_SINKS,
    ROOT,
    SIDES,
    layout_of,
    project_of,
    sink_folder,
)
from lab.storage_faults.simulated_disk import SimulatedDisk, VirtualClock
from lab.storage_faults.spark_model import (
    ChannelSource,
    FileSink,
    MicroBatches,
    OutsideSource,
    Source,
    SparkOptions,
    as_parquet,
    rows_of,
)
from lab.storage_faults.steps import READS, Query, Setting
from mooring.controller.journal import Journal
from mooring.disk import Disk
from mooring.errors import EngineError
from mooring.model.placement.placement import FragmentSites
from mooring.spark.engine import compaction_loop, fragment_query, sink_beginning
from mooring.spark.engine.channel_readers import ChannelReaders
from mooring.spark.engine.fragment_query import PreparedFragment
from mooring.spark.ownership import owner
from mooring.spark.ownership.lease import Claim
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.project_edits import AcceptedEdits, project_edits
from mooring.spark.runs.apply_edits import finish, settle, write_anew
from mooring.spark.runs.falling_back import falling_back
from mooring.spark.runs.project_run import forget_everything
from mooring.spark.storage import ages, compaction, file_channel
from mooring.spark.storage.checkpoints.later_beginning import LaterBeginning
from mooring.spark.storage.compaction import MergeOptions
from mooring.spark.storage.storage_root import format_of, stamp_format

LEASE_S = 2.0
_PATIENCE_S = 10.0
"""Within which somebody ends a standby, which waits for ever for room on a disk."""
ROWS_PER_BATCH = 4
_MERGE = MergeOptions(fan=2, spared=1, after_s=0.0, span=1.0, grace_s=30.0)
_COMPACT_AT_BYTES = 3000


class Machines:
    """What the machines of a schedule tell their processes: the time, and names that nobody else has."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.here = "m0"
        """Where the process runs whose turn it is."""
        self.boots = 0
        self._names = itertools.count(1)

    def boot(self) -> str:
        return f"{self.here} since {self.boots}"

    def _passed(self) -> tuple[str, float]:
        return self.boot(), self.clock.monotonic_s()

    def _name(self, size: int = 8) -> str:
        # Scattered, so that names made one after the other do not sort so.
        return f"{next(self._names) * 0x9E3779B97F4A7C15 % (1 << (8 * size)):0{2 * size}x}"

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """Everything in the product that asks a machine is answered from here."""
        time = SimpleNamespace(time=self.clock.now_s, monotonic=self.clock.monotonic_s)
        answers: list[tuple[Any, str, object]] = [
            (secrets, "token_hex", self._name),
            (file_channel, "token_hex", self._name),
            (ages, "passed", self._passed),
            (owner, "_boot_id", self.boot),
            (sink_beginning, "told_about", _told_about),
            (compaction_loop, "write_merged", _write_merged),
            (compaction_loop._Job, "start", compaction_loop._Job.run),
            *((module, "time", time) for module in (ages, compaction, file_channel)),
        ]
        before = [getattr(where, name) for where, name, _ in answers]
        for where, name, answer in answers:
            setattr(where, name, answer)
        try:
            yield
        finally:
            for (where, name, _), was in zip(answers, before, strict=True):
                setattr(where, name, was)


def _told_about(frame: Any, session: object, batch: int, *rest: object, stateful: bool) -> LaterBeginning:
    return LaterBeginning(batch, frame.sources, {})


def _write_merged(inputs: Sequence[Path], target: Path, disk: Disk) -> int:
    """As the shipped one writes it, which reads and writes by path what a simulated disk does not have."""
    rows = [row for path in inputs for row in rows_of(disk.read(path).data, path)]
    cast(SimulatedDisk, disk).write_file(target, as_parquet(rows), durable=False)
    disk.sync([target])
    return len(inputs)


class _Prepared(PreparedFragment):
    def discard(self) -> None:
        """There is no session."""


@dataclass
class StartedQuery:
    query: Query
    disk: SimulatedDisk
    batches: MicroBatches
    alive: bool = True
    failure: str = ""
    fenced: bool = False
    """A later one was started."""
    busy: bool = False
    """Something happens in the middle of its batch."""

    @property
    def name(self) -> str:
        return self.disk.process

    def step(self) -> bool:
        """A micro-batch; whether there was one. What fails in Spark ends the query."""
        self.busy = True
        try:
            return self.batches.step()
        except Exception as failure:
            self.alive, self.failure = False, f"{type(failure).__name__}: {failure}"
            return False
        finally:
            self.busy = False


@dataclass
class _Frame:
    """Stands for the query's plan."""

    run: Run
    query: Query
    options: SparkOptions

    @property
    def sources(self) -> int:
        return len(SIDES[self.query])

    def launch(self, checkpoint: Path) -> StartedQuery:
        run, query, layout = self.run, self.query, self.run.layout
        disk = run.world.query_disk(query)
        read: list[Source] = []
        if (writer := READS[query]) is None:
            read.append(OutsideSource(run.world.offered, ROWS_PER_BATCH * self.options.files_per_batch // 3))
        else:
            link = layout.channels[writer].link
            read += [
                ChannelSource(disk, link, checkpoint / "sources" / str(number), self.options, side)
                for number, side in enumerate(SIDES[query])
            ]
        folder = sink_folder(query) if query in IN_SINKS else layout.channels[query].link
        sink = FileSink(disk, folder, self.options)
        return StartedQuery(query, disk, MicroBatches(disk, checkpoint, read, sink, self.options))


@dataclass
class World:
    """What processes share beside the disk."""

    setting: Setting
    clock: VirtualClock
    machines: Machines
    offered: list[str] = field(default_factory=list)
    make_disk: Any = None
    placements: list[dict[str, str]] = field(default_factory=lambda: [{}])
    """That the journal may say: the last one that was written for certain, and any begun since."""
    generation: int = 0
    """Of the newest owner."""
    _started: int = 0

    def query_disk(self, query: Query) -> SimulatedDisk:
        self._started += 1
        return cast(SimulatedDisk, self.make_disk(f"{query} {self._started}", f"s{self._started % 2}"))


class JournalForgot(Exception):
    """It does not say what was written there."""


class Run:
    """One process that owns the storage, until it is overtaken."""

    def __init__(self, world: World, disk: SimulatedDisk, queries: Collection[Query]) -> None:
        self.world, self.disk, self.queries = world, disk, tuple(queries)
        self.layout: Layout = cast(Layout, None)
        self.sites: dict[str, str] = {}
        self.moves = 0

    def begin(
        self,
        *,
        standby: bool,
        fresh: bool = False,
        anew: Collection[Query] = (),
        give_up: Callable[[], None] | None = None,
    ) -> None:
        """Own the storage and bring it to what the pipeline is, as shipped runs do before they start.

        `give_up` is called before anything stored is forgotten, to end all queries there are.
        """
        world, disk, project = self.world, self.disk, project_of(self.world.setting)
        root = replace(project.storage_root, disk=disk)
        format_of(ROOT, disk)
        if not standby:
            root.begin()
        until_s = world.clock.monotonic_s() + _PATIENCE_S
        own = Claim(
            ROOT,
            project.folder,
            world.clock,
            LEASE_S,
            standby=standby,
            given_up=lambda: world.clock.monotonic_s() > until_s,
            disk=disk,
        ).settle()
        if own is None:
            raise EngineError(f"nobody could take the storage within {_PATIENCE_S:g} s")
        self.own, world.generation = own, own.generation
        stamp_format(ROOT, partial(own.owned.replace, on_disk=True), disk)
        self._read_journal()
        if give_up is not None:
            give_up()
        if fresh:
            forget_everything(project, own.owned)
        root.create()
        layout = layout_of(project, self.queries, own.owned, disk)
        late = tuple(query for query in self.queries if query == "e")
        layout = finish(layout, layout.before)
        falling_back(project, layout.before, own.owned).fall_back()
        edits = project_edits(layout, AcceptedEdits(join_late=late))
        self.layout = layout = edits.layout
        settle(edits, lambda change: None)
        if anew:
            write_anew(layout, anew)
        layout.create()
        for channel in layout.channels.values():
            channel.merges.options = _MERGE
        self.readers = ChannelReaders(layout)
        self.syncing = self.readers.sync_before_deleting(lambda fragment: world.setting.durable)
        self.merging = compaction_loop.Merging(layout.channels, disk)
        lost = {**self.readers.lost(), **layout.lost_checkpoints()}
        if lost:
            raise EngineError("; ".join(f"{name}: {why}" for name, why in lost.items()))

    def _read_journal(self) -> None:
        self.journal = Journal(
            self.own.owned.folder,
            self.world.clock.now_s,
            compact_at_bytes=_COMPACT_AT_BYTES,
            disk=self.disk,
        )
        said = dict(self.journal.placement() or {})
        if said not in self.world.placements and self.own.generation == self.world.generation:
            raise JournalForgot(f"it says {said}, not {self.world.placements[0]}")
        self.sites = said

    def start(self, query: Query, options: SparkOptions) -> StartedQuery:
        """Fence off what ran before, and start it anew."""
        self.own.beat()
        layout, frame = self.layout, _Frame(self, query, options)
        fragment = layout.fragments[query]
        fragment_query.check_checkpoint(layout, fragment, accept_edits=False)
        nothing, plan = cast(Any, None), cast(Any, frame)
        beginning = sink_beginning.later_beginning(layout, fragment, plan, nothing)
        prepared = _Prepared(
            layout, fragment, "s", nothing, query, plan, nothing, accept_edits=False, beginning=beginning
        )
        prepared.fence()
        assert prepared._checkpoint is not None
        return frame.launch(prepared._checkpoint)

    def note_placement(self, query: Query) -> None:
        """In the journal, as a move does."""
        self.moves += 1
        self.sites[query] = f"{self.disk.process}: {self.moves}"
        self.world.placements.append(dict(self.sites))
        self.journal.note_placement(FragmentSites(self.sites), "moved")
        if self.own.generation == self.world.generation:
            self.world.placements[:] = [dict(self.sites)]

    def trim(self) -> None:
        self.own.beat()
        self.syncing.is_done(self.readers.queries(self.layout.fragments))
        self.readers.trim()

    def merge(self) -> None:
        self.own.beat()
        self.merging.step()
        self.merging.step()
