"""A query's latency limit breaks: a stored plan under a lease, planning anew, and never moving.

    python -m benchmarks spark_overlay[:stored|:replan|:none|:agent|:site]

Three embedded sites of half a core each, six fragments with 2 ms of CPU per row, and a query over two of them
that has to be answered within 12 s. After the calm the CPU quota of its site is lowered in the control group,
behind Mooring's back, to less than what runs there needs. `stored` runs with `--adapt overlay`: agents beside
the sites make plans ahead, see the limit break or the site too full, agree on a lease, and the run session
moves. `replan` plans anew with `rod` from all observations in one place; `none` never moves. In `agent` the
agent that proposes is killed while its lease is on, in `site` the Java of the site that it moves to.

*Within limits* is by the run's own figure, a mean over the last five batches, which it tells every five
seconds. *Detection* is until a site's machine knows that something is wrong, *choice* until it asks for the
first lock of a stored plan, *lease* until it proposes, *guards* until that is accepted (what is proposed has
to be so at three looks), *move* until it hears that it is done: all by the agents' own traces. In the end
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
from typing import Any

from benchmarks._adapting_run import QUOTA_CORES, AdaptingRun, adapting_run, ledger_of, step_us
from benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from mooring.experiments.result_table import ResultTable, Value

CALM_S = 70.0
WATCHED_S = 120.0
LOWERED, LOWERED_CORES = "ada", 0.25
QUERY, LIMIT_MS = "quick", 12_000.0
DRAIN_S = 300.0
STORED = ("--adapt", "overlay", "--act", "apply")
WAYS = {
    "stored": STORED,
    "replan": ("--adapt", "replan", "--act", "apply"),
    "none": ("--adapt", "none"),
    "agent": STORED,
    "site": STORED,
}
SETTINGS: Mapping[str, object] = {
    "queries": {QUERY: {"reads": "a1", "site": "cleo", "max_latency_ms": LIMIT_MS}},
    "latency_ms": {"ada": {"bea": 5, "cleo": 5}, "bea": {"cleo": 5}},
}
PARTS_OF_IT = ("detection", "choice", "lease", "guards", "move")


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


def steps_of(agents: Path, since_ms: float) -> list[dict[str, Any]]:
    """What the machines of all sites did, in the order of time."""
    found = []
    for trace in agents.glob("*/trace.jsonl"):
        for line in trace.read_text(errors="replace").splitlines():
            if '"overlay"' in line and (step := json.loads(line))["time_ms"] >= since_ms:
                found.append(step)
    return sorted(found, key=lambda step: float(step["time_ms"]))


def is_trouble(step: Mapping[str, Any]) -> bool:
    """The site is told that it has less than it uses, or that the query is late."""
    asked = step["event"].get("request") or step["event"].get("message") or {}
    late = asked.get("type") in ("QueryMeasured", "LatencyIs") and asked.get("latency_ms", 0.0) > LIMIT_MS
    less = asked.get("type") == "CapacityMeasured" and asked["usable_cores"] < LOWERED_CORES
    return bool(late or less)


def sends(step: Mapping[str, Any], kind: str) -> bool:
    return any((effect.get("message") or {}).get("type") == kind for effect in step["effects"])


def hears(step: Mapping[str, Any], kind: str) -> bool:
    return bool((step["event"].get("message") or {}).get("type") == kind)


def parts_s(steps: Sequence[Mapping[str, Any]], begin_s: float) -> dict[str, float | None]:
    """How long each part of it took; of a lease that led to a move."""

    def first_s(after_s: float | None, found: Any, last: bool = False) -> float | None:
        times = [s["time_ms"] / 1e3 for s in steps if after_s is not None and s["time_ms"] / 1e3 >= after_s]
        marks = [s["time_ms"] / 1e3 for s in steps if found(s) and s["time_ms"] / 1e3 in times]
        return (marks[-1] if last else marks[0]) if marks else None

    known_s = first_s(begin_s, is_trouble)
    accepted_s = first_s(known_s, lambda s: hears(s, "Accepted"))
    before = [s for s in steps if accepted_s is not None and s["time_ms"] / 1e3 <= accepted_s]
    proposals = [s for s in before if sends(s, "Proposed") and not sends_again(s, before)]
    proposed_s = proposals[-1]["time_ms"] / 1e3 if proposals else None
    asked = [
        s["time_ms"] / 1e3 for s in before if sends(s, "RequestLock") and s["event"]["type"] != "Received"
    ]
    sought = [s for s in asked if proposed_s is not None and s <= proposed_s]
    chosen_s = sought[0] if sought else first_s(known_s, lambda s: sends(s, "RequestLock"))
    done_s = first_s(accepted_s, lambda s: hears(s, "Done"))
    marks = [begin_s, known_s, chosen_s, proposed_s, accepted_s, done_s]
    return {
        part: None if a is None or b is None else round(b - a, 2)
        for part, a, b in zip(PARTS_OF_IT, marks, marks[1:], strict=False)
    }


def sends_again(step: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> bool:
    """A proposal is repeated until it is answered; only its first time counts."""
    ids = [e["message"]["id"] for e in step["effects"] if (e.get("message") or {}).get("type") == "Proposed"]
    return any(
        (effect.get("message") or {}).get("type") == "Proposed" and effect["message"]["id"] in ids
        for other in steps
        if other["time_ms"] < step["time_ms"]
        for effect in other["effects"]
    )


def within_again_s(seen: Sequence[tuple[float, float]], begin_s: float) -> tuple[float | None, float | None]:
    """Seconds until the limit broke, and until it held for the rest of the time; None: never."""
    after = [(at_s, ms_s) for at_s, ms_s in seen if at_s >= begin_s]
    late = [at_s for at_s, ms_s in after if 1e3 * ms_s > LIMIT_MS]
    if not late:
        return None, 0.0
    back = [at_s for at_s, _ in after if at_s > late[-1]]
    return late[0] - begin_s, back[0] - begin_s if back else None


def strike(made: AdaptingRun, way: str, agents: Path, since_ms: float) -> str:
    """While a lease is on: end who proposed it, or where it moves to."""
    deadline = time.monotonic() + WATCHED_S
    while time.monotonic() < deadline:
        for step in steps_of(agents, since_ms):
            for effect in step["effects"]:
                message = effect.get("message") or {}
                if message.get("type") == "Proposed":
                    names = list(QUOTA_CORES)
                    site = names[step["site"] if way == "agent" else message["plan"]["moves"][0]["to_site"]]
                    if way == "agent":
                        pid = json.loads((agents / site / "agent.json").read_text())["pid"]
                    else:
                        pid = made.watcher.servers[site]
                    os.kill(pid, signal.SIGKILL)
                    return f"{way} {site}"
        time.sleep(0.5)
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
        begin_s, struck = time.time(), ""
        if way in ("agent", "site"):
            struck = strike(made, way, agents, 1e3 * begin_s)
        time.sleep(max(0.0, begin_s + WATCHED_S - time.time()))
        watcher.halt()
        status, steps = made.run.status(), steps_of(agents, 1e3 * begin_s)
        moves = [
            f"{move['fragment']} to {move['to']}" for entry in ledger_of(made.run) for move in entry["moves"]
        ]
        broke_s, back_s = within_again_s(watcher.seen, begin_s)
        exact = drained(made)
    before = [s for at_s, s in watcher.seen if at_s < begin_s][-20:]
    row: dict[str, Value] = {
        "way": way,
        "calm, s": round(sum(before) / len(before), 1) if before else None,
        "broke after, s": None if broke_s is None else round(broke_s),
        "within again, s": None if back_s is None else round(back_s),
        "at the end, s": round(watcher.seen[-1][1], 1) if watcher.seen else None,
        "moves": ", ".join(moves) or "none",
        "rows true": "yes" if exact else "NO",
        "killed": struck,
    }
    timed = parts_s(steps, begin_s) if way == "stored" or struck else {}
    print(way, row, timed, json.dumps(status.get("adapting"))[:1500], file=sys.stderr, flush=True)
    return {**row, **{f"{part}, s": timed.get(part) for part in PARTS_OF_IT}}


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    parts = chosen_parts(words, tuple(WAYS))
    root, rows = Path(tempfile.mkdtemp(prefix="mooring-overlay-")), list[dict[str, Value]]()
    try:
        step = step_us(root)
        for way in parts:
            rows.append(lived_through(root / way, step, way))
        outcome = [{k: v for k, v in row.items() if k.removesuffix(", s") not in PARTS_OF_IT} for row in rows]
        yield ResultTable.of(
            "Seconds from the lowered quota until the limit broke, and until it held", outcome
        )
        timed = [
            {k: v for k, v in row.items() if k == "way" or k.removesuffix(", s") in PARTS_OF_IT}
            for row in rows
            if row["detection, s"] is not None
        ]
        if timed:
            yield ResultTable.of("The parts of a stored plan's way, by the agents' traces", timed)
    finally:
        shutil.rmtree(root, ignore_errors=True)


SPARK_OVERLAY = Measurement(
    "spark_overlay",
    "A query's limit breaks: stored plan, replanning, never moving",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(SPARK_OVERLAY, sys.argv[1:])
