"""A query's latency limit breaks: a stored plan under a lease, planning anew, and never moving.

    python -m lab.benchmarks spark_overlay[:stored|:replan|:none|:agent|:site]

Three embedded sites of half a core each, six fragments with 2 ms of CPU per row, and a query over two of them
that has to be answered within 10 s; calm, it takes two triggers of 4 s. After the calm the CPU quota of its
site is lowered in the control group, behind Mooring's back, to a third of what it was and about half of what
runs there needs: what waits there grows until something moves. `stored` runs with `--adapt overlay`: agents
beside the sites make plans ahead, see the limit break or the site too full, agree on a lease, and the run
session moves. `replan` plans anew with `rod` from all observations in one place; `none` never moves. In
`agent` the agent that proposes is killed while its lease is on, in `site` the Java of the site that it moves
to. A row is one run, and parts that are recorded one after the other at one commit stand in one record.

*Within again* is when the limit held for the rest of the time, by the run's own figure, a mean over the last
five batches, which it tells every five seconds. A run is watched until the limit has held for a minute after
it broke, for 150 s at the most, and 300 s where something is killed. *Detection* is until a site's machine
knows that something is wrong, *choice* until it asks for the first lock of a stored plan, *lease* until the
plan that is made is proposed, *guards* until that is accepted, *move* until it is heard that it is done: all
by the agents' own traces. *Promised* are the tuples under way that the proposer reckons to save. In the end
every table must hold every row that was fed, once.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.benchmarks import _machine
from lab.benchmarks._adapting_run import QUOTA_CORES, AdaptingRun, adapting_run, step_us
from lab.benchmarks._overlay_traces import ReactionTimes, TraceStep, endings, heard, sent, steps_of
from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from mooring.cli.output.result_table import ResultTable, Value

CALM_S = 60.0
WATCHED_S, WATCHED_KILLED_S = 150.0, 300.0
HELD_S = 60.0
"""For which the limit has to hold before nobody watches any more; the guards' pause after a move."""
LOWERED, LOWERED_CORES = "ada", 0.16
QUERY, LIMIT_MS = "quick", 10_000.0
DRAIN_S = 300.0
STORED = ("--adapt", "overlay", "--act", "apply")
WAYS = {
    "stored": STORED,
    "replan": ("--adapt", "replan", "--act", "apply"),
    "none": ("--adapt", "none"),
    "agent": STORED,
    "site": STORED,
}
KILLED = ("agent", "site")
SETTINGS: Mapping[str, object] = {
    "queries": {QUERY: {"reads": "a1", "site": "cleo", "max_latency_ms": LIMIT_MS}},
    "latency_ms": {"ada": {"bea": 5, "cleo": 5}, "bea": {"cleo": 5}},
}
ROWS = Path("out/bench/spark_overlay_rows.jsonl")
"""Of all runs so far, each with its commit."""
OUTCOME = "Seconds from the lowered quota until the limit broke, and until it held for good"
PARTS = "The parts of a stored plan's way, by the agents' traces"


class LatencyWatcher(threading.Thread):
    """The query's latency as the run tells it, and when."""

    def __init__(self, made: AdaptingRun) -> None:
        super().__init__(daemon=True)
        self._run, self._over = made.run, threading.Event()
        self.seen: list[tuple[float, float]] = []
        """Seconds since 1970, and seconds of latency."""

    def run(self) -> None:
        while not self._over.wait(1.0):
            latency_s = ((self._run.status().get("queries") or {}).get(QUERY) or {}).get("latency_s")
            if latency_s is not None:
                self.seen.append((time.time(), latency_s))

    def halt(self) -> None:
        self._over.set()
        self.join()


def is_trouble(step: TraceStep) -> bool:
    """The site is told that it has less than it uses, or that the query is late."""
    asked = heard(step)
    late = asked.get("type") in ("QueryMeasured", "LatencyIs") and asked.get("latency_ms", 0.0) > LIMIT_MS
    less = asked.get("type") == "CapacityMeasured" and asked["usable_cores"] < 2.0 * LOWERED_CORES
    return bool(late or less)


def broke_and_held_s(
    seen: Sequence[tuple[float, float]], begin_s: float
) -> tuple[float | None, float | None]:
    """Seconds until the limit broke, and until it held for the rest of the time; None: never."""
    after = [(at_s, latency_s) for at_s, latency_s in list(seen) if at_s >= begin_s]
    late = [at_s for at_s, latency_s in after if 1e3 * latency_s > LIMIT_MS]
    if not late:
        return None, None
    back = [at_s for at_s, _ in after if at_s > late[-1]]
    return late[0] - begin_s, back[0] - begin_s if back else None


def watch(watcher: LatencyWatcher, begin_s: float, most_s: float) -> None:
    """Until the limit broke and held again long enough."""
    while time.time() < begin_s + most_s:
        _, held_s = broke_and_held_s(watcher.seen, begin_s)
        if held_s is not None and time.time() - begin_s - held_s >= HELD_S:
            return
        time.sleep(1.0)


