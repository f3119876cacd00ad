"""The shipped storage code over a simulated disk.

    python -m lab.benchmarks storage_faults       # or storage_faults:drawn, planted
    python -m lab.benchmarks.storage_faults drawn --schedules 500 --seed 7
    python -m lab.benchmarks.storage_faults --planted

Shipped are ownership and lease, journal, record and edits, channels and their positions, fences, trimming,
merging, and what a run does when it begins, is refreshed or starts over. Modelled are the disk and Spark's
micro-batches. A schedule is what one pipeline of up to five queries lives through: batches, moves, two runs
beside each other, queries that were fenced off and go on, refreshes, clocks that are set, and, at any
operation on the disk, a process that stops or is held up while others go on, a power cut, ENOSPC, EIO or
ESTALE. In a fifth of the schedules Spark syncs nothing; in some, machines go by listings that lag behind.

Drawn: 20,000 in full. In the end every row is in each table once, or (after a power cut where Spark syncs
nothing) the run was refused with the name of a damaged file. Planted: mistakes on purpose, the schedules
until each is found, and what is left of the one that shows it. With `--add-to FILE` outcomes are kept as they
come, and what the file has is not done again; `--schedules 0` only shows what it has.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lab.benchmarks._record import KeptRows, Measurement, carry_out, chosen_parts, prose_of
from lab.storage_faults.campaign import by_seeds, explored
from lab.storage_faults.planted import PLANTED
from mooring.cli.output.result_table import ResultTable

FIRST_SEED, SCHEDULES = 10_000, 20_000
"""Beyond those of the tests."""
MOST_UNTIL_FOUND = 10_000


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    parser = argparse.ArgumentParser(prog="storage_faults")
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--schedules", type=int, default=SCHEDULES)
    parser.add_argument("--seed", type=int, default=FIRST_SEED)
    parser.add_argument("--planted", action="store_true", help="the planted mistakes alone")
    parser.add_argument("--add-to", type=Path, metavar="FILE", help="outcomes so far, a line each")
    given = parser.parse_args(words)
    kept, until_found = KeptRows(given.add_to), MOST_UNTIL_FOUND if given.schedules else 0
    parts: dict[str, Callable[[], Iterator[ResultTable | str]]] = {
        "drawn": lambda: kept.drawn(range(given.seed, given.seed + given.schedules), drawn),
        "planted": lambda: planted(range(given.seed, given.seed + until_found), kept),
    }
    for part in ["planted"] if given.planted else chosen_parts(given.parts, parts):
        yield from parts[part]()


def drawn(seeds: range) -> dict[str, str | float]:
    found = explored(by_seeds(seeds))
    return {
        "schedules": found.schedules,
        "operations": found.operations,
        "refused": found.refused,
        "broken": 0 if found.finding is None else 1,
        "finding": "" if found.finding is None else str(found.finding),
    }


def planted(seeds: range, kept: KeptRows) -> Iterator[ResultTable | str]:
    done = {row["mistake"] for row in kept.of("planted")}
    for bug in PLANTED if seeds else ():
        if (name := bug.__name__.replace("_", " ")) in done:
            continue
        found = explored(by_seeds(seeds), bug)
        row: dict[str, str | float] = {"mistake": name, "schedules": found.schedules, "broken": "nothing"}
        if (finding := found.finding) is not None and finding.outcome.violation is not None:
            row["broken"] = finding.outcome.violation.checker
            row["steps"], row["shrunk_to"] = len(finding.schedule.steps), len(finding.small.steps)
        kept.add("planted", row)
    rows = [{name: row[name] for name in row if name != "part"} for row in kept.of("planted")]
    if rows:
        yield ResultTable.of("Planted mistakes", rows)


STORAGE_FAULTS = Measurement(
    "storage_faults", "The storage over a disk that fails", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(STORAGE_FAULTS, sys.argv[1:])
