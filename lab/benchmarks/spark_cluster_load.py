"""A standalone cluster as a site: is its load true, and is busy not lost?

    python -m lab.benchmarks spark_cluster_load[:load,headroom,blocked,workers,parallel]

A master, three workers of one core and a Connect server run on this machine, out of the Spark of `pip
install`. One pipeline runs there: an ingest `x` and a windowed count `counts` of it, at a trigger of 5 s.
Beside the cluster is an embedded site of half a core, to which fragments may go. Costs are not stated.

- *load*: steady, idle and full, 180 s each. *Shown* is the mean of what the status shows of each look: the
  executors by the CPU of tasks, the driver by its own metric. *By /proc* is the CPU of their processes.
- *headroom*: what the status shows at the usual rate, and the factor of the rate at which the cluster falls
  behind: batches longer than the trigger in the second half of a step, or rows that wait beyond two triggers.
  Rates rise by 15% every 20 s.
- *blocked*: a batch job of somebody else holds all slots for five minutes.
- *workers*: a worker is killed, all are, then three are added.
- *parallel*: rows per second of `counts` alone, catching up on 600,000 rows that are there, with one, two and
  three workers; three on two CPUs share them with the driver.

With `MOORING_CLUSTER_UI=no` the site has no `ui`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

from examples.cluster.standalone import Cluster
from lab.benchmarks._headroom_pipelines import WINDOW, Flow, Pipeline
from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from lab.benchmarks._user_run import UserRun
from lab.quota_bench.feeder import Feeder
from mooring.cli.output.result_table import ResultTable, Value
from mooring.spark.sites.process_tree import tree_usage

TRIGGER_S = 5.0
PHASE_S = 180.0
USUAL = 300.0
"""Rows per second."""
STEPS = 15_000
"""Of the fold that `counts` does for each row."""
RISE, RISE_S, MOST = 1.15, 20.0, 40.0
BLOCKED_S = 300.0
CATCH_UP = 600_000
SETTLES_S = 60.0
SITE, SMALL = "cluster", "ada"
_FILLER = """
import sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
until = time.time() + float(sys.argv[2])
while time.time() < until:  # tasks of a few seconds, so that the fair scheduler has none to give in between
    spark.range(0, 12, 1, 12).selectExpr("java_method('java.lang.Thread', 'sleep', 20000L)").collect()
"""


@dataclass
class Trial:
    cluster: Cluster
    run: UserRun
    feeder: Feeder
    looks: list[dict[str, Any]] = field(default_factory=list)

    def watch(self, seconds: float) -> list[dict[str, Any]]:
        """The looks of so long, each with what was fed and the CPU of the cluster's processes until then."""
        deadline, seen = time.monotonic() + seconds, list[dict[str, Any]]()
        while (left := deadline - time.monotonic()) > 0.0:
            time.sleep(min(left, 0.3))
            status = self.run.status()
            if "at_s" in status and (not self.looks or status["at_s"] != self.looks[-1]["at_s"]):
                status |= {"fed": self.feeder.fed(), "cpu": self.cpu_s(), "seen_s": time.monotonic()}
                self.looks.append(status)
                seen.append(status)
                self.feeder.remove_read({"x": _rows_in(status, "x")})
        return seen

    def cpu_s(self) -> dict[str, float]:
        """Of the driver, and of all executors together."""
        assert self.cluster.server is not None
        executors = [tree_usage(pid) for pid in self.cluster.executors()]
        driver = tree_usage(self.cluster.server.pid)
        return {
            "driver": 0.0 if driver is None else driver.cpu_s,
            "executors": sum(usage.cpu_s for usage in executors if usage is not None),
        }


def _rows_in(status: dict[str, Any], fragment: str) -> int:
    return int((status["fragments"].get(fragment) or {}).get("rows_in") or 0)


def _site(status: dict[str, Any]) -> dict[str, Any]:
    return dict((status.get("sites") or {}).get(SITE) or {})


def _names(status: dict[str, Any]) -> str:
    return ", ".join(sorted({str(name) for name in status.get("troubles") or {}}))