def strike(made: AdaptingRun, way: str, agents: Path, since_ms: float) -> str:
    """While a lease is on: end who proposed it, or where it moves to."""
    deadline = time.monotonic() + WATCHED_S
    while time.monotonic() < deadline:
        for step in steps_of(agents, since_ms):
            for proposed in sent(step, "Proposed"):
                number = step["site"] if way == "agent" else proposed["plan"]["moves"][0]["to_site"]
                site = list(QUOTA_CORES)[number]
                if way == "agent":
                    pid = json.loads((agents / site / "agent.json").read_text())["pid"]
                else:
                    pid = made.watcher.servers[site]
                os.kill(pid, signal.SIGKILL)
                return f"{way} {site}"
        time.sleep(0.2)
    return "nobody proposed anything"


def drained(made: AdaptingRun) -> bool:
    """Nothing is fed any more, and the quota is as it was: does every row arrive, once?"""
    made.feeder.set_rates({})
    made.lower(LOWERED, QUOTA_CORES[LOWERED])
    deadline = time.monotonic() + DRAIN_S
    while not made.rows_are_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(3.0)
    time.sleep(10.0)  # a row that comes twice may come late
    return made.rows_are_true()


def lived_through(folder: Path, step: float, way: str) -> dict[str, Value]:
    with adapting_run(folder, step, *WAYS[way], settings=SETTINGS) as made:
        watcher, agents = LatencyWatcher(made), folder / ".mooring" / "agents"
        watcher.start()
        time.sleep(CALM_S)
        made.lower(LOWERED, LOWERED_CORES)
        begin_s = time.time()
        struck = strike(made, way, agents, 1e3 * begin_s) if way in KILLED else ""
        watch(watcher, begin_s, WATCHED_KILLED_S if struck else WATCHED_S)
        watcher.halt()
        status, steps = made.run.status(), steps_of(agents, 1e3 * begin_s)
        ledger = (status.get("adapting") or {}).get("ledger", [])
        moves = [f"{move['fragment']} to {move['to']}" for entry in ledger for move in entry["moves"]]
        broke_s, held_s = broke_and_held_s(watcher.seen, begin_s)
        exact = drained(made)
    before = [latency_s for at_s, latency_s in watcher.seen if at_s < begin_s][-20:]
    row: dict[str, Value] = {
        "way": way,
        "calm, s": round(sum(before) / len(before), 1) if before else None,
        "broke after, s": None if broke_s is None else round(broke_s),
        "within again, s": None if held_s is None else round(held_s),
        "at the end, s": round(watcher.seen[-1][1], 1) if watcher.seen else None,
        "moves": ", ".join(moves) or "none",
        "rows true": "yes" if exact else "NO",
        "killed": struck,
    }
    for told in (row, *endings(steps, 1e3 * begin_s), json.dumps(status.get("adapting"))[:3000]):
        print(way, told, file=sys.stderr, flush=True)
    return row | (parts_of(steps, begin_s) if WAYS[way] is STORED else {})


def parts_of(steps: Sequence[TraceStep], begin_s: float) -> dict[str, Value]:
    times = ReactionTimes(steps, 1e3 * begin_s, is_trouble)

    def seconds(ms: float | None) -> float | None:
        return None if ms is None else round(ms / 1e3, 1)

    return {
        "detection, s": seconds(times.detection_ms),
        "choice, ms": None if times.choice_ms is None else round(times.choice_ms, 2),
        "lease, s": seconds(times.lease_ms),
        "guards, s": seconds(times.guards_ms),
        "move, s": seconds(times.move_ms),
        "promised, tuples": None if (promised := times.promised_tuples()) is None else round(promised),
    }


def rows_at(commit: str) -> list[dict[str, Value]]:
    """Of all runs at a commit, in the order of the ways."""
    lines = [json.loads(line) for line in ROWS.read_text().splitlines()]
    rows = [line["row"] for line in lines if line["commit"] == commit]
    return sorted(rows, key=lambda row: list(WAYS).index(str(row["way"])))


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    commit, root = _machine.commit(), Path(tempfile.mkdtemp(prefix="mooring-overlay-"))
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    try:
        step = step_us(root)
        for number, way in enumerate(chosen_parts(words, tuple(WAYS))):
            row = lived_through(root / f"{number}-{way}", step, way)
            with ROWS.open("a") as file:
                file.write(json.dumps({"commit": commit, "row": row}) + "\n")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    rows = rows_at(commit)
    parts = ("detection, s", "choice, ms", "lease, s", "guards, s", "move, s", "promised, tuples")
    yield ResultTable.of(OUTCOME, [{k: v for k, v in row.items() if k not in parts} for row in rows])
    timed = [{k: row[k] for k in ("way", *parts)} for row in rows if row.get("detection, s") is not None]
    if timed:
        yield ResultTable.of(PARTS, timed)


SPARK_OVERLAY = Measurement(
    "spark_overlay",
    "A query's limit breaks: stored plan, replanning, never moving",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(SPARK_OVERLAY, sys.argv[1:])
