"""Exactly once, under fire: the demo's pipeline while it is moved, killed, frozen, taken over, out of disk.

    python -m benchmarks.spark_faults [--rounds 1] [--moves 10] [--site-kills 5] [--mooring-kills 5]
        [--freezes 1] [--take-overs 1] [--full-disks 1] [--seed 0] [--minutes 20] [--busy] [--add-to FILE]

Every round runs the pipeline in the background as a user would, then moves fragments with `mooring moves`,
one to three at a time, kills sites and the runner itself with -9, freezes sites, has a standby at a second
host (another checkout with the same storage) take over from an owner that is killed or frozen and comes back,
and fills the storage's disk, in an order and at moments drawn from the seed; a killed runner is started
again. Every other kill is aimed between the sink's commit of a batch and the checkpoint's. In the end the
output is held against the truth, row by row.

Rounds are parts of a campaign: with `--add-to FILE` a part's outcome is added to those in the file, and the
record shows them all, each with its seed and the code it ran with; `--rounds 0` only shows what the file has.
A round that cannot be carried through counts as one that was not exact. With `--busy` two processes that
never pause stand beside it. Twenty rounds make 100 kills of each kind (`make campaign`).
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
from typing import Any

from benchmarks import _machine
from benchmarks._demo_project import Feeder, Verdict, compare, expected_rows, traffic
from benchmarks._record import Measurement, carry_out, prose_of
from benchmarks._under_fire import UnderFire, small_disk
from benchmarks._user_run import busy_loops
from mooring.experiments.result_table import ResultTable, Value

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
    orders += [fire.fill_disk] * arguments.full_disks
    fire.draw.shuffle(orders)
    return orders


def carried_through(fire: UnderFire, arguments: argparse.Namespace) -> list[Verdict]:
    """All of it; returns the verdicts."""
    packets = traffic(arguments.minutes)
    feeder = Feeder(packets, fire.landing, speed=1.0)
    orders = schedule(fire, arguments)
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
        with contextlib.suppress(RuntimeError):
            exact = partial(is_exact, fire.storage, expected)
            fire.at.wait(exact, "all rows", every_s=3.0)
        return compare(fire.storage, expected)
    finally:
        feeder.halt()
        fire.stop()


def is_exact(storage: Path, expected: dict[str, Any]) -> bool:
    return all(verdict.exact for verdict in compare(storage, expected))


def fire_round(seed: int, arguments: argparse.Namespace) -> Outcome:
    """One of them. A folder with something to look into is kept."""
    root = Path(tempfile.mkdtemp(prefix="mooring-faults-"))
    began, commit = time.monotonic(), _machine.commit()
    verdicts: list[Verdict] = []
    failure = ""
    with contextlib.ExitStack() as stack:
        if arguments.full_disks:
            stack.enter_context(small_disk(root / "disk"))
        if arguments.busy:
            stack.enter_context(busy_loops(2))
        fire = UnderFire(root, seed)
        try:
            verdicts = carried_through(fire, arguments)
        except RuntimeError as broken:
            failure = str(broken).splitlines()[0]
            print(f"{broken}\nkept: {root}", file=sys.stderr, flush=True)
            shutil.copytree(fire.storage, root / "storage-kept", ignore_dangling_symlinks=True)
    exact = bool(verdicts) and all(verdict.exact for verdict in verdicts)
    if exact:
        shutil.rmtree(root)
    row: dict[str, Value] = {
        "seed": seed,
        "commit": commit,
        "beside": "two busy loops" if arguments.busy else "",
        "seconds": round(time.monotonic() - began),
        "exact": exact,
        "rows": sum(verdict.delivered for verdict in verdicts),
        "missing": sum(verdict.missing for verdict in verdicts),
        "wrong_or_double": sum(verdict.extra for verdict in verdicts),
        "median_pause_s": median(fire.pauses_s),
        "longest_pause_s": max(fire.pauses_s, default=None),
        "median_s_to_notice_a_lost_site": median(fire.noticed_s),
        "s_until_a_standby_runs_everything": max(fire.taken_over_s, default=None),
        "failure": failure,
    }
    return row, fire.counts


def median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def measure(failures: list[int], words: Sequence[str]) -> Iterator[ResultTable | str]:
    """Seeds of rounds that delivered anything but the truth are added to `failures`."""
    arguments = parser().parse_args(words)
    outcomes: list[Outcome] = []
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
        "All rounds together", [{"happened": what, "times": count} for what, count in sorted(total.items())]
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
    parser.add_argument("--site-kills", type=int, default=5)
    parser.add_argument("--mooring-kills", type=int, default=5)
    parser.add_argument("--freezes", type=int, default=1)
    parser.add_argument("--take-overs", type=int, default=1)
    parser.add_argument("--full-disks", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the first round; the next ones count on")
    parser.add_argument(
        "--minutes", type=int, default=20, help="of packets; what is left in the end is hurried"
    )
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--add-to", type=Path, metavar="FILE", help="outcomes of parts, a line each")
    return parser


def main(words: Sequence[str]) -> int:
    failures: list[int] = []
    title = "Exactly once, while fragments are moved and sites, Mooring and the disk fail"
    carry_out(
        Measurement("spark_faults", title, prose_of(__doc__), functools.partial(measure, failures)), words
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
