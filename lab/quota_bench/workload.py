"""The quota bench's workload (ROD paper, section 7.1): trees of "delay" operators whose CPU per row is set.

A delay is a fold over a sequence, in Spark's own expressions, so that no Python worker blurs what a row
costs. A row that is dropped must cost nothing, or the optimiser's choice of when to drop it would change the
cost; so the filter comes first, and the rows that pass carry the delay of those that do not: the mean per
input row is what was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HASH_BUCKETS = 1_000
_SPEC = """\
name: quota_bench
storage: file://{folder}/pipelines
libraries:
  - glob:
      include: transformations/**
"""
SITE_NAMES = ("ada", "bea", "cleo", "dot")


@dataclass(frozen=True)
class DelayOperator:
    """One operator; its name is that of the dataset it writes."""

    name: str
    reads: str | None
    """The operator whose rows it takes; None: the landing files of its tree's stream."""
    cost_us: float
    """CPU asked for per input row, without what Spark itself takes."""
    selectivity: float

    def steps(self, step_us: float) -> int:
        """Length of the fold that a passing row goes through."""
        return max(1, round(self.cost_us / self.selectivity / step_us))


@dataclass(frozen=True)
class WorkloadParams:
    """Section 7.1, at the size that one small machine holds."""

    streams: int = 3
    operators_per_stream: int = 3
    """Each costs a fixed part per micro-batch; nine of them leave most of the sites to the rows."""
    least_cost_us: float = 1_000.0
    most_cost_us: float = 5_000.0
    """The paper has .1 to 1 ms. Longer delays keep the rows few beside Spark's own work per row and file."""
    least_selectivity: float = 0.5
    """Of the half of the operators whose selectivity is not one (section 7.1)."""


def draw_workload(
    rng: np.random.Generator, params: WorkloadParams | None = None
) -> tuple[DelayOperator, ...]:
    """One tree per stream: every node has one to three children until the tree has its size."""
    params = params or WorkloadParams()
    operators: list[DelayOperator] = []
    count = params.streams * params.operators_per_stream
    is_filter = rng.permutation(count) < count // 2
    for stream in range(params.streams):
        tree: list[str] = []
        parents: list[str | None] = [None]
        while len(tree) < params.operators_per_stream:
            parent = parents.pop(0)
            children = 1 if parent is None else int(rng.integers(1, 4))
            for _ in range(min(children, params.operators_per_stream - len(tree))):
                drawn = float(rng.uniform(params.least_selectivity, 1.0))
                name = f"{chr(ord('a') + stream)}{len(tree)}"
                selectivity = round(drawn, 2) if is_filter[len(operators)] else 1.0
                cost_us = float(rng.uniform(params.least_cost_us, params.most_cost_us))
                operators.append(DelayOperator(name, parent, cost_us, selectivity))
                tree.append(name)
                parents.append(name)
    return tuple(operators)


def roots(operators: tuple[DelayOperator, ...]) -> list[str]:
    """Operators that bring a stream in; the stream has their name."""
    return [operator.name for operator in operators if operator.reads is None]


def delay_expression(steps: int) -> str:
    """`steps` folds over column `n`. The length names the column, or Spark would fold the constant away and
    carry the whole sequence in every plan.
    """
    return f"aggregate(sequence(1L, {steps}L + n % 1), n, (a, x) -> (a * 31 + x) % 1000003)"


def definitions_text(operators: tuple[DelayOperator, ...], landing: Path, step_us: float) -> str:
    """The pipeline's definitions, as a user would write them."""
    parts = [
        "from pyspark import pipelines as dp\nfrom pyspark.sql import SparkSession\n\n"
        "spark = SparkSession.active()\n"
    ]
    for salt, operator in enumerate(operators):
        if operator.reads is None:
            source = f'spark.readStream.schema("n bigint, at double").json({str(landing / operator.name)!r})'
        else:
            source = f"spark.readStream.table({operator.reads!r})"
        keep = round(operator.selectivity * HASH_BUCKETS)
        where = f"pmod(xxhash64(n, {salt}), {HASH_BUCKETS}) < {keep}"
        parts.append(
            f"\n\n@dp.table\ndef {operator.name}():\n    rows = {source}\n"
            f"    return rows.where({where!r}).selectExpr(\n"
            f'        "n", "at", {delay_expression(operator.steps(step_us))!r} " as work"\n    )\n'
        )
    return "".join(parts)


def settings_of(
    operators: tuple[DelayOperator, ...], capacity_cores: Mapping[str, float], trigger_s: float
) -> dict[str, object]:
    """`mooring.yml`: streams reach every site, and every operator is a fragment of its own."""
    read = {operator.reads for operator in operators if operator.reads is not None}
    return {
        "sites": {name: {"capacity": cores} for name, cores in capacity_cores.items()},
        "streams": {name: {"rate": 1.0} for name in roots(operators)},
        "cuts": sorted(read),
        "tables": {name: {"keep": "read"} for name in sorted(read)},
        "statistics": {
            o.name: {"cost_us": o.cost_us, "selectivity": o.selectivity, "fixed_cores": 0.0}
            for o in operators
        },
        "trigger_s": trigger_s,
    }


def write_project(
    folder: Path,
    operators: tuple[DelayOperator, ...],
    capacity_cores: Mapping[str, float],
    *,
    step_us: float,
    trigger_s: float,
) -> Path:
    """A project folder that `mooring run` would take as well; returns the landing folder of its streams."""
    landing = folder / "landing"
    for name in roots(operators):
        (landing / name).mkdir(parents=True)
    (folder / "transformations").mkdir()
    (folder / "spark-pipeline.yml").write_text(_SPEC.format(folder=folder))
    (folder / "mooring.json").write_text(json.dumps(settings_of(operators, capacity_cores, trigger_s)))
    text = definitions_text(operators, landing, step_us)
    (folder / "transformations" / "delays.py").write_text(text)
    return landing
