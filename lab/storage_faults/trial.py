"""One schedule carried out, and what must hold of it: every row once in each table, or a refusal that names
what is missing.

One thread: what happens in the middle of a step happens inside the operation of the disk that is under way.
So a schedule gives the same run each time, and its digest is that of all operations.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from lab.faults.checkers import Violation
from lab.storage_faults.pipeline import (
    IN_SINKS,
    ROOT,
    SIDES,
    dataset_of,
    downstream,
    runs_in,
    sink_folder,
)
from lab.storage_faults.process import JournalForgot, Machines, Run, StartedQuery, World
from lab.storage_faults.simulated_disk import Order, SimulatedDisk, SimulatedStorage, Stopped, VirtualClock
from lab.storage_faults.spark_model import FileSink, SparkFailure, SparkOptions, local, rows_of
from lab.storage_faults.steps import (
    AGE_S,
    QUERIES,
    READS,
    Batch,
    During,
    Fresh,
    Full,
    Join,
    Leftover,
    Look,
    Merge,
    Move,
    Offer,
    OldRun,
    Pass,
    PowerCut,
    Query,
    Refresh,
    Schedule,
    SetClock,
    Step,
    Trim,
)
from lab.storage_faults.steps import Run as RunStep
from mooring.checksum import checked
from mooring.disk import Tag
from mooring.errors import EngineError, MooringError, OvertakenError, described
from mooring.spark.storage import stream_logs
from mooring.spark.storage.ages import LATE
from mooring.spark.storage.fencing import newest_number
from mooring.spark.storage.owned_folder import newest_owned
from mooring.spark.storage.pipeline_record import (
    RECORD_FILE_NAME,
    PipelineRecord,
    Unfinished,
    read_record,
)
from mooring.spark.storage.sink_numbers import SINK_LOG

_CATCHES_UP = 300
"""Files in a batch once all is well again."""
_ROUNDS = 4
_ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "ESTALE": errno.ESTALE}
_PATH = re.compile(r"/(?:storage|sinks)[^\s:;,()'\"]*")


class Violated(BaseException):
    """Something that must hold does not; no code under test may swallow it."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant, self.what = invariant, what


@dataclass(frozen=True)
class Outcome:
    digest: str
    """Of all operations on the disk."""
    operations: int
    violation: Violation | None
    refused: bool
    """The storage was found damaged, and said to be so."""
    story: tuple[str, ...]


class _Storage(SimulatedStorage):
    """Remembers what became of the pipeline record: whether it was removed (None), or what it told to do."""

    def __init__(self, clock: VirtualClock, order: Order) -> None:
        super().__init__(clock, order)
        self.recorded: list[Unfinished | None] = []

    def rename(self, machine: str, *names: tuple[int, str, int | None]) -> None:
        super().rename(machine, *names)
        for _, name, number in names:
            if name == RECORD_FILE_NAME:
                todo = None
                if number is not None:
                    record = checked(self.node(number).data)
                    todo = msgspec.json.decode(record, type=PipelineRecord).unfinished
                self.recorded.append(todo)


class _Observer(SimulatedDisk):
    """Sees what is there; none of it is an operation of anybody."""

    def _about_to(self, name: str, path: Path) -> None:
        pass


@dataclass
class _Rows:
    """Of one query's table or sink, since it last began anew."""

    base: Counter[str]
    """In a sink when its writer began anew: these stay."""
    missing: set[str]
    """Rows that its input no longer had when it began: none of them comes."""
    seen: dict[str, float]
    """Rows that were in the table -> when they were first seen there, by a clock that only goes forward."""


@dataclass
class _GivenUp:
    """Before what is stored is given up: what it comes to then, and how it can be told that it was."""

    rows: dict[Query, _Rows]
    epochs: dict[Query, int]
    known: int
    """Of what the record has told."""
    cleared: bool
    """The record had gone before."""


