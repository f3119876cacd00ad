"""Ten small pipelines whose first full site is looked for, each on sites with CPU quotas.

Nothing is stated of what they cost: a run has to find that out, as it does for a project without a profile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.quota_bench.workload import delay_expression

TRIGGER_S = 3.0
_SPEC = """\
name: {name}
storage: file://{folder}/pipelines
libraries:
  - glob:
      include: transformations/**
"""
_HEAD = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
"""
_COUNTS = "F.count('n').alias('n'), F.sum('work').alias('work')"


@dataclass(frozen=True)
class Flow:
    """A table: rows of a stream, or of other tables, each with a delay."""

    name: str
    reads: str | None = None
    """None: the landing files of the stream that has its name."""
    cost_us: float = 0.0
    """CPU per row, without what Spark itself takes."""
    body: str = ""
    """What is made of `rows`, if not the rows themselves."""
    view: bool = False
    """A materialized view."""
    joins: str | None = None
    """Another table that its body reads."""


@dataclass(frozen=True)
class Pipeline:
    name: str
    about: str
    flows: Sequence[Flow]
    rates: Mapping[str, float]
    """Rows per second of each stream, at which the headroom is read."""
    sites: Mapping[str, Mapping[str, float] | float]
    """Quota in cores."""
    placement: Mapping[str, str]
    """Table -> site."""
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def streams(self) -> list[str]:
        return [flow.name for flow in self.flows if flow.reads is None]

    def write(self, folder: Path, step_us: float) -> Path:
        """As a project; returns the landing folder of its streams."""
        landing = folder / "landing"
        for name in self.streams:
            (landing / name).mkdir(parents=True)
        (folder / "transformations").mkdir()
        (folder / "spark-pipeline.yml").write_text(_SPEC.format(name=self.name, folder=folder))
        text = _HEAD + "".join(_definition(flow, landing, step_us) for flow in self.flows)
        (folder / "transformations" / "flows.py").write_text(text)
        (folder / "mooring.json").write_text(json.dumps(self._settings()))
        (folder / "plan.json").write_text(json.dumps({"placement": self._operators()}))
        return landing

    def _settings(self) -> dict[str, object]:
        read = sorted({name for flow in self.flows for name in (flow.reads, flow.joins) if name is not None})
        kept = [name for name in read if not self._is_viewed(name)]
        return {
            "sites": {name: {"capacity": cores} for name, cores in self.sites.items()},
            "streams": {name: {"rate": self.rates[name]} for name in self.streams},
            **({"cuts": read} if read else {}),
            **({"tables": {name: {"keep": "read"} for name in kept}} if kept else {}),
            "trigger_s": TRIGGER_S,
            **self.settings,
        }

    def _is_viewed(self, name: str) -> bool:
        return any(flow.view and flow.reads == name for flow in self.flows)

    def _operators(self) -> dict[str, str]:
        streams = set(self.streams)
        return {f"{name}:ingest" if name in streams else name: at for name, at in self.placement.items()}


def _definition(flow: Flow, landing: Path, step_us: float) -> str:
    delayed = delay_expression(max(1, round(flow.cost_us / step_us))) if flow.cost_us else "0L"
    if flow.view:
        read = f"spark.read.table({flow.reads!r})"
    elif flow.reads is None:
        schema = "n bigint, at double"
        read = f"spark.readStream.schema({schema!r}).json({str(landing / flow.name)!r})"
    else:
        read = f"spark.readStream.table({flow.reads!r})"
    rows = f'{read}.selectExpr("n", "at", {delayed!r} " as work")'
    kind = "materialized_view" if flow.view else "table"
    return f"\n\n@dp.{kind}\ndef {flow.name}():\n    rows = {rows}\n    return {flow.body or 'rows'}\n"


_TIMED = "rows.withColumn('t', F.timestamp_seconds('at')).withWatermark('t', '2 seconds')"
WINDOW = f"{_TIMED}.groupBy(F.window('t', '6 seconds'), F.col('n') % 40).agg({_COUNTS})"
WINDOW += ".selectExpr('n', 'work', 'cast(window.start as double) as at')"
_JOIN = (
    "rows.withColumn('t', F.timestamp_seconds('at')).withWatermark('t', '2 seconds').alias('l').join("
    "spark.readStream.table('y').withColumn('u', F.timestamp_seconds('at')).withWatermark('u', '2 seconds')"
    ".selectExpr('n as m', 'u'), F.expr('n % {0} = m % {0} and u between t - interval 2 seconds and t'))"
    ".selectExpr('n', 'm', 'at', 'work')"
)


def join_with_y(keys: int) -> str:
    """Rows meet those of y of the two seconds before that have one of so many keys in common."""
    return _JOIN.format(keys)


PIPELINES = (
    Pipeline(
        "one",
        "one ingest, 4 ms per row",
        [Flow("a", cost_us=4000)],
        {"a": 20.0},
        {"ada": 0.4},
        {"a": "ada"},
    ),
    Pipeline(
        "cheap",
        "one ingest, 0.1 ms per row",
        [Flow("a", cost_us=100)],
        {"a": 500.0},
        {"ada": 0.4},
        {"a": "ada"},
    ),
    Pipeline(
        "chain",
        "a chain of three at one site",
        [Flow("a", cost_us=500), Flow("b", "a", 2000), Flow("c", "b", 1000)],
        {"a": 20.0},
        {"ada": 0.5},
        {"a": "ada", "b": "ada", "c": "ada"},
    ),
    Pipeline(
        "two_sites",
        "a chain of two over two sites",
        [Flow("a", cost_us=500), Flow("b", "a", 5000)],
        {"a": 15.0},
        {"ada": 0.25, "bea": 0.4},
        {"a": "ada", "b": "bea"},
    ),
    Pipeline(
        "fan",
        "one table read by two others",
        [Flow("a", cost_us=200), Flow("b", "a", 1500), Flow("c", "a", 2500)],
        {"a": 20.0},
        {"ada": 0.5},
        {"a": "ada", "b": "ada", "c": "ada"},
    ),
    Pipeline(
        "two_streams",
        "two streams at one site, one of them cheap",
        [Flow("a", cost_us=4000), Flow("b", cost_us=300)],
        {"a": 15.0, "b": 60.0},
        {"ada": 0.5},
        {"a": "ada", "b": "ada"},
    ),
    Pipeline(
        "window",
        "a windowed count",
        [Flow("a", cost_us=100), Flow("counts", "a", 2500, body=WINDOW)],
        {"a": 25.0},
        {"ada": 0.5},
        {"a": "ada", "counts": "ada"},
    ),
    Pipeline(
        "join",
        "a join of two streams, six pairs per row",
        [
            Flow("x", cost_us=300),
            Flow("y", cost_us=300),
            Flow("both", "x", 1500, join_with_y(10), joins="y"),
        ],
        {"x": 30.0, "y": 30.0},
        {"ada": 0.5},
        {"x": "ada", "y": "ada", "both": "ada"},
    ),
    Pipeline(
        "view",
        "an ingest and a materialized view of it",
        [
            Flow("a", cost_us=3000),
            Flow("totals", "a", 0, body="rows.groupBy().agg(F.count('n').alias('n'))", view=True),
        ],
        {"a": 20.0},
        {"ada": 0.5},
        {"a": "ada", "totals": "ada"},
        {"refresh_s": 30},
    ),
    Pipeline(
        "far_apart",
        "three branches on two sites, unlike in cost",
        [Flow("a", cost_us=1000), Flow("b", "a", 1500), Flow("c", "a", 3500)],
        {"a": 15.0},
        {"ada": 0.4, "bea": 0.3},
        {"a": "ada", "b": "ada", "c": "bea"},
    ),
)
