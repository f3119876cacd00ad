"""Do pauses of moves fall within the ranges that were predicted for them?

    python -m lab.benchmarks spark_pauses

The pipeline of the operator's story (two ingests, a join, a windowed count, a materialized view) runs on two
embedded sites of 0.6 cores at a trigger of 5 s. All five fragments change their sites in one list of moves,
again and again, a minute apart. Each list is predicted just before it is carried out, with what the lists
before it have taught; the first one is predicted without any.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.benchmarks._adapting_run import step_us, weigh_more
from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.benchmarks._user_run import UserRun
from lab.benchmarks.spark_story import QUOTAS, STORY
from lab.quota_bench.feeder import Feeder
from mooring.cli.output.result_table import ResultTable, Value

LISTS = 5
WARM_S = 60.0
APART_S = 45.0


def lists_of_moves(folder: Path, step: float) -> Iterator[dict[str, Value]]:
    folder.mkdir(parents=True)
    landing = STORY.write(folder, step)
    run, feeder = UserRun(folder), Feeder(landing, STORY.streams)
    run.start(len(STORY.flows), "--placement", str(folder / "plan.json"))
    try:
        for site in QUOTAS:
            weigh_more(site, run.server_of(site))
        feeder.set_rates(STORY.rates)
        streams = set(STORY.streams)
        first, second = QUOTAS
        with feeder.feeding():
            time.sleep(WARM_S)
            for number in range(1, LISTS + 1):
                at = {name: each["site"] for name, each in run.status()["fragments"].items()}
                there = {name: second if site == first else first for name, site in at.items()}
                plan = {f"{name}:ingest" if name in streams else name: site for name, site in there.items()}
                yield from one_list(run, number, plan)
                time.sleep(APART_S)
    finally:
        run.stop()


def one_list(run: UserRun, number: int, plan: dict[str, str]) -> Iterator[dict[str, Value]]:
    answer = run.moves_to(plan)
    took = {step["fragment"]: step["pause_s"] for step in answer["applied"]["steps"]}
    for move in answer["moves"]:
        low, high, pause_s = move["pause_low_s"], move["pause_high_s"], took[move["fragment"]]
        yield {
            "list": number,
            "fragment": move["fragment"],
            "likely (s)": move["pause_s"],
            "low": low,
            "high": high,
            "was (s)": pause_s,
            "within": low <= pause_s <= high,
        }


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    root = Path(tempfile.mkdtemp(prefix="mooring-pauses-"))
    try:
        rows = list(lists_of_moves(root / "pauses", step_us(root)))
        yield ResultTable.of("Predicted and measured pauses", rows)
        within = [sum(row["within"] is True for row in rows if row["list"] == n + 1) for n in range(LISTS)]
        yield f"Within the range, list by list, of {len(STORY.flows)} each: {', '.join(map(str, within))}."
    finally:
        shutil.rmtree(root, ignore_errors=True)


SPARK_PAUSES = Measurement(
    "spark_pauses", "Pauses of moves, held against their predicted ranges", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(SPARK_PAUSES, sys.argv[1:])