class _Trial:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.setting = schedule, schedule.setting
        self.clock = VirtualClock()
        self.storage = _Storage(self.clock, self.setting.order)
        self.machines = Machines(self.clock)
        self.world = World(self.setting, self.clock, self.machines, make_disk=self._disk)
        self.observer = _Observer(self.storage, "observer", "nowhere")
        self.options = SparkOptions(
            durable=self.setting.durable,
            compact_interval=self.setting.compact_interval,
            files_written=self.setting.files_written,
        )
        self.joined = False
        self.run: Run | None = None
        self.old: Run | None = None
        self.queries: dict[Query, StartedQuery] = {}
        self.leftovers: list[StartedQuery] = []
        self.rows = {query: _Rows(Counter(), set(), {}) for query in QUERIES}
        self.story: list[str] = []
        self.refusal = ""
        self.damaged = self._beginning = False
        self._joined_at = set[Query]()
        self._set_aside = set[tuple[Path, Tag]]()
        self._ahead_s = 0.0
        self._disks: list[SimulatedDisk] = []
        self._hook: Callable[[SimulatedDisk], Callable[[str, Path], None]] | None = None
        self._cut: int | None = None
        self._cuts = self._runs = self._depth = 0
        self._contents: dict[str, list[str]] = {}
        self.observer.make_folder(ROOT.parent, exist_ok=True)

    def _disk(self, process: str, machine: str) -> SimulatedDisk:
        disk = SimulatedDisk(self.storage, process, machine, self.setting.behind_s)
        if self._hook is not None:
            disk.before = self._hook(disk)
        self._disks.append(disk)
        if self._cut is not None:
            disk.stop()
        return disk

    def say(self, what: str) -> None:
        self.story.append(f"{'  ' * self._depth}{self.clock.monotonic_s() - 1000:7.0f} s  {what}")

    # The schedule

    def live(self) -> None:
        self._begin()
        for step in self.schedule.steps:
            self._take(step)
        self._settle()
        self._check()

    def _take(self, step: Step) -> None:
        self.say(str(step))
        self._depth += 1
        match step:
            case Offer():
                first = len(self.world.offered)
                self.world.offered += [f"r{first + i}" for i in range(step.rows)]
            case Pass():
                self.clock.sleep(step.seconds)
            case SetClock():
                self.clock.step(step.ahead_s - self._ahead_s)
                self._ahead_s = step.ahead_s
            case PowerCut():
                self._cut = step.seed
            case Full():
                self.storage.full = True
                self._act(step.step)
                self.storage.full = False
            case During():
                self._hook = self._interruption(step)
                for disk in self._disks:
                    disk.before = self._hook(disk)
                self._act(step.step)
                self._hook = None
                for disk in self._disks:
                    disk.before = lambda name, path: None
            case _:
                self._act(step)
        self._depth -= 1
        if self._depth == 0:
            self._disks = [disk for disk in self._disks if not disk.stopped]
            if self._cut is not None:
                self._power_cut(self._cut)

    def _interruption(self, step: During) -> Callable[[SimulatedDisk], Callable[[str, Path], None]]:
        """Counts operations of whoever takes the step, and acts before the one that is meant."""
        left, depth = step.at, self._depth

        def hook(disk: SimulatedDisk) -> Callable[[str, Path], None]:
            def before(name: str, path: Path) -> None:
                nonlocal left
                if self._depth != depth or step.only not in ("", name):
                    return
                left -= 1
                if left == -1:
                    self._interrupt(disk, step, name, path)

            return before

        return hook

    def _interrupt(self, disk: SimulatedDisk, step: During, name: str, path: Path) -> None:
        self.say(f"{disk.process} is about to {name} {path}: {step.fault or 'held up'}")
        if step.fault == "stop":
            disk.stop()
        elif step.fault == "power cut":
            self._cut = step.seed
            for each in self._disks:
                each.stop()
            disk.stop()
        elif step.fault is not None:
            code = _ERRORS[step.fault]
            raise OSError(code, os.strerror(code), str(path))
        here = self.machines.here
        for other in step.meanwhile:
            if not self._is_under_way(other, disk):
                self._take(other)
        self.machines.here = here

    def _is_under_way(self, step: Step, held_up: SimulatedDisk) -> bool:
        """Whether the process that would take it is the one that is held up."""
        if isinstance(step, Offer | Pass):
            return False
        if isinstance(step, Batch):
            return (query := self.queries.get(step.query)) is not None and query.busy
        if isinstance(step, RunStep):
            return False
        return self.run is None or self.run.disk is held_up or self._beginning

    def _act(self, step: Step) -> None:
        """By some process; what it is refused is no more than noted here."""
        match step:
            case Batch():
                query = self.queries.get(step.query)
                if query is not None and query.alive and not query.busy:
                    self._batch(query)
            case Leftover():
                left = [each for each in self.leftovers if each.query == step.query and not each.busy]
                if left:
                    self._batch(left[-1])
            case Move():
                self._by_run(lambda run: self._move(run, step.query))
            case Trim():
                self._by_run(self._trim)
            case Merge():
                self._by_run(Run.merge)
            case Look():
                self._by_run(self._look)
            case Join():
                self.joined = True
                self._begin("ended")
            case RunStep():
                self._begin(step.after)
            case Refresh():
                if step.query in (queries := runs_in(self.setting, joined=self.joined)):
                    self._begin("ended", anew=downstream(step.query, queries))
            case Fresh():
                self._begin("ended", fresh=True)
            case OldRun():
                if (old := self.old) is not None:
                    does = {"trim": self._trim, "merge": Run.merge, "move": self._old_move}[step.does]
                    self._by(old, does)

    # Queries

    def _batch(self, query: StartedQuery) -> None:
        fenced = query.fenced
        with contextlib.suppress(Stopped):
            if query.step() and fenced:
                raise Violated("a fenced query commits nothing", query.name)
        if query.disk.stopped:
            query.alive = False
        self._look_at_rows(query.query)
        if not query.alive:
            self.leftovers = [each for each in self.leftovers if each is not query]
            self.say(f"{query.name} ends: {query.failure or 'stopped'}")

    def _move(self, run: Run, query: Query) -> None:
        if query in run.queries:
            run.note_placement(query)
            self._start(run, query)

    def _old_move(self, run: Run) -> None:
        self._move(run, run.queries[0])

    def _start(self, run: Run, query: Query, options: SparkOptions | None = None) -> None:
        if (before := self.queries.get(query)) is not None and run is self.run:
            del self.queries[query]
            if before.alive:
                self.leftovers.append(before)
        started = run.start(query, options or self.options)
        if run is self.run:
            self.queries[query] = started
            for left in self.leftovers:
                left.fenced = left.fenced or left.query == query
        else:
            self.leftovers.append(started)

    # Runs

    def _by_run(self, act: Callable[[Run], object]) -> None:
        if self.run is None:
            self._begin()
        if self.run is not None:
            self._by(self.run, act)

    def _by(self, run: Run, act: Callable[[Run], object]) -> bool:
        """Whether it was done."""
        here, self.machines.here = self.machines.here, run.disk.machine
        self.refusal = ""
        try:
            act(run)
        except Stopped:
            self.refusal = "stopped"
        except (MooringError, OSError, SparkFailure) as refused:
            self.refusal = f"{type(refused).__name__}: {refused}"
            if isinstance(refused, OvertakenError):
                run.disk.stop()
        except JournalForgot as forgot:
            raise Violated("what the journal took it has", str(forgot)) from forgot
        except Exception as failure:
            raise Violated("nothing ends with a traceback", described(failure)) from failure
        finally:
            self.machines.here = here
        if run.disk.stopped:
            self.run, self.old = (None if each is run else each for each in (self.run, self.old))
        if self.refusal:
            self.say(f"{run.disk.process}: {self.refusal}")
        return not self.refusal

    def _trim(self, run: Run) -> None:
        self._look_at_rows()
        run.trim()
        self._look_at_ages()

    def _look(self, run: Run) -> None:
        lost = run.readers.lost()
        for query in run.queries:
            started = self.queries.get(query)
            if (started is None or not started.alive) and not {query, READS[query]} & set(lost):
                self._start(run, query)

    def _begin(self, after: str = "killed", *, fresh: bool = False, anew: Collection[Query] = ()) -> None:
        """A new run, which starts every query."""
        fresh = fresh or self._is_half_cleared()
        if (fresh or anew) and self._damaged_sinks():
            fresh, anew = False, ()
            self.say("a sink is damaged: nothing is given up")
        if fresh or anew:
            after = "ended" if self._depth < 2 else after
        if (before := self.run) is not None:
            if after == "killed":
                before.disk.stop()
            elif after == "ended":
                self._by(before, lambda run: run.own.release())
                before.disk.stop()
            elif self.old is not None:
                self.old.disk.stop()
            self.run, self.old = None, before if after == "overtaken" else self.old
        self._runs += 1
        machine = "m0" if before is None else before.disk.machine
        if after == "overtaken":
            machine = {"m0": "m1", "m1": "m0"}[machine]
        queries = runs_in(self.setting, joined=self.joined)
        anew = queries if fresh else anew
        run = Run(self.world, self._disk(f"run {self._runs}", machine), queries)
        given_up: list[_GivenUp] = []

        def give_up() -> None:
            self._end_queries(run)
            given_up.append(self._given_up(anew))

        was_beginning, self._beginning = self._beginning, True
        standby = self.old is not None  # which may still hold it
        done = self._by(
            run,
            lambda run: run.begin(
                standby=standby, fresh=fresh, anew=() if fresh else anew, give_up=give_up if anew else None
            ),
        )
        self._beginning = was_beginning
        cut = self._cut is not None
        if self._cut is not None:
            self._power_cut(self._cut)
        self._look_at_rows_taken_back()
        if given_up and self._is_given_up(given_up[0], fresh=fresh, cut=cut):
            self.rows.update(given_up[0].rows)
        if self.joined and "e" not in self._joined_at and self._is_registered("e", "a"):
            self._joined_at.add("e")
            self.rows["e"].missing = self._gone("e")
        if not done or run.disk.stopped:
            run.disk.stop()
            return
        self.run = run
        for query in queries:
            if self.run is run and not run.disk.stopped:
                self._by(run, lambda run, query=query: self._start(run, query))  # type: ignore[misc]

    def _end_queries(self, run: Run) -> None:
        """As a run does before it gives up what is stored; it is refused where one cannot be reached."""
        for query in (*self.queries.values(), *self.leftovers):
            query.disk.stop()
        self.queries.clear()
        self.leftovers.clear()
        for other in (self.run, self.old):
            if other is not None and other is not run:
                other.disk.stop()
        self.run = self.old = None

    # What is there

    def _epoch(self, query: Query) -> int:
        owned = newest_owned(ROOT, self.observer)
        return 0 if owned is None else newest_number(owned.checkpoints / query, self.observer)

    def _given_up(self, queries: Collection[Query]) -> _GivenUp:
        """How it is before."""
        rows = {}
        for query in queries:
            base = self._in_sink(query) if query in IN_SINKS else Counter[str]()
            gone = set[str]() if READS[query] in queries else self._gone(query)
            rows[query] = _Rows(base, gone, {})
        epochs = {query: self._epoch(query) for query in queries}
        return _GivenUp(rows, epochs, len(self.storage.recorded), cleared=self._is_half_cleared())

    def _is_given_up(self, before: _GivenUp, *, fresh: bool, cut: bool) -> bool:
        """Whether what the run was asked to forget is forgotten, or will be by whoever comes next."""
        recorded, record = self.storage.recorded[before.known :], read_record(ROOT, self.observer)
        if fresh:
            decided = (before.cleared or None in recorded) and record is not None
        else:
            decided = any(todo is not None and set(todo.retire) & set(before.epochs) for todo in recorded)
        if decided and cut:
            under_way = record is not None and bool(record.unfinished)
            return under_way or any(self._epoch(query) > epoch for query, epoch in before.epochs.items())
        return decided

    def _is_half_cleared(self) -> bool:
        """Such a storage is refused unless it is cleared as a whole."""
        return bool(self.storage.recorded) and read_record(ROOT, self.observer) is None

    def _note(self, channel: str) -> dict[str, object] | None:
        owned = newest_owned(ROOT, self.observer)
        if owned is None or self.observer.look(owned.channel_note(channel)) is None:
            return None
        try:
            found: dict[str, object] = json.loads(
                checked(self.observer.read(owned.channel_note(channel)).data)
            )
        except ValueError:
            return None
        return found

    def _is_registered(self, reader: Query, channel: str) -> bool:
        note = self._note(channel)
        return note is not None and reader in note["readers"]  # type: ignore[operator]

    def _stored(self, query: Query) -> Counter[str]:
        """Rows that are in a table now."""
        folder = ROOT / "links" / query
        note = self._note(query)
        if note is None or self.observer.look(folder) is None:
            return Counter()
        doubtful: dict[str, list[list[str]]] = note["doubtful"]  # type: ignore[assignment]
        gone = {*note["trimming"], *(path for _, path in doubtful.get("_spark_metadata", ()))}  # type: ignore[misc]
        found = Counter[str]()
        for entry in FileSink(self.observer, folder, self.options).log.all_files():
            path = local(entry.path)
            if str(path) not in gone:
                found.update(self._content(path))
        return found

    def _content(self, path: Path) -> list[str]:
        if (known := self._contents.get(path.name)) is None:
            known = self._contents[path.name] = rows_of(self.observer.read(path).data, path)
        return known

    def _in_sink(self, query: Query) -> Counter[str]:
        if self.observer.look(sink_folder(query)) is None:
            return Counter()
        return Counter(FileSink(self.observer, sink_folder(query), self.options).delivered())

    def _damaged_sinks(self) -> bool:
        try:
            for query in IN_SINKS:
                self._in_sink(query)
        except (SparkFailure, OSError, KeyError):
            return True
        return False

    def _tables(self) -> list[Query]:
        return [query for query in runs_in(self.setting, joined=self.joined) if query not in IN_SINKS]

    def _keep(self, query: Query) -> str:
        return {"a": self.setting.keep_a, "b": self.setting.keep_b}.get(query, "all")

    def _look_at_rows(self, *queries: Query) -> None:
        """Before anything may be removed."""
        now_s = self.clock.monotonic_s()
        for query in queries or self._tables():
            if self._keep(query) != "all" and query not in IN_SINKS:
                with contextlib.suppress(SparkFailure, OSError, KeyError):
                    for row in self._stored(query):
                        self.rows[query].seen.setdefault(row, now_s)

    def _look_at_rows_taken_back(self) -> None:
        """Rows of logs that a run has set aside are computed again; meanwhile they are in no table."""
        there = set[tuple[Path, Tag]]()
        for query in self._tables():
            log = ROOT / "channels" / dataset_of(query) / query / SINK_LOG
            for file in (log / name for name in self.observer.list(log) if name.endswith(".damaged")):
                if (found := self.observer.look(file)) is not None:
                    there.add((file, found.tag))
                    if (file, found.tag) not in self._set_aside:
                        self._take_back(query, file)
        self._set_aside = there

    def _take_back(self, query: Query, set_aside: Path) -> None:
        with contextlib.suppress(SparkFailure, EngineError, OSError, KeyError):
            stored = set(self._stored(query))
            for line in stream_logs.read_lines(set_aside, self.observer):
                path = stream_logs.entry_of(line, set_aside.parent, self.observer).path
                if self.observer.look(path) is not None:  # else it was trimmed
                    for row in set(self._content(path)) - stored:
                        self.rows[query].seen.pop(row, None)

    def _gone(self, query: Query) -> set[str]:
        """Rows that were in what a query reads, and are no longer."""
        writer = READS[query]
        if writer is None or self._keep(writer) == "all":
            return set()
        try:
            stored = self._stored(writer)
        except (SparkFailure, OSError, KeyError):
            return set(self.rows[writer].seen)
        self._look_at_rows()
        return set(self.rows[writer].seen) - set(stored)

    def _look_at_ages(self) -> None:
        now_s = self.clock.monotonic_s()
        for query in self._tables():
            if self._keep(query) != "age":
                continue
            seen, stored = self.rows[query].seen, self._stored(query)
            young = [r for r, at_s in seen.items() if r not in stored and now_s - at_s < AGE_S * (1 - LATE)]
            if young:
                raise Violated(
                    "nothing goes before its age",
                    f"{young[0]} of {query} after {now_s - seen[young[0]]:.0f} s",
                )

    # The power fails

    def _power_cut(self, seed: int) -> None:
        self._cut = None
        self._cuts += 1
        self.say("the power fails")
        for disk in self._disks:
            disk.stop()
        self._disks.clear()
        self.run = self.old = None
        self.queries.clear()
        self.leftovers.clear()
        trimmed = self._trimmed()
        self.storage.power_cut(seed)
        self.machines.boots += 1
        self._contents.clear()
        for query, gone in trimmed.items():
            stored = set[str]()
            with contextlib.suppress(SparkFailure, OSError, KeyError):
                stored = set(self._stored(query))
            seen = self.rows[query].seen
            self.rows[query].seen = {row: at_s for row, at_s in seen.items() if row in gone or row in stored}
        if not self.setting.durable:
            self._check_trimmed(trimmed)

    def _trimmed(self) -> dict[Query, set[str]]:
        """Rows that are no longer in the tables that can be read."""
        found = {}
        for query in self._tables():
            with contextlib.suppress(SparkFailure, OSError, KeyError):
                found[query] = set(self.rows[query].seen) - set(self._stored(query))
        return found

    def _check_trimmed(self, trimmed: dict[Query, set[str]]) -> None:
        """What is no longer in a table is on disk wherever it was read."""
        for query in runs_in(self.setting, joined="e" in self._joined_at):
            if (writer := READS[query]) is None or not (gone := trimmed.get(writer, set())):
                continue
            folder = (
                sink_folder(query) if query in IN_SINKS else ROOT / "channels" / dataset_of(query) / query
            )
            there = set(trimmed.get(query, ()))
            for name in self.observer.list(folder):
                if name.endswith(".parquet"):
                    with contextlib.suppress(SparkFailure):
                        there.update(rows_of(self.observer.read(folder / name).data, folder / name))
            needed = (row + side for row in gone - self.rows[query].missing for side in SIDES[query])
            if lost := sorted(set(needed) - there):
                raise Violated(
                    "what is removed is on disk elsewhere",
                    f"{dataset_of(query)} has lost {lost[:3]} of {writer}",
                )

    # The end

    def _settle(self) -> None:
        """Everything is as it should be, and all that is there is read."""
        self.say("all is well again")
        self.storage.lagging = False
        self.clock.step(-self._ahead_s)
        catching_up = SparkOptions(
            self.options.durable,
            self.options.compact_interval,
            files_per_batch=_CATCHES_UP,
            files_written=self.options.files_written,
        )
        if self.run is not None:
            self._by(self.run, lambda run: run.own.check())
        if self.run is None or self._is_half_cleared():
            self._begin()
        if self.run is None:
            self._refused(self.refusal)
            return
        run = self.run
        for _ in range(_ROUNDS):
            moved = False
            for query in run.queries:
                started = self.queries.get(query)
                if started is None or not started.alive or started.batches.options is not catching_up:
                    if not self._by(run, lambda run, query=query: self._start(run, query, catching_up)):  # type: ignore[misc]
                        self._refused(self.refusal)
                        return
                    started = self.queries[query]
                while started.step():
                    moved = True
                if not started.alive:
                    self._refused(started.failure)
                    return
            if not self._by(run, self._trim):
                self._refused(self.refusal)
                return
            if not moved:
                break
        else:
            raise Violated("all is read in the end", "batches go on and on")

    def _refused(self, why: str) -> None:
        """Nothing was read: this must be for a reason, and say which."""
        if self.setting.durable or not self._cuts:
            raise Violated("no refusal without cause", why)
        named = [Path(found) for found in _PATH.findall(why)]
        if not any(self._is_damaged(path) for path in named):
            raise Violated("a refusal names what is missing", why)
        self._check_trimmed(self._trimmed())
        self.refusal = why
        self.damaged = True

    def _is_damaged(self, path: Path) -> bool:
        found = self.observer.look(path)
        if found is None or found.kind != "file":
            return found is None
        content = self.observer.read(path).data
        if path.suffix == ".parquet":
            with contextlib.suppress(SparkFailure):
                rows_of(content, path)
                return False
            return True
        return not content.startswith(b"v1\n") or b"\0" in content or not content.endswith((b"}", b"-"))

    def _expected(self, query: Query) -> list[str]:
        writer, rows = READS[query], self.rows[query]
        if writer is None:
            return list(self.world.offered)
        came = [row for row in self._expected(writer) if row not in rows.missing]
        return [*rows.base.elements(), *(row + side for side in SIDES[query] for row in came)]

    def _check(self) -> None:
        if self.damaged:
            return
        run = self.run
        assert run is not None
        for query in run.queries:
            expected, missing = Counter(self._expected(query)), set[str]()
            try:
                found = self._in_sink(query) if query in IN_SINKS else self._stored(query)
            except (SparkFailure, OSError, KeyError) as failure:
                if query not in IN_SINKS:  # whose logs are for their readers to look at
                    raise Violated("every row once", f"{dataset_of(query)}: {failure}") from failure
                self._refused(str(failure))
                return
            if self._keep(query) != "all":
                missing = set(self.rows[query].seen)
            lost = [row for row in expected if found[row] < expected[row] and row not in missing]
            more = [row for row in found if found[row] > expected[row]]
            if lost or more:
                what = f"{len(lost)} rows are lost ({lost[:3]})" if lost else ""
                what += f"{len(more)} rows are there too often ({more[:3]})" if more else ""
                raise Violated("every row once", f"{dataset_of(query)}: {what} of {len(expected)}")
        if lost_channels := run.readers.lost():
            raise Violated("nothing is called lost that is there", str(lost_channels))
        for query in run.queries:
            if not self._by(run, partial(_nothing_waits, query=query)):
                raise Violated("what was read is not said to wait", f"{query}: {self.refusal}")


def _nothing_waits(run: Run, query: Query) -> None:
    if left := run.readers.unread(query):
        raise EngineError(left)


def carried_out(
    schedule: Schedule, bug: Callable[[], contextlib.AbstractContextManager[None]] | None = None
) -> Outcome:
    """The same for the same schedule, each time."""
    trial = _Trial(schedule)
    violation = None
    with trial.machines.asked(), (bug or contextlib.nullcontext)():
        try:
            trial.live()
        except Violated as violated:
            violation = Violation(violated.invariant, 1000.0 * trial.clock.monotonic_s(), violated.what)
            trial.say(str(violated))
    storage = trial.storage
    return Outcome(storage.digest, storage.operations, violation, trial.damaged, tuple(trial.story))
