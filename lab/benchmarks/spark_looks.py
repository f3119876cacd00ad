"""What logs that grow cost: a look at a run, its start-up, and Spark's commit.

    python -m lab.benchmarks spark_looks[:looks,commits]

*Looks* need no Spark: logs are generated as Spark writes them, with a batch of one file every five seconds
and a compacted file every tenth batch. Ten channels, each with a reader that has everything, are looked at as
a run does it (positions, what was appended, what is lost, trimming), with one more batch between two looks.
They lie over one set of files, which each of them follows by itself. The largest look follows a compacted
file. Reading a channel whole is what every look did before, several times; it is what starting costs now,
once. *Merged* is a month of which the last hour is left as it was written.

*Commits* are of an embedded site: the batch that writes a compacted file beside those that do not, with such
a log. Mooring adds nothing to a commit, since it only reads what Spark wrote.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from mooring.cli.output.result_table import ResultTable, Value
from mooring.spark.sites.embedded_site import EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java
from mooring.spark.storage.file_channel import FileChannel
from mooring.spark.storage.owned_folder import unowned
from mooring.spark.storage.retention import ALL

TRIGGER_S = 5
LENGTHS = {"an hour": 720, "a week": 120_960, "a month": 518_400}
FAN = 50
CHANNELS = 10
LOOKS = 21
"""With two compacted files among the batches between them."""
LIMIT_MS = 50.0
NOW_MS = 1_790_000_000_000


class Logs:
    """A channel's folder and its reader's checkpoint after so many batches, without the files of rows."""

    def __init__(self, folder: Path, batches: int, entries: Sequence[int]) -> None:
        """`entries`: for each file in the log, how many batches' files it stands for."""
        self.folder = folder
        self.channel = folder / "channels" / "table" / "flow"
        self.reader = folder / "checkpoints" / "reader"
        self.batch = batches - 1
        self.lines: dict[Path, list[str]] = {self.channel / "_spark_metadata": [], self.source_log: []}
        for log in (*self.lines, self.reader / "offsets", self.reader / "commits"):
            log.mkdir(parents=True)
        first = 0
        for number, items in enumerate(entries):
            self._add(first, items, stored=number in (0, len(entries) - 1))
            first += items
        compacted = batches - 1 - batches % 10
        for log, lines in self.lines.items():
            cut = len(lines) - (self.batch - compacted)
            _write(log / f"{compacted}.compact", lines[:cut])
            for number, line in enumerate(lines[cut:], compacted + 1):
                _write(log / str(number), [line])
        self._commit()

    @property
    def source_log(self) -> Path:
        return self.reader / "sources" / "0"

    def append(self) -> None:
        """One batch of the writer, and one of the reader, which takes it in."""
        self.batch += 1
        self._add(self.batch, 1, stored=True)
        for log, lines in self.lines.items():
            compact = (self.batch + 1) % 10 == 0
            _write(log / f"{self.batch}{'.compact' * compact}", lines if compact else lines[-1:])
        self._commit()

    def _add(self, first: int, items: int, *, stored: bool) -> None:
        at_ms = NOW_MS + TRIGGER_S * 1000 * (first + items)
        name = f"part-00000-{first:08x}-5f6c-4b1e-9d2a-1f7a3c5e9b10-c000.snappy.parquet"
        if items > 1:
            name = f"merged-{first}-{first + items}-{at_ms}-{first:016x}.parquet"
        path = f"file://{self.channel}/{name}"
        sink = {"path": path, "size": 3000 * items, "isDir": False, "modificationTime": at_ms}
        more = {"blockReplication": 1, "blockSize": 33554432, "action": "add"}
        source = {"path": path, "timestamp": at_ms, "batchId": first}
        for log, line in zip(self.lines, ({**sink, **more}, source), strict=True):
            self.lines[log].append(json.dumps(line, separators=(",", ":")))
        self.newest = name
        if stored:
            (self.channel / name).touch()

    def _commit(self) -> None:
        offset = json.dumps({"logOffset": self.batch})
        (self.reader / "offsets" / str(self.batch)).write_text("\n".join(["v1", "{}", offset]))
        (self.reader / "commits" / str(self.batch)).write_text("v1\n{}")
        (self.folder / "checkpoints" / "flow" / "commits").mkdir(parents=True, exist_ok=True)
        (self.folder / "checkpoints" / "flow" / "commits" / str(self.batch)).write_text("v1\n{}")


def _write(file: Path, lines: Sequence[str]) -> None:
    file.write_text("\n".join(["v1", *lines]))


