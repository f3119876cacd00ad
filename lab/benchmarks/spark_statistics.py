"""Are measured costs reproducible, and do they predict the load of sites?

    python -m lab.benchmarks spark_statistics[:PROFILES,BATCHES,SECONDS]

Profiles the demo's pipeline several times, each on a fresh site, and shows every fragment's cost per row and
per batch with its spread (farthest from the mean of all, and largest to smallest). Then plans with the last
profile, runs the plan over three sites while the trace is replayed, and compares the load of each site in the
later half of the run (the earlier one is start-up) with what the load model says at the rates that were
measured; where a machine is too busy for every trigger to be kept, the ratio at the batches that were seen
says what is due to that. Ratios are what to read: the machine is rarely quiet.
"""

from __future__ import annotations

import itertools
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from lab.benchmarks._machine import load_average
from lab.benchmarks._record import Measurement, carry_out, prose_of
from mooring.cli.output.result_table import ResultTable, Value
from mooring.controller.initial_placement import Wish
from mooring.model.load.build import build_load_model
from mooring.spark.engine.snapshot import Snapshot
from mooring.spark.pipeline.project import load_project
from mooring.spark.pipeline.statistics_file import FlowStatistics
from mooring.spark.profile.profile_options import ProfileOptions
from mooring.spark.profile.project_profile import profile_project
from mooring.spark.runs.project_run import PreparedRun, prepared_run
from mooring.spark.runs.spark_run import SparkRun

EXAMPLE = Path(__file__).parents[2] / "examples" / "network_monitoring"
DEFAULTS = (3, 6, 240)
"""Profiles, batches of each, and seconds of the run."""
sys.path.insert(0, str(EXAMPLE))

from feed import Feeder  # noqa: E402
from truth import Traffic, demo_traffic  # noqa: E402


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    profiles, batches, seconds = [*map(int, words), *DEFAULTS[len(words) :]]
    with tempfile.TemporaryDirectory(prefix="mooring-statistics-") as root:
        sample = Path(root) / "sample"
        land_sample(sample)
        found = [profiled(Path(root) / str(n), sample, batches) for n in range(profiles)]
        yield spread_table(found)
        yield load_table(Path(root) / str(profiles - 1), float(seconds))


def land_sample(folder: Path) -> None:
    """Everything the demo would land, without the packet that closes its last windows."""
    Feeder(demo_traffic(), folder, speed=float("inf")).run()
    for last in folder.rglob("99999.parquet"):
        last.unlink()


def profiled(folder: Path, sample: Path, batches: int) -> dict[str, FlowStatistics]:
    ignored = shutil.ignore_patterns("__pycache__", ".mooring", "landing", "statistics.yml")
    shutil.copytree(EXAMPLE, folder, ignore=ignored)
    shutil.copytree(sample, folder / "landing")
    began = time.monotonic()
    made = profile_project(load_project(folder), ProfileOptions(batches=batches), lambda part, what: None)
    shutil.rmtree(folder / "landing")
    took = f"profiled in {time.monotonic() - began:.0f} s, load average {load_average():.1f}"
    print(f"{took}\n{made.file.read_text()}\n{made.unmeasured or ''}", file=sys.stderr, flush=True)
    return dict(made.statistics.flows)


def spread_table(found: list[dict[str, FlowStatistics]]) -> ResultTable:
    rows: list[dict[str, Value]] = []
    for name in found[0]:
        costs = [float(flows[name].cost_us or 0) for flows in found]
        fixed = [float(flows[name].batch_cpu_s or 0) for flows in found]
        mean = sum(costs) / len(costs)
        rows.append(
            {
                "flow": name,
                "us_per_row": " ".join(f"{cost:.3f}" for cost in costs),
                "farthest_from_mean": max(abs(c / mean - 1) for c in costs) if mean else math.nan,
                "largest_to_smallest": spread(costs),
                "CPU_s_per_batch": " ".join(f"{each:.3f}" for each in fixed),
                "its_largest_to_smallest": spread(fixed),
            }
        )
    return ResultTable.of(f"Costs by {len(found)} profiles, each on a fresh site", rows)


def spread(values: Sequence[float]) -> float:
    return max(values) / min(values) - 1 if min(values) else math.nan


def repeated(traffic: Traffic, times: int) -> Traffic:
    span_us = int(traffic.at_us[-1] - traffic.at_us[0]) + 1_000_000
    at_us = np.concatenate([traffic.at_us + n * span_us for n in range(times)])
    return Traffic(
        at_us,
        *(np.tile(getattr(traffic, c), times) for c in ("source", "destination", "size_bytes", "part")),
    )


def load_table(folder: Path, seconds: float) -> ResultTable:
    project = load_project(folder)
    feeder = Feeder(repeated(demo_traffic(), 1 + int(seconds // 75)), folder / "landing")
    with prepared_run(project) as prepared:
        run = SparkRun(prepared, Wish("rod"))
        with run.started() as (session, book):
            feeder.start()
            session.run(lambda passed: passed >= seconds)
            book.engine.check()
            feeder.halt()
        return compare_loads(prepared, run.record.snapshots, seconds / 2)


def compare_loads(prepared: PreparedRun, snapshots: list[Snapshot], since_s: float) -> ResultTable:
    late = [s for s in snapshots if s.since_start_s >= since_s]
    span_s = late[-1].at_s - late[0].at_s
    rates = {
        flow.dataset: (late[-1].fragments[flow.name].rows_in - late[0].fragments[flow.name].rows_in) / span_s
        for flow in prepared.layout.pipeline.flows.values()
        if flow.outside
    }
    problem = prepared.problem.with_rates([rates[stream.name] for stream in prepared.problem.streams])
    model = build_load_model(problem)
    compared: list[dict[str, Value]] = []
    growing = model.coefficients @ model.present
    trigger_s = prepared.project.settings.trigger_s
    for site, last in late[-1].sites.items():
        rows = [problem.fragment_names.index(name) for name in last.fragments]
        kept_up = [
            (late[-1].fragments[name].batches - late[0].fragments[name].batches) * trigger_s / span_s
            for name in last.fragments
        ]
        predicted = float((growing[rows] + model.fixed_cores[rows]).sum())
        as_seen = float((growing[rows] + model.fixed_cores[rows] * kept_up).sum())
        used = sum((b.sites[site].load_cores or 0.0) * (b.at_s - a.at_s) for a, b in itertools.pairwise(late))
        measured = used / span_s
        compared.append(
            {
                "site": site,
                "predicted_cores": predicted,
                "measured_cores": measured,
                "ratio": predicted / measured,
                "ratio_at_the_batches_seen": as_seen / measured,
                "fragments": ", ".join(last.fragments),
            }
        )
    return ResultTable.of("Load of every site, predicted and measured", compared)


SPARK_STATISTICS = Measurement(
    "spark_statistics",
    "Are measured costs reproducible, and do they predict the load of sites?",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(SPARK_STATISTICS, sys.argv[1:])
