"""A schedule is data: what a pipeline, its sites, its machines and its disk do, one step after the other.

Schedules are drawn swarm-wise: each draws first which kinds of step it has at all, because one with
everything at once hides what a single kind does for long. Whatever is drawn for a step is in it, so that a
schedule of which steps were left out does the rest of them as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from lab.storage_faults.simulated_disk import Order

Query = Literal["a", "b", "c", "d", "e"]
"""`a` takes rows in from outside and writes a table, `b` copies that into another one, `c` reads the first
table twice, `d` the second one, and `e` the first one, from when it is added.
"""
QUERIES: tuple[Query, ...] = ("a", "b", "c", "d", "e")
READS: dict[Query, Query | None] = {"a": None, "b": "a", "c": "a", "d": "b", "e": "a"}
After = Literal["killed", "ended", "overtaken"]
Does = Literal["trim", "merge", "move"]
Fault = Literal["stop", "power cut", "ENOSPC", "EIO", "ESTALE"]


class Offer(msgspec.Struct, frozen=True, tag=True):
    """Rows are there to be read."""

    rows: int

    def simpler(self) -> Iterator[Step]:
        if self.rows > 1:
            yield Offer(1)


class Batch(msgspec.Struct, frozen=True, tag=True):
    """A micro-batch of a query."""

    query: Query

    def simpler(self) -> Iterator[Step]:
        return iter(())


class Leftover(msgspec.Struct, frozen=True, tag=True):
    """A query that was fenced off, and does not know it, goes on."""

    query: Query

    def simpler(self) -> Iterator[Step]:
        return iter(())


class Move(msgspec.Struct, frozen=True, tag=True):
    """A query is started elsewhere, whatever the old one does."""

    query: Query

    def simpler(self) -> Iterator[Step]:
        return iter(())


class Trim(msgspec.Struct, frozen=True, tag=True):
    def simpler(self) -> Iterator[Step]:
        return iter(())


class Merge(msgspec.Struct, frozen=True, tag=True):
    def simpler(self) -> Iterator[Step]:
        return iter(())


class Look(msgspec.Struct, frozen=True, tag=True):
    """The run looks for what is lost, and starts what has failed."""

    def simpler(self) -> Iterator[Step]:
        return iter(())


class Join(msgspec.Struct, frozen=True, tag=True):
    """The run ends, and the next one has the reader `e` too."""

    def simpler(self) -> Iterator[Step]:
        return iter(())


class Run(msgspec.Struct, frozen=True, tag=True):
    """A new run of the project: after the old one was killed, ended, or while it is frozen (`overtaken`)."""

    after: After

    def simpler(self) -> Iterator[Step]:
        if self.after == "overtaken":
            yield Run("killed")


class Refresh(msgspec.Struct, frozen=True, tag=True):
    """The run ends, and the next one has a query begin anew, with all that is made of what it writes."""

    query: Query

    def simpler(self) -> Iterator[Step]:
        yield Run("ended")


class Fresh(msgspec.Struct, frozen=True, tag=True):
    """The run ends, and the next one forgets everything that is stored."""

    def simpler(self) -> Iterator[Step]:
        yield Run("ended")


class OldRun(msgspec.Struct, frozen=True, tag=True):
    """A run that was overtaken goes on."""

    does: Does

    def simpler(self) -> Iterator[Step]:
        return iter(())


class PowerCut(msgspec.Struct, frozen=True, tag=True):
    seed: int

    def simpler(self) -> Iterator[Step]:
        yield Run("killed")


class Pass(msgspec.Struct, frozen=True, tag=True):
    """Time passes."""

    seconds: float

    def simpler(self) -> Iterator[Step]:
        return iter(())


class SetClock(msgspec.Struct, frozen=True, tag=True):
    """The clock is wrong by so much from now on; 0 puts it right."""

    ahead_s: float

    def simpler(self) -> Iterator[Step]:
        return iter(())


class Full(msgspec.Struct, frozen=True, tag=True):
    """The disk has no room for the next step."""

    step: Batch | Move | Trim | Merge

    def simpler(self) -> Iterator[Step]:
        yield self.step


class During(msgspec.Struct, frozen=True, tag=True):
    """In the middle of a step, before its operation number `at` (from 0), something happens to who takes it:
    a fault, or other steps while it is held up.
    """

    step: Batch | Move | Trim | Merge | Run | Refresh | Fresh
    at: int
    fault: Fault | None = None
    seed: int = 0
    only: str = ""
    """Counts operations of this name alone."""
    meanwhile: tuple[Batch | Move | Trim | Merge | Offer | Pass | Run, ...] = ()

    def simpler(self) -> Iterator[Step]:
        yield self.step
        if self.fault == "power cut":
            yield msgspec.structs.replace(self, fault="stop", seed=0)
        for i in range(len(self.meanwhile)):
            yield msgspec.structs.replace(self, meanwhile=self.meanwhile[:i] + self.meanwhile[i + 1 :])


Step = (
    Offer | Batch | Leftover | Move | Trim | Merge | Look | Join | Run | Refresh | Fresh | OldRun | PowerCut
    | Pass | SetClock | Full | During
)  # fmt: skip
Keep = Literal["read", "all", "age"]


class Setting(msgspec.Struct, frozen=True):
    keep_a: Keep = "all"
    keep_b: Keep = "read"
    durable: bool = True
    """Spark syncs what it commits."""
    order: Order = "in order"
    compact_interval: int = 3
    files_written: int = 1
    behind_s: float = 0.0
    """So long listings may lag behind what others have done."""
    queries: tuple[Query, ...] = ("a", "b", "c", "d")

    def simpler(self) -> Iterator[Setting]:
        for i in range(1, len(self.queries)):
            yield msgspec.structs.replace(self, queries=self.queries[:i] + self.queries[i + 1 :])
        plain = Setting()
        for name in ("order", "behind_s", "files_written", "compact_interval", "keep_b", "keep_a", "durable"):
            if getattr(self, name) != getattr(plain, name):
                yield msgspec.structs.replace(self, **{name: getattr(plain, name)})


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seed: int
    setting: Setting
    steps: tuple[Step, ...]

    def as_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(text: str) -> Schedule:
        return msgspec.json.decode(text, type=Schedule)

    def describe(self) -> str:
        return "\n".join([f"seed {self.seed}, {self.setting}", *(f"  {step}" for step in self.steps)])


AGE_S = 3600.0
"""Of tables that are kept for some time only."""
_MOST_AT = 48
_MOST_MOVES = 8
_DAY_S = 86400.0
_AFTER: tuple[After, ...] = ("killed", "ended", "overtaken")
_DOES: tuple[Does, ...] = ("trim", "merge", "move")


def draw_schedule(seed: int, order: Order = "in order") -> Schedule:
    return _Draw(seed, order).schedule()


class _Draw:
    def __init__(self, seed: int, order: Order) -> None:
        self.seed, self.order = seed, order
        self.generator = np.random.default_rng(seed)

    def schedule(self) -> Schedule:
        setting = self._setting()
        kinds = self._kinds(setting)
        names, weights = list(kinds), np.array(list(kinds.values()), dtype=float)
        count = int(self.generator.integers(15, 46))
        drawn = self.generator.choice(len(names), size=count, p=weights / weights.sum())
        steps = [self._step(names[int(i)], setting) for i in drawn]
        return Schedule(self.seed, setting, (Offer(2), *steps))

    def _chance(self, share: float) -> bool:
        return bool(self.generator.random() < share)

    def _number(self, below: int) -> int:
        return int(self.generator.integers(below))

    def _setting(self) -> Setting:
        keeps: tuple[Keep, ...] = ("read", "all", "age")
        durable, lags = self._chance(0.8), self._chance(0.15)
        return Setting(
            keep_a=keeps[self._number(3)],
            keep_b=keeps[self._number(3)],
            durable=durable,
            order=self.order,
            compact_interval=3 if self._chance(0.9) else 10,
            files_written=1 + self._number(2),
            # Clients of NFS have the server sync a file when they close it.
            behind_s=5.0 if lags and durable else 0.0,
            queries=self._queries(),
        )

    def _queries(self) -> tuple[Query, ...]:
        shares: dict[Query, float] = {"a": 1.0, "b": 0.6, "c": 0.5, "d": 0.6}
        return tuple(query for query, share in shares.items() if self._chance(share))

    def _kinds(self, setting: Setting) -> dict[str, float]:
        """Of step, with their weights."""
        kinds = {"offer": 4.0, "batch": 10.0, "trim": 4.0, "look": 0.5}
        for name, share, weight in (
            ("merge", 0.5, 2.0),
            ("move", 0.5, 1.0),
            ("leftover", 0.3, 1.0),
            ("join", 0.3, 0.3),
            ("run", 0.4, 0.6),
            ("refresh", 0.2, 0.4),
            ("fresh", 0.1, 0.3),
            ("old run", 0.3, 0.6),
            ("power cut", 0.4, 0.6),
            ("pass", 0.5, 1.0),
            ("clock", 0.2, 0.6),
            ("full", 0.2, 0.6),
            ("fault", 0.5, 2.0),
            ("meanwhile", 0.4, 1.5),
        ):
            if self._chance(share):
                kinds[name] = weight
        return kinds

    def _query(self, setting: Setting) -> Query:
        return setting.queries[self._number(len(setting.queries))]

    def _step(self, kind: str, setting: Setting) -> Step:
        if kind == "offer":
            return Offer(1 + self._number(3))
        if kind == "leftover":
            return Leftover(self._query(setting))
        if kind == "look":
            return Look()
        if kind == "join":
            return Join()
        if kind == "run":
            return Run(_AFTER[self._number(3)])
        if kind == "refresh":
            return Refresh(self._query(setting))
        if kind == "fresh":
            return Fresh()
        if kind == "old run":
            return OldRun(_DOES[self._number(3)])
        if kind == "power cut":
            return PowerCut(self._number(1 << 30))
        if kind == "pass":
            return Pass((1.0, 10.0, 60.0, 2000.0, 5000.0, 9 * _DAY_S)[self._number(6)])
        if kind == "clock":
            return SetClock((-_DAY_S, 0.0, 600.0, 30 * _DAY_S, 3650 * _DAY_S)[self._number(5)])
        if kind == "full":
            return Full(self._short(setting))
        if kind in ("fault", "meanwhile"):
            return self._during(kind, setting)
        return self._plain(kind, setting)

    def _plain(self, kind: str, setting: Setting) -> Batch | Move | Trim | Merge:
        if kind == "batch":
            return Batch(self._query(setting))
        if kind == "move":
            return Move(self._query(setting))
        return Trim() if kind == "trim" else Merge()

    def _beside(self, step: Step, setting: Setting) -> Batch | Move | Trim | Merge:
        """Where a batch is held up, mostly what concerns its query, and those it hands rows to or has them
        from.
        """
        if not isinstance(step, Batch) or self._chance(0.4):
            return self._short(setting)
        if self._chance(0.3):
            return Move(step.query)
        near = [query for query in setting.queries if step.query in (READS[query], query)]
        source = READS[step.query]
        near += [] if source is None else [source]
        return Batch(near[self._number(len(near))])

    def _short(self, setting: Setting) -> Batch | Move | Trim | Merge:
        return self._plain(("batch", "batch", "move", "trim", "merge")[self._number(5)], setting)

    def _during(self, kind: str, setting: Setting) -> During:
        step: Batch | Move | Trim | Merge | Run | Refresh | Fresh = self._short(setting)
        if self._chance(0.15):
            others_begin: tuple[Run | Refresh | Fresh, ...] = (
                Run("killed"), Run("overtaken"), Refresh(self._query(setting)), Fresh()
            )  # fmt: skip
            step = others_begin[self._number(4)]
        only, at = "", self._number(_MOST_AT) if self._chance(0.7) else self._number(3 * _MOST_AT)
        if self._chance(0.4):
            only, at = "move", self._number(_MOST_MOVES)  # by which everything gets its name
        if kind == "fault":
            faults: tuple[Fault, ...] = ("stop", "stop", "power cut", "power cut", "ENOSPC", "EIO", "ESTALE")
            return During(step, at, faults[self._number(len(faults))], self._number(1 << 30), only)
        others: list[Batch | Move | Trim | Merge | Offer | Pass | Run] = [Offer(1)]
        if step == Batch("c") and self._chance(0.5):
            others.append(Batch("a"))  # which its one side finds, and the other does not
        elif isinstance(step, Batch) and self._chance(0.3):
            # It is fenced off, and what it was at is done again and read, before it goes on.
            readers = [query for query in setting.queries if READS[query] == step.query]
            others += [Move(step.query), Batch(step.query), *map(Batch, readers)]
        else:
            others += [self._beside(step, setting) for _ in range(1 + self._number(4))]
        if self._chance(0.2):
            others.insert(self._number(len(others)), Run("overtaken"))
        return During(step, at, only=only, meanwhile=tuple(others))
