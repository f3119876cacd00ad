"""Power cuts under load: the disk with project and storage is shut down without writing its log.

    python -m lab.benchmarks.spark_power_cuts [--cuts 20] [--trigger 1 2] [--disk ext4 xfs] [--fast]
        [--seed 0]
        [--record]

A pipeline of five flows runs at two sites: one reads files, one Spark's rate source; two tables are kept and
merged every few seconds, one is trimmed as it is read, one is windowed, and a file sink lies outside the
storage. A fragment is moved every few seconds. At a drawn moment the file system goes, as in a power cut: it
drops all that was not synced and has not reached the disk by itself. What runs is killed, the disk is mounted
again, and `mooring run` has to go on by itself. The input lies on another disk, on which every file is synced
before it counts as offered.

The next cut comes while the run still starts or catches up, or later. In the end no more rows come, and
what every table and the sink hold is compared with what was offered: each row once. The rate source counts
up, so its table has to hold every number up to the newest one once. A run that is refused, or whose fragments
stay in trouble, ends the chain of cuts; the next one begins with a new storage.

*Empty logs* are files of Spark's logs and state that have zero bytes after a cut. `--fast` is
`durability: fast`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet

from lab.benchmarks._power_cut import LoopDisk, loop_disk, why_not
from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.benchmarks._user_run import UserRun
from mooring.atomic_files import write_whole
from mooring.cli.output.result_table import ResultTable, Value
from mooring.spark.runs.results import read_stored
from mooring.spark.storage import stream_logs
from mooring.spark.storage.fresh_folder import UNFINISHED

FLOWS = 5
SITES = ("a", "b")
ROWS_PER_FILE = 25
EVERY_S = 0.4
SETTLED_S = 400.0
LOGGED = frozenset({"_spark_metadata", "offsets", "commits", "sources", "state"})
LOADED_S = (6.0, 25.0)
"""How long it runs and moves before a cut."""
STARTING_S = (5.0, 60.0)
"""After how long the power goes where it does not run yet; mostly it does, and is loaded first."""
SPEC = """\
name: cuts
storage: file://{folder}/pipelines-storage
libraries:
  - glob:
      include: transformations/**
"""
SETTINGS = """\
sites: {{a: {{capacity: 2}}, b: {{capacity: 2}}}}
trigger_s: {trigger_s:g}
tables: {{doubled: {{keep: read}}}}
cuts: [doubled]
durability: {durability}
"""
CODE = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.active()

@dp.table
def offered():
    return spark.readStream.schema("n long, at timestamp").json("{landing}")

@dp.table
def ticks():
    return spark.readStream.format("rate").option("rowsPerSecond", 20).load()

@dp.table
def doubled():
    return spark.readStream.table("offered").selectExpr("n", "2 * n AS twice")

@dp.table
def counted():
    rows = spark.readStream.table("offered").withWatermark("at", "1 second")
    return rows.groupBy(F.window("at", "2 seconds")).agg(F.count("*").alias("rows"))

dp.create_sink("ledger", "parquet", {{"path": "{folder}/out/ledger"}})

@dp.append_flow(target="ledger")
def to_ledger():
    return spark.readStream.table("doubled")
"""


class Feeder(threading.Thread):
    """Offers rows until it is ended; a file is offered once it would survive a power cut."""

    def __init__(self, landing: Path) -> None:
        super().__init__(daemon=True)
        self._landing, self._ended = landing, threading.Event()
        self.offered: list[tuple[int, float]] = []
        """Number and time of every row."""

    def run(self) -> None:
        while not self._ended.wait(EVERY_S):
            self.offer()

    def offer(self) -> None:
        first, at_s = len(self.offered), time.time()
        rows = [(n, at_s + (n - first) / 1e3) for n in range(first, first + ROWS_PER_FILE)]
        text = "".join(
            json.dumps({"n": n, "at": datetime.fromtimestamp(at, UTC).isoformat()}) + "\n" for n, at in rows
        )
        write_whole(self._landing / f"{first:09d}.json", text, on_disk=True)
        self.offered += rows

    def end(self) -> None:
        self._ended.set()
        self.join()


class Chain:
    """One storage, and power cuts until it is refused or enough."""

    def __init__(self, root: Path, disk: LoopDisk, trigger_s: float, seed: int, *, fast: bool) -> None:
        self.disk, self.draw = disk, random.Random(seed)
        self.landing = root / "landing"
        self.landing.mkdir()
        self.folder = disk.folder / "project"
        (self.folder / "transformations").mkdir(parents=True)
        durability = "fast" if fast else "durable"
        (self.folder / "spark-pipeline.yml").write_text(SPEC.format(folder=self.folder))
        (self.folder / "mooring.yml").write_text(SETTINGS.format(trigger_s=trigger_s, durability=durability))
        (self.folder / "transformations" / "flows.py").write_text(
            CODE.format(landing=self.landing, folder=self.folder)
        )
        os.sync()  # what lies there before the first run is nobody's loss
        self.user = UserRun(self.folder)
        self.feeder = Feeder(self.landing)
        self.moves = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.said = ""

    @property
    def storage(self) -> Path:
        return self.folder / ".mooring" / "storage"

    def start(self, at_most_s: float | None = None) -> float | None:
        """Run it until every flow does; returns how long that took, None if not in so many seconds."""
        began = time.monotonic()
        self.user.forget_status()
        log = self.landing.parent / "run.log"
        words = ["run", str(self.folder)]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lab.benchmarks._quick_merges", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        while not self.runs():
            ended = self._process.poll() is not None
            if at_most_s is not None and not ended and time.monotonic() - began > at_most_s:
                return None
            if ended or time.monotonic() - began > SETTLED_S:
                self.said = " ".join(log.read_text(errors="replace").split())[-600:]
                raise RuntimeError(f"ended with {self._process.poll()}" if ended else "does not settle")
            time.sleep(0.2)
        return time.monotonic() - began

    def runs(self) -> bool:
        status = self.user.status()
        return len(status["fragments"]) >= FLOWS and not status["troubles"]

    def load(self, for_s: float) -> None:
        """Let it run and move fragments about: one whole move, then as many as come about."""
        self.move()
        until = time.monotonic() + for_s
        while (left := until - time.monotonic()) > 3.0:
            mover = threading.Thread(target=self.move, daemon=True)
            mover.start()
            time.sleep(min(left, self.draw.uniform(3.0, 6.0)))
        time.sleep(max(0.0, until - time.monotonic()))

    def move(self) -> None:
        with contextlib.suppress(RuntimeError, OSError, ValueError):  # the power may go meanwhile
            placement = dict(self.user.status()["placement"])
            if movable := sorted(name for name in placement if not name.endswith(":ingest")):
                name = self.draw.choice(movable)
                placement[name] = next(site for site in SITES if site != placement[name])
                plan = self.landing.parent / "plan.json"
                plan.write_text(json.dumps({"placement": placement}))
                answer = self.user.mooring("moves", str(self.folder), "--to", str(plan), "--apply")
                self.moves += len(answer["applied"]["steps"]) if answer["applied"] else 0

    def cut(self) -> int:
        """The power goes and comes back; returns how many files of Spark's logs and state are empty since."""
        self.disk.cut()
        self.kill()
        self.disk.restore()
        return sum(
            path.is_file() and path.stat().st_size == 0 and not LOGGED.isdisjoint(path.parts[:-1])
            for path in self.folder.rglob("*")
            if not UNFINISHED.fullmatch(path.name)
        )

    def kill(self) -> None:
        self.user.kill(*([] if self._process is None else [self._process]))

    def finish(self, patience_s: float = SETTLED_S) -> dict[str, str]:
        """No more rows; returns what is wrong with each table in the end."""
        self.feeder.end()
        last = self.feeder.offered[-1][0]
        deadline = time.monotonic() + patience_s
        while last not in self.ledger() and time.monotonic() < deadline:
            time.sleep(1.0)
        time.sleep(2.0)
        return {name: wrong for name, wrong in self.compared().items() if wrong}

    def compared(self) -> dict[str, str]:
        offered = Counter(n for n, _ in self.feeder.offered)
        ticks = Counter(read_stored(self.storage, "ticks")["value"].to_pylist())
        return {
            "offered": difference(Counter(read_stored(self.storage, "offered")["n"].to_pylist()), offered),
            "ticks": difference(ticks, Counter(range(max(ticks, default=0) + 1))),
            "ledger": difference(self.ledger(), offered),
            "counted": self.windows_wrong(),
        }

    def merged(self) -> int:
        """Files of kept tables that stand for several."""
        logs = self.storage.glob("channels/*/*/_spark_metadata")
        return sum(entry.items > 1 for log in logs for entry in stream_logs.sink_entries(log))

    def ledger(self) -> Counter[int]:
        log = self.folder / "out" / "ledger" / "_spark_metadata"
        numbers: Counter[int] = Counter()
        for entry in stream_logs.sink_entries(log):
            numbers.update(pyarrow.parquet.read_table(entry.path)["n"].to_pylist())
        return numbers

    def windows_wrong(self) -> str:
        """Those that are closed, but for the last ones, which wait for later rows."""
        truth = Counter(int(at // 2) * 2 for _, at in self.feeder.offered)
        found: Counter[int] = Counter()
        table = read_stored(self.storage, "counted")
        for window, rows in zip(table["window"].to_pylist(), table["rows"].to_pylist(), strict=True):
            found[int(window["start"].replace(tzinfo=UTC).timestamp())] += rows
        due = {start: rows for start, rows in truth.items() if start <= max(truth) - 8}
        late = [start for start in due if found[start] != due[start]]
        return f"{len(late)} of {len(due)} windows differ" if late else ""


def difference(found: Counter[int], truth: Counter[int]) -> str:
    missing, extra = truth - found, found - truth
    return f"{missing.total()} missing, {extra.total()} doubled or wrong" if missing or extra else ""


def chain_of_cuts(
    cuts: int, trigger_s: float, kind: str, seed: int, *, fast: bool
) -> tuple[dict[str, Value], bool]:
    """Cuts in one storage; returns what came of them, and whether all was well."""
    root = Path(tempfile.mkdtemp(prefix="mooring-cuts-"))
    began, failure, at = time.monotonic(), "", 0
    empty, starts = list[int](), list[float | None]()
    wrong: dict[str, str] = {}
    merged: int | None = None
    with loop_disk(root, kind) as disk:
        chain = Chain(root, disk, trigger_s, seed, fast=fast)
        chain.feeder.start()
        try:
            chain.start()
            for at in range(1, cuts + 1):
                if at == 1 or starts[-1] is not None:
                    chain.load(chain.draw.uniform(*LOADED_S))
                empty.append(chain.cut())
                starts.append(chain.start(chain.draw.uniform(*STARTING_S) if at < cuts else None))
                told = f"  cut {at}: {empty[-1]} empty logs, runs after {starts[-1] or math.nan:.0f} s"
                print(told, file=sys.stderr, flush=True)
            wrong = chain.finish()
            merged = chain.merged()
        except (RuntimeError, OSError) as broken:
            failure = str(broken).splitlines()[0]
            print(f"{failure}: {chain.said}", file=sys.stderr, flush=True)
        finally:
            chain.kill()
        if failure or wrong:
            with contextlib.suppress(OSError):  # whatever can be read
                shutil.copytree(chain.folder, root / "kept", symlinks=True, ignore_dangling_symlinks=True)
            print(f"kept: {root}", file=sys.stderr, flush=True)
    well, again = not failure and not wrong, [taken for taken in starts if taken is not None]
    if well:
        shutil.rmtree(root)
    return {
        "disk": kind,
        "trigger_s": trigger_s,
        "seed": seed,
        "durability": "fast" if fast else "durable",
        "cuts": at,
        "moves": chain.moves,
        "merged_files": merged,
        "rows": len(chain.feeder.offered),
        "empty_logs": sum(empty),
        "while_starting": starts[:-1].count(None),
        "median_s_to_run_again": statistics.median(again) if again else None,
        "exact": well,
        "wrong": "; ".join(f"{name}: {what}" for name, what in wrong.items()) or failure,
        "seconds": round(time.monotonic() - began),
    }, well


def measure(failures: list[int], words: Sequence[str]) -> Iterator[ResultTable | str]:
    """Seeds of chains in which anything was lost, doubled or refused are added to `failures`."""
    arguments = parser().parse_args(words)
    kinds = [kind for kind in arguments.disk if why_not(kind) is None]
    if not kinds:
        yield f"not run: {why_not(arguments.disk[0])}"
        failures.append(arguments.seed)
        return
    triggers = arguments.trigger
    most = -(-arguments.cuts // (len(kinds) * len(triggers)))
    rows, done, seed = list[dict[str, Value]](), 0, arguments.seed
    while done < arguments.cuts:
        kind = kinds[len(rows) % len(kinds)]
        trigger_s = triggers[(len(rows) + len(rows) // len(kinds)) % len(triggers)]
        at_once = min(arguments.cuts - done, most)
        row, well = chain_of_cuts(at_once, trigger_s, kind, seed, fast=arguments.fast)
        print(json.dumps(row), file=sys.stderr, flush=True)
        rows.append(row)
        if not well:
            failures.append(seed)
        done, seed = done + max(1, int(str(row["cuts"]))), seed + 1
    yield ResultTable.of("Chains of power cuts", rows)
    survived = sum(int(str(row["cuts"])) for row in rows if row["exact"])
    yield f"{done} power cuts; {survived} of them in chains after which every row was there once."


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--trigger", type=float, nargs="+", default=[1.0, 2.0], metavar="S")
    parser.add_argument("--disk", nargs="+", default=["ext4", "xfs"])
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--seed", type=int, default=0, help="of the first chain; the next ones count on")
    return parser


def main(words: Sequence[str]) -> int:
    failures: list[int] = []
    title = "Power cuts under load, on ext4 and XFS shut down without their log"
    carry_out(
        Measurement("spark_power_cuts", title, prose_of(__doc__), functools.partial(measure, failures)), words
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
