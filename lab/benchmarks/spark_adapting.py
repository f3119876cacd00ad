"""Does a run adapt by itself? A flood, then a quota halved, beside never moving anything.

    python -m lab.benchmarks spark_adapting[:flood|:quota]

Three embedded sites of half a core each, held by control groups, and six fragments with 2 ms of CPU per row.
The project runs in the background with `--adapt headroom --act apply`, and nobody touches it. After 90 s
stream `a` brings three times as many rows, more than its site can take. Two minutes later the control group
of the site that took something over is halved, behind Mooring's back. The same happens to a run with
`--adapt none`.

The headroom is the run's own figure, at the rates it measures and with the costs it has found; *back after*
is when it was above 1.25 for good. Shares of a site's quota are read from /proc by the benchmark. The ledger
holds what moves promised of the loads of the sites they touched, at the rates that came, against what was
measured. In the end every table must hold every row that was fed, once. The sites' control groups are given
all the weight there is, so that on a busy machine they get the CPU that their quotas allow.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.benchmarks._adapting_run import (
    AdaptingRun,
    Sight,
    adapting_run,
    busiest,
    ledger_of,
    load_errors,
    step_us,
)
from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from mooring.cli.output.result_table import ResultTable, Value

CALM_S = 90.0
PHASE_S = 120.0
LAST_S = 30.0
"""At the end of a phase, that its figures are taken from."""
ENOUGH = 1.25
FLOOD = {"a": 3.0}
HALVED = "cleo"
PARTS = ("flood", "quota")
WAYS = {"headroom": ("--adapt", "headroom", "--act", "apply"), "none": ("--adapt", "none")}
DRAIN_S = 240.0


def back_after_s(sights: Sequence[Sight], begin_s: float, end_s: float) -> float | None:
    """Seconds from the beginning of a phase until the headroom was enough for the rest of it; None: never.
    It has to have been seen too small before.
    """
    inside = [s for s in sights if begin_s <= s.at_s < end_s and s.headroom is not None]
    short = [s.at_s for s in inside if s.headroom is not None and s.headroom < ENOUGH]
    if not short:
        return 0.0
    after = [s.at_s for s in inside if s.at_s > short[-1]]
    return after[0] - begin_s if after else None


def happen(made: AdaptingRun, part: str) -> None:
    if part == "flood":
        made.flood(FLOOD)
    else:
        made.halve(HALVED)


def lived_through(
    folder: Path, step: float, way: str, parts: Sequence[str]
) -> tuple[list[dict[str, Value]], str]:
    """One run: calm, then each part; returns a row per phase, and what to say of ledger and rows."""
    rows: list[dict[str, Value]] = []
    with adapting_run(folder, step, *WAYS[way]) as made:
        begin_s, moves = made.watcher.now_s, 0
        for part in ("calm", *parts):
            if part != "calm":
                happen(made, part)
            length_s = CALM_S if part == "calm" else PHASE_S
            time.sleep(max(0.0, begin_s + length_s - made.watcher.now_s))
            end_s, sights = made.watcher.now_s, made.watcher.sights
            rows.append(phase_row(way, part, sights, begin_s, end_s, moves))
            begin_s, moves = end_s, sights[-1].moves
        entries = ledger_of(made.run)
        made.feeder.set_rates({})
        exact = drained(made)
    return rows, said_of(way, entries, exact)


def phase_row(
    way: str, part: str, sights: Sequence[Sight], begin_s: float, end_s: float, moves_before: int
) -> dict[str, Value]:
    last = [s.headroom for s in sights if end_s - LAST_S <= s.at_s and s.headroom is not None]
    back_s = None if part == "calm" else back_after_s(sights, begin_s, end_s)
    return {
        "way": way,
        "phase": part,
        "least headroom": min((s.headroom for s in sights if begin_s <= s.at_s and s.headroom), default=None),
        "headroom at the end": statistics.median(last) if last else None,
        "back after, s": None if back_s is None else round(back_s),
        "busiest site at the end": f"{busiest(sights, end_s - LAST_S, end_s):.0%}",
        "moves": sights[-1].moves - moves_before,
    }


def drained(made: AdaptingRun) -> bool:
    """Nothing is fed any more: does every row arrive, once?"""
    deadline = time.monotonic() + DRAIN_S
    while not made.rows_are_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(3.0)
    time.sleep(10.0)  # a row that comes twice may come late
    return made.rows_are_true()


def said_of(way: str, entries: Sequence[dict[str, object]], exact: bool) -> str:
    errors = load_errors(entries)
    held = "is" if exact else "is NOT"
    told = f"{way}: every row that was fed {held} in every table that should have it, once."
    if errors:
        told += (
            f" Loads of the sites that moves touched were off by {max(errors):.0%} at most from what was "
            f"promised, {statistics.median(errors):.0%} in the median ({len(errors)} figures of "
            f"{len(entries)} lists)."
        )
    for entry in entries:
        moves = entry["moves"]
        assert isinstance(moves, list)
        what = ", ".join(f"{move['fragment']} from {move['from']} to {move['to']}" for move in moves)
        told += f" Moved {what}: {entry['verdict']}."
    return told


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    parts = chosen_parts(words, PARTS)
    root, rows, sayings = Path(tempfile.mkdtemp(prefix="mooring-adapting-")), list[dict[str, Value]](), []
    try:
        step = step_us(root)
        for way in WAYS:
            own, told = lived_through(root / way, step, way, parts)
            rows += own
            sayings.append(told)
            print(told, file=sys.stderr, flush=True)
        yield ResultTable.of("Each phase, and the time until there was room again", rows)
        yield from sayings
    finally:
        shutil.rmtree(root, ignore_errors=True)


SPARK_ADAPTING = Measurement(
    "spark_adapting", "A flood, then a quota halved, and nobody touches anything", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(SPARK_ADAPTING, sys.argv[1:])
