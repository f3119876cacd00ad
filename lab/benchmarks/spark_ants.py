"""Do ants keep latency low on Spark? A burst, a lowered quota and a killed site, beside never moving.

    python -m lab.benchmarks spark_ants[:1.1|:1.5|:none]
    python -m lab.benchmarks spark_ants:kept --record      what those runs of the same commit kept, together

Three embedded sites of half a core each and two queries, one behind three fragments that begin together at
ada, one behind two at bea (`lab/benchmarks/_ants_run.py`). After a calm time stream `a` brings five times as
many rows, more than ada can take; then the CPU quota of bea is lowered to .12 cores, behind Mooring's
back; then the agent of bea and the server of cleo are killed. Recovery starts at the other two what ran at
cleo, more than they can take; cleo comes back empty, and guards let nothing move for 30 s. The same happens
to a run that never moves anything, and to runs with `--adapt ants --act apply` for two values of beta, whose
ants are in agents beside the sites.

Latency is from when a row lands to when the file with its result is there, by what is stored in the end: the
mean of the rows that landed within a time. Bytes of ants are those that their agents have sent, bytes of
channels those of all files that fragments have written. In the end every row has to be in its table, once.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lab.benchmarks import _machine
from lab.benchmarks._adapting_run import step_us
from lab.benchmarks._ants_run import AntsRun, Arrival, ants_run, mean_latency_s
from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from mooring.cli.output.result_table import ResultTable, Value

ANTS = ("--adapt", "ants", "--act", "apply", "--guard", "pause_s=30", "--guard", "moves_of_one_per_hour=6")
WAYS: Mapping[str, Sequence[str]] = {
    "1.1": (*ANTS, "--adapt-set", "beta=1.1"),
    "1.5": (*ANTS, "--adapt-set", "beta=1.5"),
    "none": ("--adapt", "none"),
}
KEPT = "kept"
KEPT_IN = _machine.ROOT / "out" / "bench" / "spark_ants"
PHASES_S = {"calm": 60.0, "burst": 90.0, "lowered": 75.0, "killed": 90.0}
LAST_S = 30.0
"""At the end of a phase, that its latency is taken from."""
BIN_S = 30.0
DRAIN_S = 300.0


def happen(made: AntsRun, phase: str) -> None:
    if phase == "burst":
        made.feed({"a0": 5.0})
    elif phase == "lowered":
        made.lower("bea", 0.12)
    elif phase == "killed":
        made.kill_agent("bea")
        made.kill_site("cleo")


def drained(made: AntsRun) -> bool:
    """Nothing is fed any more: does every row arrive, once?"""
    made.feeder.set_rates({})
    deadline = time.monotonic() + DRAIN_S
    while not made.rows_are_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(3.0)
    time.sleep(2.0 * 4.0)  # a row that comes twice may come late
    return made.rows_are_true()


@dataclass(frozen=True)
class Lived:
    """One run through all phases, and what came of it."""

    way: str
    commit: str
    ends: Mapping[str, float]
    moves: Mapping[str, Sequence[str]]
    agents_cpu_s: float
    """Until something was killed."""
    exact: bool
    ant_bytes: int
    channel_bytes: int
    arrivals: Mapping[str, Sequence[Arrival]]

    def row(self, phase: str) -> dict[str, Value]:
        end_s = self.ends[phase]
        return {
            "way": self.way if phase == "calm" else None,
            "phase": phase,
            **{
                f"{leaf}, s": mean_latency_s(own, end_s - LAST_S, end_s)
                for leaf, own in self.arrivals.items()
            },
            "moves": len(self.moves[phase]),
            "which": ", ".join(self.moves[phase]),
        }

    def sums(self) -> dict[str, Value]:
        both = [arrival for own in self.arrivals.values() for arrival in own]
        end_s = self.ends["lowered"]
        return {
            "way": self.way,
            "mean latency of all rows, s": mean_latency_s(both, 0.0, end_s),
            "moves": sum(len(own) for own in self.moves.values()),
            "three agents, cores": self.agents_cpu_s / end_s if self.agents_cpu_s else None,
            "ants, kB": round(self.ant_bytes / 1e3) if self.ant_bytes else None,
            "channels, kB": round(self.channel_bytes / 1e3),
            "rows equal": "yes" if self.exact else "NO",
        }


def live(folder: Path, step: float, way: str) -> Lived:
    ends, all_moves = dict[str, float](), dict[str, Sequence[str]]()
    with ants_run(folder, step, *WAYS[way]) as made:
        seen, cpu_s = 0, 0.0
        for phase, length_s in PHASES_S.items():
            begin_s = made.now_s
            happen(made, phase)
            time.sleep(max(0.0, begin_s + length_s - made.now_s))
            moves = made.moves()
            all_moves[phase], seen = moves[seen:], len(moves)
            ends[phase] = made.now_s
            if phase == "lowered":
                cpu_s = made.agents_cpu_s()
            print(f"{way} {phase}: {all_moves[phase]}", file=sys.stderr, flush=True)
        return Lived(
            way,
            _machine.commit(),
            ends,
            all_moves,
            cpu_s,
            drained(made),
            made.ant_bytes(),
            made.channel_bytes(),
            {leaf: made.arrivals(leaf) for leaf in ("a2", "b1")},
        )


def lived(ways: Sequence[str]) -> list[Lived]:
    """Run them, and keep what came of it."""
    root = Path(tempfile.mkdtemp(prefix="mooring-ants-"))
    KEPT_IN.mkdir(parents=True, exist_ok=True)
    runs = list[Lived]()
    try:
        step = step_us(root)
        for way in ways:
            runs.append(live(root / f"way{len(runs)}", step, way))
            (KEPT_IN / f"{way}.json").write_bytes(msgspec.json.encode(runs[-1]))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return runs


def kept() -> list[Lived]:
    """Of all ways; they have to be of the commit that is checked out."""
    runs = []
    for way in WAYS:
        file = KEPT_IN / f"{way}.json"
        if not file.exists():
            sys.exit(f"{file} is not there: run `python -m lab.benchmarks spark_ants:{way}` first")
        run = msgspec.json.decode(file.read_bytes(), type=Lived)
        if run.commit != _machine.commit():
            sys.exit(f"{file} is of {run.commit}, and {_machine.commit()} is checked out: run it again")
        runs.append(run)
    return runs


def course(runs: Sequence[Lived]) -> list[dict[str, Value]]:
    """Latency of both queries over time."""
    rows: list[dict[str, Value]] = []
    last_s = min(run.ends["killed"] for run in runs)
    at_s = 0.0
    while at_s + BIN_S <= last_s:
        row: dict[str, Value] = {"landed, s": f"{at_s:.0f} to {at_s + BIN_S:.0f}"}
        for leaf in ("a2", "b1"):
            for run in runs:
                row[f"{leaf}, {run.way}"] = mean_of(run.arrivals[leaf], at_s)
        rows.append(row)
        at_s += BIN_S
    return rows


def mean_of(arrivals: Sequence[Arrival], at_s: float) -> float | None:
    return mean_latency_s(arrivals, at_s, at_s + BIN_S)


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    chosen = chosen_parts(words, [*WAYS, KEPT])
    runs = kept() if KEPT in words else lived([way for way in chosen if way != KEPT])
    yield ResultTable.of(
        f"Latency at the end of each phase, mean over its last {LAST_S:.0f} s, and moves",
        [run.row(phase) for run in runs for phase in PHASES_S],
    )
    yield ResultTable.of("Latency over time, s", course(runs))
    yield ResultTable.of(
        "Latency and CPU until something is killed; moves, bytes and rows to the end",
        [run.sums() for run in runs],
    )


SPARK_ANTS = Measurement(
    "spark_ants",
    "A burst, a lowered quota and a killed site, with and without ants",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(SPARK_ANTS, sys.argv[1:])
