"""Does a run leave anything behind? A small project, started and stopped many times in a row.

    python -m lab.benchmarks.spark_starts [--times 20] [--inside 5] [--busy]

`--times` starts by command: `mooring run --detach`, until every fragment has committed a batch, then `mooring
stop`. Each command has a time limit. After each stop we look for what is left of what it had: processes (they
all carry a mark in their environment), sockets (the kernel's numbers of all that those processes held),
control groups, and files, in the project, in its storage and in a temporary folder of its own.

`--inside` starts and stops within one process, as a program does that uses Mooring as a library: there the
threads and open files of that process are counted too. One more goes before them, which is not counted: gRPC
and Arrow keep their pools of threads for good, matplotlib its fonts.

With `--busy` two processes that never pause stand beside it. What is expected to stay, and is not counted:
the channels, checkpoints and notes in the storage, whose folders are counted instead, and what `mooring
status`, the report and the next start read in `.mooring/` (`EXPECTED` in `_leavings.py` has the names).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from lab.benchmarks._leavings import MARK, Leavings, marked
from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.benchmarks._user_run import UserRun, busy_loops
from mooring.cli.output.result_table import ResultTable, Value
from mooring.controller.initial_placement import Wish
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import prepared_run
from mooring.spark.runs.spark_run import SparkRun

Start = Callable[[int, Path, Path], dict[str, Value]]
"""Start and stop number so many of a project; a temporary folder for it; what came of it."""
START_PATIENCE_S = 240.0
STOP_PATIENCE_S = 150.0
SPEC = """\
name: starts
storage: file://{folder}/pipelines-storage
libraries:
  - glob:
      include: transformations/**
"""
SETTINGS = """\
sites: {a: {capacity: 1}, b: {capacity: 1}}
streams: {numbers: {site: a, rate: 100}}
queries: {counted: {site: b}}
statistics: {numbers: {cost_us: 5}, counted: {cost_us: 50}}
trigger_s: 1
"""
CODE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.active()

@dp.table
def numbers():
    return spark.readStream.schema("n long, at timestamp").json("{folder}/input")

@dp.table
def counted():
    numbers = spark.readStream.table("numbers").withWatermark("at", "1 second")
    return numbers.groupBy(F.window("at", "10 seconds")).agg(F.count("*").alias("rows"))
"""


def make_project(folder: Path) -> Path:
    for part in ("transformations", "input"):
        (folder / part).mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text(SPEC.format(folder=folder))
    (folder / "mooring.yml").write_text(SETTINGS)
    (folder / "transformations" / "code.py").write_text(CODE.replace("{folder}", str(folder)))
    return folder


def give_rows(folder: Path) -> None:
    """One more file, with rows of a minute of their own."""
    number = len(list((folder / "input").iterdir()))
    line = f'{{"n": 1, "at": "2020-01-01T{number // 60:02d}:{number % 60:02d}:00Z"}}\n'
    hidden = folder / "input" / f".{number}"
    hidden.write_text(line * 10)
    hidden.rename(folder / "input" / f"{number:05d}.json")


def commits(folder: Path) -> int:
    """Batches that all fragments together have committed; old ones are no longer in their checkpoints."""
    last: dict[str, int] = {}
    for file in (folder / ".mooring" / "storage").glob("owned/*/checkpoints/*/*/commits/[0-9]*"):
        fragment = file.parts[-4]
        last[fragment] = max(last.get(fragment, 0), int(file.name) + 1)
    return sum(last.values())


def by_command(number: int, project: Path, temporary: Path) -> dict[str, Value]:
    mark = uuid.uuid4().hex
    run = UserRun(project, {"TMPDIR": str(temporary), MARK: mark})
    give_rows(project)
    leavings = Leavings(project, temporary, mark)
    began = time.monotonic()
    run.mooring("run", str(project), "--detach", patience_s=START_PATIENCE_S)
    before = commits(project)
    run.wait(lambda: len(run.status()["fragments"]) == 2, "two fragments to run", START_PATIENCE_S)
    run.wait(lambda: commits(project) > before, "a batch to be committed", START_PATIENCE_S)
    started = time.monotonic()
    leavings.note_sockets()
    run.stop(STOP_PATIENCE_S)
    row = {
        "start": number,
        "until_it_ran_s": round(started - began, 1),
        "until_it_had_stopped_s": round(time.monotonic() - started, 1),
    }
    return row | leavings.found()


def inside(number: int, project: Path, temporary: Path) -> dict[str, Value]:
    """Within this process; what it runs beside us is found by our own mark."""
    give_rows(project)
    leavings = Leavings(project, temporary, os.environ[MARK], own=True)
    began = time.monotonic()
    with prepared_run(load_project(project)) as prepared:
        run, before = SparkRun(prepared, Wish("llf")), commits(project)
        with run.started() as (session, _):
            session.run(lambda passed: commits(project) > before or passed > START_PATIENCE_S)
            if commits(project) <= before:
                raise RuntimeError(f"no batch was committed within {START_PATIENCE_S:g} s")
            started = time.monotonic()
            leavings.note_sockets()
        run.end("over")
    row = {
        "start": number,
        "until_it_ran_s": round(started - began, 1),
        "until_it_had_stopped_s": round(time.monotonic() - started, 1),
    }
    return row | leavings.found()


def measure(failures: list[str], words: Sequence[str]) -> Iterator[ResultTable | str]:
    """What was left, or took too long, is added to `failures`."""
    arguments = parser().parse_args(words)
    root = Path(tempfile.mkdtemp(prefix="mooring-starts-"))
    temporary = root / "temporary"
    temporary.mkdir()
    project = make_project(root / "project")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        if arguments.busy:
            stack.enter_context(busy_loops(2))
        if arguments.times:
            rows = list(carried_out(by_command, arguments.times, project, temporary, failures))
            yield ResultTable.of("By command", rows)
        if arguments.inside:
            with marked(uuid.uuid4().hex, temporary):
                inside(0, project, temporary)
                rows = list(carried_out(inside, arguments.inside, project, temporary, failures))
            yield ResultTable.of("Within one process", rows)
    beside = " beside two busy loops" if arguments.busy else ""
    total = arguments.times + arguments.inside
    yield f"{total - len(failures)} of {total} starts and stops{beside} ended in time and left nothing."


def carried_out(
    start: Start, times: int, project: Path, temporary: Path, failures: list[str]
) -> Iterator[dict[str, Value]]:
    for number in range(times):
        try:
            row = start(number, project, temporary)
        except RuntimeError as hung:
            failures.append(str(hung))
            yield {"start": number, "left": str(hung).splitlines()[0]}
            raise
        if row["left"]:
            failures.append(str(row["left"]))
        print(json.dumps(row), file=sys.stderr, flush=True)
        yield row


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--inside", type=int, default=5)
    parser.add_argument("--busy", action="store_true")
    return parser


def main(words: Sequence[str]) -> int:
    failures: list[str] = []
    title = "Starts and stops in a row: what they take, and whether they leave anything"
    measurement = Measurement("spark_starts", title, prose_of(__doc__), partial(measure, failures))
    carry_out(measurement, words)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