@contextlib.contextmanager
def trial(folder: Path, *, workers: int = 3, options: Sequence[str] = ()) -> Iterator[Trial]:
    """The pipeline at the cluster, fed at the usual rate."""
    with Cluster(folder / "cluster", workers=workers) as cluster:
        token = folder / "token"
        token.touch(0o600)
        token.write_text(cluster.token)
        site: dict[str, Any] = {
            "capacity": workers,
            "connect": {"url": cluster.address, "token_file": str(token)},
        }
        if os.environ.get("MOORING_CLUSTER_UI") != "no":
            site["ui"] = cluster.ui
        pipeline = Pipeline(
            "clustered",
            "an ingest and a windowed count",
            [Flow("x"), Flow("counts", "x", STEPS, WINDOW)],
            {"x": USUAL},
            {SITE: workers, SMALL: 0.5},
            {"x": SITE, "counts": SITE},
            {"trigger_s": TRIGGER_S, "sites": {SITE: site, SMALL: {"capacity": 0.5}}},
        )
        project = folder / "project"
        project.mkdir()
        landing = pipeline.write(project, 1.0)
        (project / "mooring.json").chmod(0o600)
        run, feeder = UserRun(project), Feeder(landing, ["x"])
        feeder.set_rates({"x": USUAL})
        run.start(2, "--placement", str(project / "plan.json"), *options)
        made = Trial(cluster, run, feeder)
        try:
            with feeder.feeding():
                yield made
        finally:
            with contextlib.suppress(RuntimeError):
                run.stop()
            run.kill()


def load(folder: Path) -> Iterator[ResultTable | str]:
    rows: list[dict[str, Value]] = []
    with trial(folder) as it:
        it.watch(SETTLES_S)
        for phase, rate in (("steady", USUAL), ("idle", 0.0), ("full", 12.0 * USUAL)):
            it.feeder.set_rates({"x": rate})
            it.watch(3 * TRIGGER_S if rate else 40.0)
            seen = it.watch(PHASE_S)
            rows.append({"phase": phase, **_held(seen)})
    yield ResultTable.of("Load of the cluster in cores: shown over by /proc", rows)


