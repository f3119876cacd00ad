"""The delay operator does what its name says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mooring.spark.quota_bench.workload import delay_expression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mooring.spark.sites.embedded_site import EmbeddedSite


def used_s(site: EmbeddedSite) -> float:
    usage = site.usage()
    assert usage is not None
    return usage.cpu_s


def test_cpu_of_a_delay_grows_linearly_with_its_steps(site: EmbeddedSite, session: SparkSession) -> None:
    """By the CPU of the site's process tree, less that of the same job without a delay."""
    rows = 100

    def cpu_s(steps: int) -> float:
        before = used_s(site)
        session.range(0, rows, 1, 1).selectExpr("id as n").selectExpr(
            f"sum({delay_expression(steps)})"
        ).collect()
        return used_s(site) - before

    cpu_s(20_000)
    cpu_s(20_000)
    taken = {steps: np.median([cpu_s(steps) for _ in range(2)]) for steps in (1, 20_000, 40_000)}
    short, long = taken[20_000] - taken[1], taken[40_000] - taken[1]
    assert short > 0.05
    assert 1.4 < long / short < 2.8
