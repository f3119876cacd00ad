"""What outlives a run's process: the storage, the sites with their queries, the sinks, and time.

Checkpoints are real folders, fenced by the shipped code. A query is a small model of Spark's micro-batches:
it writes what a batch reads (`offsets`), puts the rows into the sink, which skips numbers it has, and writes
that the batch is done (`commits`). Between any two of these steps something else may happen.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mooring.spark.storage.stream_logs import last_batch

Condition = Literal["up", "silent", "late", "frozen", "dead"]
"""Of a site:

| condition | calls                                  | its queries       |
| --------- | -------------------------------------- | ----------------- |
| up        | answered                               | go on             |
| silent    | never arrive                           | go on             |
| late      | are carried out, answered too late     | go on             |
| frozen    | never arrive                           | stand still       |
| dead      | never arrive                           | are gone          |
"""
ROWS_PER_S = 10.0
STEPS_PER_TICK = 2
"""Of every query: one fewer than a batch has, so that what happens finds it at each of them in turn."""


class Violated(BaseException):
    """Something that must hold does not; no code under test may swallow it."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant, self.what = invariant, what


@dataclass
class Sink:
    rows: int = 0
    batch: int = -1
    """The newest that its log has."""


@dataclass
class Query:
    """One streaming query at a site. `checkpoint` is the folder it was started with."""

    fragment: str
    site: str
    session: str
    checkpoint: Path
    world: World
    alive: bool = True
    failure: str = ""
    batches: int = 0
    _stage: Literal["idle", "planned", "added"] = "idle"
    _number: int = -1
    _begin: int = 0
    _end: int = 0

    def __post_init__(self) -> None:
        self._folder = str(self.checkpoint)
        planned, done = last_batch(self.checkpoint / "offsets"), last_batch(self.checkpoint / "commits")
        self._number = planned
        if planned >= 0:
            self._begin, self._end = map(
                int, (self.checkpoint / "offsets" / str(planned)).read_text().split()
            )
            self._stage = "idle" if done == planned else "planned"

    @property
    def can_commit(self) -> bool:
        return self.alive and os.path.isdir(self._folder)

    def step(self) -> bool:
        """One of a batch's steps; False if there is nothing to do."""
        try:
            match self._stage:
                case "idle":
                    if (there := self.world.available_to(self.fragment)) <= self._end:
                        return False
                    self._write("offsets", self._number + 1, f"{self._end} {there}")
                    self._number, self._begin, self._end = self._number + 1, self._end, there
                    self._stage = "planned"
                case "planned":
                    self.world.add_rows(self, self._number, self._begin, self._end)
                    self._stage = "added"
                case "added":
                    self._write("commits", self._number, "done")
                    self.batches += 1
                    self._stage = "idle"
        except OSError as failure:
            self.alive, self.failure = False, f"its checkpoint is gone: {failure}"
        return True

    def _write(self, log: str, number: int, content: str) -> None:
        """As Spark does: by the path, below a folder that is not made again, and over nothing."""
        if not os.path.isdir(f"{self._folder}/{log}"):
            os.mkdir(f"{self._folder}/{log}")
        file = os.open(f"{self._folder}/{log}/{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        try:
            os.write(file, content.encode())
        finally:
            os.close(file)


@dataclass
class World:
    root: Path
    sites: tuple[str, ...]
    reads: dict[str, str | None]
    """Fragment -> the fragment whose rows it reads; None: the stream."""
    now_s: float = 0.0
    condition: dict[str, Condition] = field(default_factory=dict)
    queries: list[Query] = field(default_factory=list)
    sinks: dict[str, Sink] = field(default_factory=dict)
    late: list[tuple[str, Callable[[], object]]] = field(default_factory=list)
    """Site -> what is done with answers that come too late."""
    beating: list[Callable[[], object]] = field(default_factory=list)
    """The lease threads of processes that are neither dead nor frozen."""
    trace: list[str] = field(default_factory=list)
    newest: int = 0
    """Generation of the newest owner."""
    _beat_s: float = 0.0
    _sessions: int = 0

    def __post_init__(self) -> None:
        self.condition = dict.fromkeys(self.sites, "up")
        self.sinks = {name: Sink() for name in self.reads}

    # Rows

    def available_to(self, fragment: str) -> int:
        source = self.reads[fragment]
        return int(self.now_s * ROWS_PER_S) if source is None else self.sinks[source].rows

    def add_rows(self, query: Query, number: int, begin: int, end: int) -> None:
        sink = self.sinks[query.fragment]
        if number <= sink.batch:
            return
        if begin != sink.rows:
            lost = "lost" if begin > sink.rows else "doubled"
            raise Violated(
                "rows exactly once",
                f"{query.fragment} at {query.site} adds rows {begin} to {end} after {sink.rows}: "
                f"{abs(begin - sink.rows)} are {lost}",
            )
        sink.rows, sink.batch = end, number

    # Time

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        for query in list(self.queries):
            if query.alive and self.condition[query.site] != "frozen":
                for _ in range(STEPS_PER_TICK):
                    query.step()
        if self.now_s - self._beat_s >= 1.0:
            self._beat_s = self.now_s
            for beat in list(self.beating):
                beat()

    # Sites

    def change(self, site: str, condition: Condition) -> None:
        self.condition[site] = condition
        self.say(f"the site {site} is {condition}")
        if condition == "dead":
            for query in self.queries:
                if query.site == site:
                    query.alive, query.failure = False, "its site ended"
        if condition == "up":
            due = [do for at, do in self.late if at == site]
            self.late = [(at, do) for at, do in self.late if at != site]
            for do in due:
                do()

    def session_name(self, fragment: str, site: str, process: int) -> str:
        """Of every session another."""
        self._sessions += 1
        return f"{fragment} at {site} of process {process} ({self._sessions})"

    def say(self, what: str) -> None:
        self.trace.append(f"{self.now_s:7.1f} s  {what}")

    # What must hold at any time

    def look(self) -> None:
        for fragment in self.reads:
            if len(able := self.committing(fragment)) > 1:
                raise Violated(
                    "one query commits", f"{fragment}: " + ", ".join(query.session for query in able)
                )

    def alive(self, fragment: str) -> list[Query]:
        return [query for query in self.queries if query.fragment == fragment and query.alive]

    def committing(self, fragment: str) -> list[Query]:
        return [query for query in self.queries if query.fragment == fragment and query.can_commit]
