"""Does the CPU of a delay operator grow with its steps, as the quota bench takes it to?

    python -m lab.benchmarks spark_delays[:ROUNDS]

By the CPU of the site's process tree, less that of the same job without a delay. Twice the steps should take
twice the CPU: the ratio is what to read, and its spread over the rounds says how quiet the machine was.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.quota_bench.workload import delay_expression
from mooring.cli.output.result_table import ResultTable
from mooring.spark.sites.embedded_site import EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java

ROWS = 100
STEPS = 20_000


def cpu_s(site: EmbeddedSite, session: SparkSession, steps: int) -> float:
    before = site.usage()
    rows = session.range(0, ROWS, 1, 1).selectExpr("id as n")
    rows.selectExpr(f"sum({delay_expression(steps)})").collect()
    after = site.usage()
    assert before is not None
    assert after is not None
    return after.cpu_s - before.cpu_s


def growth(site: EmbeddedSite, session: SparkSession) -> float:
    """CPU of a delay of twice the steps, over that of one."""
    none, once, twice = (cpu_s(site, session, steps) for steps in (1, STEPS, 2 * STEPS))
    return (twice - none) / (once - none)


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    rounds = int(words[0]) if words else 15
    with tempfile.TemporaryDirectory(prefix="mooring-delays-") as folder:
        site = EmbeddedSite("bench", Path(folder), find_java(), capacity=2.0)
        site.start()
        try:
            session = open_session(site.wait_ready())
            for _ in range(3):  # whatever is loaded and compiled once
                growth(site, session)
            ratios = sorted(growth(site, session) for _ in range(rounds))
            close_session(session)
        finally:
            site.stop()
    yield ResultTable.of(
        "CPU of twice the steps over that of once",
        [
            {
                "median": statistics.median(ratios),
                "least": ratios[0],
                "largest": ratios[-1],
                "rounds": rounds,
            }
        ],
    )


SPARK_DELAYS = Measurement(
    "spark_delays", "Does the CPU of a delay operator grow with its steps?", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(SPARK_DELAYS, sys.argv[1:])
