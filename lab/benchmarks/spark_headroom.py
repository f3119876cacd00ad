"""Is the headroom true? Rates are raised until the first site falls behind, on ten pipelines.

    python -m lab.benchmarks spark_headroom[:PIPELINE,...]

Each pipeline runs on embedded sites of 0.25 to 0.7 cores, held by control groups, at a trigger of 3 s.
Nothing is stated of its costs. For the first 140 s its rates vary between 0.5 and 2 times the usual ones,
as those of real streams do over a day; then they stay at the usual ones for 40 s, and the headroom that the
status shows is written down, with its interval. From then on all rates are raised together, by 12% each
20 s, through powers of 1.12 from half of that headroom on.

*Measured* is the factor at which the first fragment fell behind, as seen by the benchmark: its batches took
longer than the trigger in the second half of a step, or more than two triggers' rows of a stream waited, or
the files of a channel did. It lies between the last step at which all kept up and the first at which one
did not, and is given as their geometric mean. Predicted over measured is 1 where the headroom was true.

The sites' control groups are given all the weight there is, so that on a busy machine they get the CPU that
their quotas allow. Two pipelines run at a time.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.benchmarks._adapting_run import step_us, weigh_more
from lab.benchmarks._headroom_pipelines import PIPELINES, TRIGGER_S, Pipeline
from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from lab.benchmarks._user_run import UserRun
from lab.quota_bench.feeder import Feeder
from mooring.cli.output.result_table import ResultTable, Value

AT_A_TIME = 2
VARIED = (1.0, 1.0, 0.5, 2.0, 0.7, 1.6, 1.2)
"""Times the usual rates, one after the other."""
EACH_S = 20.0
STEADY_S = 40.0
STEP = 1.12
STEP_S = 20.0
MOST = 12.0
"""Rates are raised no further."""
WITHIN = 0.25
KEPT = "MOORING_HEADROOM_LOOKS"
"""A folder for all looks, to try a model on them without Spark."""


@dataclass
class Trial:
    """One pipeline that runs, is fed and looked at."""

    pipeline: Pipeline
    run: UserRun
    feeder: Feeder
    looks: list[dict[str, Any]] = field(default_factory=list)
    """Statuses, each with what was fed until then and the factor of the rates."""
    factor: float = 1.0

    def rate(self, factor: float) -> None:
        self.factor = factor
        self.feeder.set_rates({name: factor * rate for name, rate in self.pipeline.rates.items()})

    def watch(self, seconds: float) -> list[dict[str, Any]]:
        """The looks of so long."""
        deadline, seen = time.monotonic() + seconds, list[dict[str, Any]]()
        while (left := deadline - time.monotonic()) > 0.0:
            time.sleep(min(left, 0.5))
            status = self.run.status()
            if "at_s" in status and (not self.looks or status["at_s"] != self.looks[-1]["at_s"]):
                status |= {"fed": self.feeder.fed(), "factor": self.factor}
                self.looks.append(status)
                seen.append(status)
                self.feeder.remove_read({name: each["rows_in"] for name, each in status["fragments"].items()})
        return seen

    def falls_behind(self, looks: Sequence[Mapping[str, Any]]) -> str | None:
        """What did not keep up in these looks, by what was fed and what batches took."""
        for name, each in looks[-1]["fragments"].items():
            if name == "totals":
                continue
            took = [look["fragments"][name]["batch_s"] for look in looks if name in look["fragments"]]
            known = [batch_s for batch_s in took if batch_s is not None]
            if known and sum(known) / len(known) > TRIGGER_S:
                return str(name)
            waiting = [look["fragments"][name].get("rows_waiting") or 0 for look in looks]
            if min(waiting) > 2.5 * TRIGGER_S * max(each["rows_in_per_s"], 1.0):
                return str(name)
        for name, rate in self.pipeline.rates.items():
            unread = [look["fed"][name] - look["fragments"][name]["rows_in"] for look in looks]
            # A look's age is that of a status, and a batch takes what came before it began.
            if min(unread) > 3.0 * TRIGGER_S * self.factor * rate:
                return name
        return None


def tried(folder: Path, step: float, pipeline: Pipeline) -> dict[str, Value]:
    try:
        row, looks = raised(folder, step, pipeline)
    except RuntimeError as failure:  # the others go on
        print(f"{pipeline.name}: {failure}", file=sys.stderr, flush=True)
        return {"pipeline": pipeline.name, "what": pipeline.about, "limit": "it did not run"}
    print(row, file=sys.stderr, flush=True)
    if (kept := os.environ.get(KEPT)) is not None:
        Path(kept, f"{pipeline.name}.json").write_text(json.dumps(looks))
    return row


def raised(folder: Path, step: float, pipeline: Pipeline) -> tuple[dict[str, Value], list[dict[str, Any]]]:
    folder.mkdir(parents=True)
    landing = pipeline.write(folder, step)
    run, feeder = UserRun(folder), Feeder(landing, pipeline.streams)
    run.start(len(pipeline.flows), "--placement", str(folder / "plan.json"))
    try:
        for site in pipeline.sites:
            weigh_more(site, run.server_of(site))
        trial = Trial(pipeline, run, feeder)
        trial.rate(1.0)
        with feeder.feeding():
            for factor in VARIED:
                trial.rate(factor)
                trial.watch(EACH_S)
            trial.rate(1.0)
            shown = dict(trial.watch(STEADY_S)[-1]["headroom"])
            low, high, first = until_behind(trial, shown["factor"])
        return row_of(pipeline, shown, low, high, first), trial.looks
    finally:
        run.stop()


def until_behind(trial: Trial, predicted: float | None) -> tuple[float, float, str]:
    """The last factor at which all kept up, the first at which one did not, and which."""
    begins = max(STEP, min(0.5 * (predicted or STEP), MOST / 2))
    factor, low = STEP ** round(math.log(begins) / math.log(STEP)), 1.0  # steps that no prediction shifts
    while factor < MOST:
        trial.rate(factor)
        looks = trial.watch(STEP_S)
        if (behind := trial.falls_behind(looks[len(looks) // 2 :])) is not None:
            if low > 1.0 or factor <= STEP:
                return low, factor, behind
            factor /= STEP  # it began too high: down again, once what waits has been read
            trial.rate(0.7)
            trial.watch(2 * STEP_S)
            continue
        low, factor = factor, factor * STEP
    return low, math.inf, ""


def row_of(
    pipeline: Pipeline, shown: Mapping[str, Any], low: float, high: float, first: str
) -> dict[str, Value]:
    measured = math.sqrt(low * high) if math.isfinite(high) else math.inf
    predicted = shown["factor"]
    ratio = None if predicted is None or not math.isfinite(measured) else predicted / measured
    most = math.inf if shown["high"] is None else shown["high"]
    return {
        "pipeline": pipeline.name,
        "what": pipeline.about,
        "predicted": predicted,
        "low": shown["low"],
        "high": shown["high"],
        "limit": shown["limit"] or shown["missing"],
        "kept up until": low,
        "behind at": high if math.isfinite(high) else None,
        "first": first,
        "predicted / measured": ratio,
        "within 25%": ratio is not None and abs(ratio - 1.0) <= WITHIN,
        # The measured factor is known to lie between two steps.
        "interval holds": shown["low"] is not None and shown["low"] <= high and low <= most,
    }


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    by_name = {pipeline.name: pipeline for pipeline in PIPELINES}
    chosen = [by_name[name] for name in chosen_parts(words, list(by_name))]
    root = Path(tempfile.mkdtemp(prefix="mooring-headroom-"))
    try:
        step = step_us(root)
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            rows = list(pool.map(lambda each: tried(root / each.name, step, each), chosen))
        yield ResultTable.of("Predicted and measured, all rates raised together", rows)
        near = sum(row.get("within 25%") is True for row in rows)
        held = sum(row.get("interval holds") is True for row in rows)
        yield (
            f"Within 25% of the measured factor: {near} of {len(rows)}. The interval holds the measured "
            f"factor: {held} of {len(rows)}."
        )
    finally:
        shutil.rmtree(root, ignore_errors=True)


SPARK_HEADROOM = Measurement(
    "spark_headroom",
    "The headroom that is shown, held against rates that are raised",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(SPARK_HEADROOM, sys.argv[1:])
