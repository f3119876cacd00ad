"""The shipped run session under crashes after every effect.

    python -m lab.benchmarks session_faults       # or session_faults:drawn, systematic, twice, planted
    python -m lab.benchmarks.session_faults drawn --schedules 500 --seed 7
    python -m lab.benchmarks.session_faults --planted

The session, its journal, recovery, moves, fences and ownership are the shipped ones, over queries that stand
in for Spark's. An effect is whatever changes something outside the process: a record of the journal, a fence,
a query started or stopped, a note. Drawn: 5,000 in full, of requests (moves, sites emptied, stops, new
plans), crashes, torn records, owners that stand still while a standby takes over, lists of moves and the loop
side by side, and sites that are silent, late, frozen or dead. Systematic: five runs, each again with one
thing going wrong after each of its effects. Twice: each of them with a crash after every effect and a second
one after every effect of the recovery. After each effect and at the end the invariants are checked. Planted:
bugs on purpose, the schedules until each is found, and what is left of the one that shows it. With `--add-to
FILE` outcomes are kept as they come, and what the file has is not done again; `--schedules 0` only shows what
it has.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.benchmarks._record import KeptRows, Measurement, carry_out, chosen_parts, prose_of
from lab.session_faults.campaign import (
    BASES,
    FaultsAt,
    at_every_effect,
    by_seeds,
    crashes_twice,
    every_fault,
    explored,
)
from lab.session_faults.planted import PLANTED
from lab.session_faults.schedule import Event
from mooring.cli.output.result_table import ResultTable

FIRST_SEED, SCHEDULES = 10_000, 5000
"""Beyond those of the tests."""
MOST_UNTIL_FOUND = 2000


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    parser = argparse.ArgumentParser(prog="session_faults")
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--schedules", type=int, default=SCHEDULES)
    parser.add_argument("--seed", type=int, default=FIRST_SEED)
    parser.add_argument("--planted", action="store_true", help="the planted bugs alone")
    parser.add_argument("--add-to", type=Path, metavar="FILE", help="outcomes so far, a line each")
    given = parser.parse_args(words)
    bases = BASES if given.schedules else {}
    kept, until_found = KeptRows(given.add_to), MOST_UNTIL_FOUND if given.schedules else 0
    parts: dict[str, Callable[[], Iterator[ResultTable | str]]] = {
        "drawn": lambda: kept.drawn(range(given.seed, given.seed + given.schedules), drawn),
        "systematic": lambda: systematic("Every fault at every effect", every_fault, bases, kept),
        "twice": lambda: systematic(
            "A crash at every effect, and another in the recovery", crashes_twice, bases, kept
        ),
        "planted": lambda: planted(range(given.seed, given.seed + until_found), kept),
    }
    for part in ["planted"] if given.planted else chosen_parts(given.parts, parts):
        yield from parts[part]()


def drawn(seeds: range) -> dict[str, str | float]:
    found = explored(by_seeds(seeds))
    return {
        "schedules": found.schedules,
        "effects": found.effects,
        "broken": 0 if found.finding is None else 1,
        "finding": "" if found.finding is None else str(found.finding),
    }


def systematic(
    title: str, faults_at: FaultsAt, bases: Mapping[str, tuple[Event, ...]], kept: KeptRows
) -> Iterator[ResultTable | str]:
    done = {row["run"] for row in kept.of(title)}
    for name, base in bases.items():
        if name not in done:
            found = explored(at_every_effect(base, faults_at))
            broken = 0 if found.finding is None else 1
            row = {"run": name, "runs": found.schedules, "effects": found.effects, "broken": broken}
            kept.add(title, {**row, "finding": "" if found.finding is None else str(found.finding)})
    if rows := _shown(kept, title):
        yield ResultTable.of(title, rows)
    yield from (row["finding"] for row in kept.of(title) if row["finding"])


def planted(seeds: range, kept: KeptRows) -> Iterator[ResultTable | str]:
    done = {row["bug"] for row in kept.of("planted")}
    for bug in PLANTED if seeds else ():
        if bug.__name__ in done:
            continue
        found = explored(by_seeds(seeds), bug)
        row: dict[str, str | float] = {"bug": bug.__name__, "schedules": found.schedules, "broken": "nothing"}
        if (finding := found.finding) is not None and finding.outcome.violation is not None:
            row["broken"] = finding.outcome.violation.checker
            row["events"], row["shrunken_to"] = len(finding.schedule.events), len(finding.small.events)
        kept.add("planted", row)
    if rows := _shown(kept, "planted"):
        yield ResultTable.of("Planted bugs", rows)


def _shown(kept: KeptRows, part: str) -> list[dict[str, Any]]:
    return [{name: row[name] for name in row if name not in ("part", "finding")} for row in kept.of(part)]


SESSION_FAULTS = Measurement(
    "session_faults", "The run session under crashes after every effect", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(SESSION_FAULTS, sys.argv[1:])