def merged(batches: int) -> list[int]:
    """What is left of so many files: the last hour as it was, the rest in files of 50, 2,500 and so on."""
    left, sizes, found = batches - LENGTHS["an hour"], [1], list[int]()
    while sizes[-1] * FAN <= left:
        sizes.append(sizes[-1] * FAN)
    for size in reversed(sizes):
        found += [size] * (left // size)
        left %= size
    return found + [1] * LENGTHS["an hour"]


def cpu_ms(do: Callable[[], object]) -> float:
    begun = time.process_time()
    do()
    return (time.process_time() - begun) * 1000


def looks(folder: Path) -> ResultTable:
    rows: list[dict[str, Value]] = []
    for what, batches in (*LENGTHS.items(), ("a month, merged", LENGTHS["a month"])):
        entries = merged(batches) if "merged" in what else [1] * batches
        logs = Logs(folder / what.replace(" ", "_"), batches, entries)
        channels = [channel_of(logs) for _ in range(CHANNELS)]
        started_ms = [cpu_ms(channel.state) for channel in channels]
        ends = [channel.state().end for channel in channels]
        taken = []
        for number in range(LOOKS):
            logs.append()
            taken.append(cpu_ms(partial(look, channels, ends, trim=number % 2 == 0)))
        rows.append(
            {
                "log_of": what,
                "entries": len(entries),
                "look_ms": statistics.median(taken),
                "largest_look_ms": max(taken),
                "limit_ms": LIMIT_MS,
                "reading_one_channel_whole_ms": statistics.median(started_ms),
            }
        )
    return ResultTable.of(f"CPU of a look at {CHANNELS} channels, {LOOKS} looks", rows)


def channel_of(logs: Logs) -> FileChannel:
    checkpoints = logs.folder / "checkpoints"
    link = logs.folder / "links" / "flow"
    owned = unowned(logs.folder)
    channel = FileChannel("flow", logs.channel, link, checkpoints.joinpath, owned, ALL, "results")
    if not channel._note_file.exists():
        link.parent.mkdir(parents=True)
        link.symlink_to(logs.channel)
        note = {"start": 0, "trimming": [], "doubtful": {}, "readers": {"results": 0, "reader": 0}}
        channel._note_file.write_text(json.dumps(note))
    return channel


def look(channels: Sequence[FileChannel], ends: list[int], *, trim: bool) -> None:
    for number, channel in enumerate(channels):
        channel.state()
        ends[number] += len(channel.appended_since(ends[number]))
        if (why := channel.lost()) is not None:
            raise RuntimeError(why)
        if trim:  # every ten seconds, and a look every five
            channel.trim()


def commits(folder: Path) -> ResultTable:
    site = EmbeddedSite("here", folder / "site", find_java(), capacity=2)
    site.start()
    try:
        site.wait_ready()
        rows = [
            _commit(site, folder / str(entries), what, entries)
            for what, entries in (
                ("an hour", LENGTHS["an hour"]),
                ("a month, merged", len(merged(LENGTHS["a month"]))),
                ("a week", LENGTHS["a week"]),
                ("a month", LENGTHS["a month"]),
            )
        ]
    finally:
        site.stop()
    return ResultTable.of("A batch's commit, embedded site", rows)


def _commit(site: EmbeddedSite, folder: Path, what: str, entries: int) -> dict[str, Value]:
    (folder / "input").mkdir(parents=True)
    session = open_session(site.endpoint)
    try:

        def write(files: range) -> list[float]:
            for number in files:
                (folder / "input" / f"{number:03d}.json").write_text(json.dumps({"n": number}))
            frame = session.readStream.schema("n long").option("maxFilesPerTrigger", 1)
            query = (
                frame.json(f"file://{folder / 'input'}")
                .writeStream.option("path", f"file://{folder / 'out'}")
                .option("checkpointLocation", f"file://{folder / 'checkpoint'}")
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            if (failure := query.exception()) is not None:
                raise RuntimeError(str(failure))
            reports = [json.loads(report.json) for report in query.recentProgress]
            return [report["durationMs"]["addBatch"] for report in reports]

        write(range(8))
        newest = folder / "out" / "_spark_metadata" / "7"
        line = json.loads(newest.read_text().split("\n")[1])
        more = [json.dumps({**line, "path": f"{line['path']}.{number}"}) for number in range(entries)]
        _write(newest, more)
        before_s = cpu_s(site)
        taken_ms = write(range(8, 18))
        return {
            "log_of": what,
            "entries": entries,
            "batch_that_compacts_ms": taken_ms[1],
            "other_batches_ms": statistics.median(taken_ms[2:]),
            "CPU_of_ten_batches_s": cpu_s(site) - before_s,
        }
    except Exception as failure:
        return {"log_of": what, "entries": entries, "failed": str(failure).splitlines()[0][:60]}
    finally:
        close_session(session)


def cpu_s(site: EmbeddedSite) -> float:
    usage = site.usage()
    if usage is None:
        raise RuntimeError("the site's processes cannot be seen")
    return usage.cpu_s


PARTS: dict[str, Callable[[Path], ResultTable]] = {"looks": looks, "commits": commits}


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    for part in chosen_parts(words, PARTS):
        with tempfile.TemporaryDirectory() as folder:
            yield PARTS[part](Path(folder))


LOOKS_COST = Measurement("spark_looks", "What logs that grow cost", prose_of(__doc__), measure)

if __name__ == "__main__":
    carry_out(LOOKS_COST, sys.argv[1:])
