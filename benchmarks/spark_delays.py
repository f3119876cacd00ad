"""Does the CPU of a delay operator grow with its steps, as the quota bench takes it to?

    python -m benchmarks.spark_delays [ROUNDS]

By the CPU of the site's process tree, less that of the same job without a delay. Twice the steps should take
twice the CPU: the ratio is what to read, and its spread over the rounds says how quiet the machine was.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from mooring.spark.quota_bench.workload import delay_expression
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


def main(rounds: int = 15) -> None:
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
    middle = statistics.median(ratios)
    print(f"twice the steps take {middle:.2f} times the CPU ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    print(json.dumps({"ratio": round(middle, 3), "rounds": rounds, "load_average": os.getloadavg()}))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
