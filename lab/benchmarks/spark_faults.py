"""Exactly once, under fire: a wide pipeline while sites, hosts, networks, clocks and the disk fail.

    python -m lab.benchmarks.spark_faults [--rounds 1] [--moves 10] [--site-kills 4] [--mooring-kills 4]
        [--freezes 1] [--take-overs 1] [--full-disks 1] [--updates 2] [--cut-offs 2] [--wrong-clocks 3]
        [--mounts FOLDER FOLDER] [--seed 0] [--minutes 30] [--busy] [--add-to FILE]

The pipeline is the demo's, with a materialized view, a file sink and a Kafka sink over a real broker. It runs
at three embedded sites and at an existing endpoint in a network namespace of its own, and files of tables are
merged every few seconds. Each round runs it in the background as a user would. Events come in an order and at
moments drawn from the seed:

- *move*: one to three fragments at a time, with `mooring moves`;
- *site kill*, *Mooring kill*: SIGKILL for an embedded site, or for the runner, which is started again. Every
  other kill is aimed between the sink's commit of a batch and the checkpoint's;
- *site freeze*: SIGSTOP until its fragments run elsewhere, then SIGCONT;
- *take-over*: the owner is killed, or it or its whole host is frozen and comes back, and a standby at a
  second host (another checkout with the same storage) takes over;
- *full disk*: the storage's disk has no room, from a drawn moment of a move on;
- *update*: the run is stopped, `mooring run --once` has to end up to date, and the run goes on;
- *cut-off*: the endpoint's link is down until its fragments run elsewhere, but it sees the storage. Its
  queries go on until they find themselves fenced off, and the link comes back;
- *wrong clock*: the endpoint's, or that of the runner and its sites, is 30 days or ten years ahead, or 30 or
  400 days behind, with a move meanwhile, and then right again. All queries have to commit under it and after.

In the end tables, view and sinks are held against the truth, row by row: each row is there once. Kafka's sink
is at least once by contract, so no row may be missing or wrong there, and rows that it has again are counted
apart. An event that the machine does not allow is left out, and the record says so.

Rounds are parts of a campaign: with `--add-to FILE` a part's outcome is added to those in the file, and the
record shows them all, each with its seed and the code it ran with; `--rounds 0` only shows what the file has.
A round that cannot be carried through counts as one that was not exact. With `--busy` two processes that
never pause stand beside it. Twenty-five rounds make 100 kills of each kind (`make campaign`).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from lab.benchmarks import _machine, _wrong_clock
from lab.benchmarks._agent_places import AgentPlaces, agent_places
from lab.benchmarks._demo_project import Feeder, Verdict, compare, expected_rows, traffic
from lab.benchmarks._far_site import far_site
from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.benchmarks._under_fire import HERE, UnderFire, small_disk
from lab.benchmarks._user_run import busy_loops
from lab.benchmarks._wide_project import FAR, Kafka, WideProject
from lab.benchmarks._wrong_clock import Clock, built_library
from mooring.cli.output.result_table import ResultTable, Value
from mooring.spark.sites.class_archive import build_archive, usable_archive
from mooring.spark.sites.java import find_java
from tests.spark.connectors.kafka_broker import KafkaBroker
from tests.spark.connectors.kafka_jars import fetch_all

EVENTS = (
    "moves",
    "site kills",
    "Mooring kills",
    "site freezes",
    "take-overs",
    "full disks",
    "updates (--once) in between",
    "cut-offs of an endpoint that sees the storage",
    "wrong clocks",
)
"""What is counted as one, each once."""
Outcome = tuple[dict[str, Value], Counter[str]]
"""What came of a round, and how often what happened in it."""


def schedule(fire: UnderFire, arguments: argparse.Namespace) -> list[Callable[[], None]]:
    orders: list[Callable[[], None]] = []
    left = arguments.moves
    while left:
        count = min(left, fire.draw.randint(1, 3))
        orders.append(partial(fire.move_some, count))
        left -= count
    orders += [partial(fire.kill_site, aimed=k % 2 == 1) for k in range(arguments.site_kills)]
    orders += [partial(fire.kill_mooring, aimed=k % 2 == 1) for k in range(arguments.mooring_kills)]
    orders += [fire.freeze_site] * arguments.freezes
    orders += [fire.take_over] * arguments.take_overs
    if arguments.mounts is None:  # or the disk is others' too
        orders += [fire.fill_disk] * arguments.full_disks
    orders += [fire.update_once] * arguments.updates
    if fire.project.far.place.can_be_cut_off:
        orders += [fire.cut_off] * arguments.cut_offs
    if _wrong_clock.why_not() is None:
        orders += [partial(fire.set_clock, (FAR, HERE)[k % 2]) for k in range(arguments.wrong_clocks)]
    fire.draw.shuffle(orders)
    return orders


Found = tuple[list[Verdict], int]
"""What the pipeline delivered, and how many rows Kafka has again."""


def carried_through(
    fire: UnderFire, orders: Sequence[Callable[[], None]], minutes: int, landing: Path
) -> Found:
    """All of it; what came of it."""
    packets = traffic(minutes)
    feeder = fire.feeder = Feeder(packets, landing, speed=1.0)
    feeder.start()
    try:
        fire.run()
        for number, order in enumerate(orders):
            began = time.monotonic()
            order()
            name = getattr(order, "func", order).__name__
            said = f"  {number + 1}/{len(orders)} {name} {time.monotonic() - began:.0f} s {dict(fire.counts)}"
            print(said, file=sys.stderr, flush=True)
        feeder.hurry()
        feeder.join()
        # A query that starts again keeps its watermark until each of its inputs has brought a row since.
        feeder.close("99999-again")
        expected = expected_rows(packets)

        def compared() -> Found:
            verdicts = [*compare(fire.storage, expected), *fire.project.compare_outlets(expected)]
            if fire.project.kafka is None or not all(verdict.exact for verdict in verdicts):
                return verdicts, 0
            in_kafka, repeated = fire.project.compare_topic(expected)
            return [*verdicts, in_kafka], repeated

        with contextlib.suppress(RuntimeError):
            fire.at.wait(lambda: are_exact(compared()[0]), "all rows", every_s=3.0)
        return compared()
    finally:
        feeder.halt()
        fire.stop()


def are_exact(verdicts: Sequence[Verdict]) -> bool:
    return bool(verdicts) and all(verdict.exact for verdict in verdicts)


@contextlib.contextmanager
def prepared(root: Path, seed: int, arguments: argparse.Namespace) -> Iterator[UnderFire]:
    """A disk, a broker, an endpoint and two hosts, all ended with the block."""
    with contextlib.ExitStack() as stack:
        (root / "disk").mkdir()
        if arguments.full_disks:
            stack.enter_context(small_disk(root / "disk"))
        if arguments.busy:
            stack.enter_context(busy_loops(2))
        places = stack.enter_context(agent_places(1))
        library = built_library(root)
        clocks = {FAR: Clock(root / "clock-there", library), HERE: Clock(root / "clock-here", library)}
        kafka = stack.enter_context(broker(root, places))
        jars = () if kafka is None else kafka.jars
        far = stack.enter_context(far_site(places.places[0], root / FAR, jars, clocks[FAR].environment))
        seen_at = [root / "disk" / "storage"] * 2
        if arguments.mounts is not None:
            seen_at = [mount / root.name for mount in arguments.mounts]
            stack.callback(shutil.rmtree, seen_at[0], ignore_errors=True)
        project = WideProject(seen_at[0], root / "disk" / "ledger", far, kafka)
        hosts = dict(zip((root / name / "project" for name in ("one", "two")), seen_at, strict=True))
        yield UnderFire(project, root / "landing", hosts, clocks, seed)


@contextlib.contextmanager
def broker(root: Path, places: AgentPlaces) -> Iterator[Kafka | None]:
    """None where its jars cannot be had."""
    try:
        jars = fetch_all()
    except OSError:
        yield None
        return
    folder = root / "kafka"
    folder.mkdir()
    running = KafkaBroker(folder, jars["broker"], find_java(), places.middle)
    try:
        running.wait_ready()
        yield Kafka(running.address, tuple(jars["connector"]))
    finally:
        running.stop()


def fire_round(seed: int, arguments: argparse.Namespace) -> Outcome:
    """One of them. A folder with something to look into is kept."""
    root = Path(tempfile.mkdtemp(prefix="mooring-faults-"))
    began, commit = time.monotonic(), _machine.commit()
    verdicts: list[Verdict] = []
    repeated, failure = 0, ""
    with prepared(root, seed, arguments) as fire:
        try:
            orders = schedule(fire, arguments)
            verdicts, repeated = carried_through(fire, orders, arguments.minutes, root / "landing")
        except RuntimeError as broken:
            failure = str(broken).splitlines()[0]
            print(f"{broken}\nkept: {root}", file=sys.stderr, flush=True)
        exact = are_exact(verdicts)
        if not exact:
            shutil.copytree(root / "disk", root / "disk-kept", symlinks=True, ignore_dangling_symlinks=True)
    if exact:
        shutil.rmtree(root)
    row: dict[str, Value] = {
        "seed": seed,
        "commit": commit,
        "beside": "two busy loops" if arguments.busy else "",
        "seconds": round(time.monotonic() - began),
        "events": sum(count for what, count in fire.counts.items() if what in EVENTS),
        "exact": exact,
        "rows": sum(verdict.delivered for verdict in verdicts),
        "missing": sum(verdict.missing for verdict in verdicts),
        "wrong_or_double": sum(verdict.extra for verdict in verdicts),
        "again_in_kafka": repeated,
        "merged_files_seen": len(fire.merged),
        "median_pause_s": median(fire.pauses_s),
        "longest_pause_s": max(fire.pauses_s, default=None),
        "median_s_to_notice_a_lost_site": median(fire.noticed_s),
        "s_until_a_standby_runs_everything": max(fire.taken_over_s, default=None),
        "left_out": "; ".join(left_out(fire, arguments)),
        "failure": failure,
    }
    return row, fire.counts


def left_out(fire: UnderFire, arguments: argparse.Namespace) -> Iterator[str]:
    """What this machine does not allow, and why."""
    if not fire.project.far.place.can_be_cut_off:
        yield "cut-offs (no network namespaces)"
    if (reason := _wrong_clock.why_not()) is not None:
        yield f"wrong clocks ({reason})"
    if fire.project.kafka is None:
        yield "Kafka (its jars cannot be had)"
    if arguments.mounts is None:
        kernel = Path("/proc/filesystems").read_text().split()
        yield f"two NFS mounts ({'--mounts names none' if 'nfs4' in kernel else 'the kernel has no NFS'})"


def median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def measure(failures: list[int], words: Sequence[str]) -> Iterator[ResultTable | str]:
    """Seeds of rounds that delivered anything but the truth are added to `failures`."""
    arguments = parser().parse_args(words)
    outcomes: list[Outcome] = []
    if arguments.rounds and usable_archive(find_java()) is None:
        build_archive(find_java())  # a round starts dozens of servers
    for seed in range(arguments.seed, arguments.seed + arguments.rounds):
        row, counts = fire_round(seed, arguments)
        print(json.dumps(row), file=sys.stderr, flush=True)
        outcomes.append((row, counts))
        if not row["exact"]:
            failures.append(seed)
    if arguments.add_to is not None:
        outcomes = all_parts(arguments.add_to, outcomes)
    rows = [row for row, _ in outcomes]
    total = sum((counts for _, counts in outcomes), Counter[str]())
    yield ResultTable.of("Rounds", rows)
    yield ResultTable.of(
        "All rounds together",
        [{"happened": what, "times": count} for what, count in sorted((+total).items())],
    )
    exact = sum(bool(row["exact"]) for row in rows)
    yield f"{exact} of {len(rows)} rounds delivered every row exactly once."


def all_parts(file: Path, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those in the file, to which ours are added. Read in the end: parts may run side by side."""
    with file.open("a") as out:
        for row, counts in outcomes:
            out.write(json.dumps({"row": row, "counts": counts}) + "\n")
    parts = [json.loads(line) for line in file.read_text().splitlines()]
    found = [(part["row"], Counter(part["counts"])) for part in parts]
    return sorted(found, key=lambda part: (str(part[0]["beside"]), part[0]["seed"]))


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--moves", type=int, default=10)
    parser.add_argument("--site-kills", type=int, default=4)
    parser.add_argument("--mooring-kills", type=int, default=4)
    parser.add_argument("--freezes", type=int, default=1)
    parser.add_argument("--take-overs", type=int, default=1)
    parser.add_argument("--full-disks", type=int, default=1)
    parser.add_argument("--updates", type=int, default=2, help="with --once, between two runs")
    parser.add_argument("--cut-offs", type=int, default=2)
    parser.add_argument("--wrong-clocks", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the first round; the next ones count on")
    parser.add_argument(
        "--minutes", type=int, default=30, help="of packets; what is left in the end is hurried"
    )
    parser.add_argument(
        "--mounts",
        type=Path,
        nargs=2,
        metavar=("FOLDER", "FOLDER"),
        help="where one folder is mounted twice, as by NFS: each host goes by its own; no full disks then",
    )
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--add-to", type=Path, metavar="FILE", help="outcomes of parts, a line each")
    return parser


def main(words: Sequence[str]) -> int:
    failures: list[int] = []
    title = "Exactly once, while sites, hosts, networks, clocks and the disk fail"
    carry_out(
        Measurement("spark_faults", title, prose_of(__doc__), functools.partial(measure, failures)), words
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