def _held(seen: Sequence[dict[str, Any]]) -> dict[str, Value]:
    first, last = seen[0], seen[-1]
    seconds = last["seen_s"] - first["seen_s"]
    by_proc = {name: (last["cpu"][name] - first["cpu"][name]) / seconds for name in ("executors", "driver")}
    sites = [_site(each) for each in seen[1:]]
    shown = {
        "executors": _mean([each.get("load_cores") for each in sites]),
        "driver": _mean([each.get("driver_cores") for each in sites]),
    }
    fragments = {
        name: _mean([(each["fragments"].get(name) or {}).get("cores") for each in seen[1:]])
        for name in ("x", "counts")
    }
    found: dict[str, Value] = {"looks": len(seen)}
    for name in ("executors", "driver"):
        said, used = shown[name], by_proc[name]
        found[f"{name}, shown"], found[f"{name}, /proc"] = said, used
        found[f"{name}, ratio"] = said / used if said is not None and used > 0.0 else None
    both = [value for value in shown.values() if value is not None]
    total = sum(by_proc.values())
    found["both, ratio"] = sum(both) / total if both and total > 0.0 else None
    return {**found, **fragments, "of": median(each.get("capacity_cores") or 0.0 for each in sites)}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def headroom(folder: Path) -> Iterator[ResultTable | str]:
    with trial(folder) as it:
        for times in (1.0, 1.0, 2.0, 0.5, 1.5, 3.0, 1.0):
            it.feeder.set_rates({"x": times * USUAL})
            it.watch(25.0)
        last: dict[str, Any] = it.watch(45.0)[-1].get("headroom") or {}
        low, factor = last.get("low"), last.get("factor")
        behind: float | None = None
        k = max(0.5, 0.5 * float(factor or 1.0))
        while k < MOST:
            it.feeder.set_rates({"x": k * USUAL})
            seen = it.watch(RISE_S)
            if _falls_behind(seen[len(seen) // 2 :], k):
                behind = k
                break
            k *= RISE
        measured = None if behind is None else behind / RISE**0.5
        row: dict[str, Value] = {
            "shown": factor,
            "low": low,
            "high": last.get("high"),
            "words": last.get("words"),
            "fell behind at": measured,
            "shown over measured": None if factor is None or measured is None else factor / measured,
        }
        at_end = _site(it.looks[-1])
        row |= {"load then": at_end.get("load_cores"), "of": at_end.get("capacity_cores")}
    yield ResultTable.of("Headroom, and the factor at which the cluster falls behind", [row])


def _falls_behind(seen: Sequence[dict[str, Any]], k: float) -> bool:
    slow = [
        each
        for each in seen
        if max((f.get("batch_s") or 0.0) for f in each["fragments"].values()) > TRIGGER_S
    ]
    waits = [each["fed"]["x"] - _rows_in(each, "counts") for each in seen]
    return len(slow) >= 2 or (bool(waits) and min(waits) > 5.0 * TRIGGER_S * k * USUAL)


def blocked(folder: Path) -> Iterator[ResultTable | str]:
    with trial(folder) as it:
        it.watch(SETTLES_S)
        filler = subprocess.Popen(
            [sys.executable, "-c", _FILLER, it.cluster.url, str(BLOCKED_S)], stderr=subprocess.DEVNULL
        )
        try:
            seen = it.watch(BLOCKED_S)
        finally:
            filler.kill()
            filler.wait()
        after = it.watch(120.0)
    yield _story("Others hold all slots for five minutes", [("held", seen), ("after", after)], it)


def workers(folder: Path) -> Iterator[ResultTable | str]:
    with trial(folder) as it:
        it.watch(SETTLES_S)
        parts = [("three", it.watch(30.0))]
        it.cluster.kill_worker(0)
        parts.append(("one killed", it.watch(60.0)))
        for number in (1, 2):
            it.cluster.kill_worker(number)
        parts.append(("all killed", it.watch(150.0)))
        for _ in range(3):
            it.cluster.begin_worker()
        parts.append(("three added", it.watch(150.0)))
    yield _story("Workers killed and added", parts, it)


def _story(title: str, parts: Sequence[tuple[str, Sequence[dict[str, Any]]]], it: Trial) -> ResultTable:
    rows: list[dict[str, Value]] = []
    for name, seen in parts:
        places = {json.dumps(each.get("placement"), sort_keys=True) for each in seen}
        troubles = dict.fromkeys(trouble for each in seen for trouble in _names(each).split(", ") if trouble)
        named = [k for k, each in enumerate(seen) if "blocked site" in _names(each)]
        lost = [each for each in seen if "site lost" in _names(each) or f"site {SITE}" in _names(each)]
        sites = [_site(each) for each in seen]
        rows.append(
            {
                "part": name,
                "looks": len(seen),
                "lost": len(lost),
                "first named at look": named[0] + 1 if named else None,
                "load, most": max((each.get("load_cores") or 0.0 for each in sites), default=0.0),
                "of, at the end": sites[-1].get("capacity_cores") if sites else None,
                "executors": sites[-1].get("executors") if sites else None,
                "headroom": _words(seen[-1]) if seen else None,
                "placements": len(places),
                "rows fed": it.feeder.fed()["x"],
                "rows read": _rows_in(seen[-1], "counts") if seen else None,
                "troubles": "; ".join(troubles),
            }
        )
    return ResultTable.of(title, rows)


def _words(status: dict[str, Any]) -> str:
    return str((status.get("headroom") or {}).get("words"))


def parallel(folder: Path) -> Iterator[ResultTable | str]:
    rows: list[dict[str, Value]] = []
    for count in (1, 2, 3):
        with trial(folder / str(count), workers=count) as it:
            it.watch(40.0)
            it.feeder.set_rates({"x": 0.0})
            before = _rows_in(it.watch(15.0)[-1], "counts")
            with it.feeder._lock:
                for _ in range(40):
                    it.feeder._write("x", CATCH_UP // 40)
            began, cpu = time.monotonic(), it.cpu_s()
            while _rows_in((it.watch(2.0) or it.looks)[-1], "counts") < before + CATCH_UP:
                if time.monotonic() - began > 240.0:
                    break
            took, after = time.monotonic() - began, it.cpu_s()
            done = _rows_in(it.looks[-1], "counts") - before
            partitions = _partitions(it.run.folder)
            rows.append(
                {
                    "workers": count,
                    "partitions": partitions,
                    "rows": done,
                    "seconds": took,
                    "rows per s": done / took,
                    "executors' cores": (after["executors"] - cpu["executors"]) / took,
                    "driver's cores": (after["driver"] - cpu["driver"]) / took,
                }
            )
        shutil.rmtree(folder / str(count), ignore_errors=True)
    yield ResultTable.of("Catching up with one, two and three workers", rows)


def _partitions(project: Path) -> int | None:
    status = UserRun(project).status()
    found = (status.get("partitions") or {}).get("counts") or {}
    return found.get("count") if isinstance(found, dict) else None


PARTS = {
    "load": load,
    "headroom": headroom,
    "blocked": blocked,
    "workers": workers,
    "parallel": parallel,
}


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    for part in chosen_parts(words, PARTS):
        folder = Path(tempfile.mkdtemp(prefix="mooring-cluster-"))
        (folder / part).mkdir()
        for number in (1, 2, 3):
            (folder / part / str(number)).mkdir()
        try:
            yield from PARTS[part](folder / part)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


SPARK_CLUSTER_LOAD = Measurement(
    "spark_cluster_load", "the load of a standalone cluster, and what fills it", prose_of(__doc__), measure
)


if __name__ == "__main__":
    carry_out(SPARK_CLUSTER_LOAD, sys.argv[1:])
