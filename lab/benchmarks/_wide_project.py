"""The demo's pipeline with what the demo lacks: a materialized view, sinks of files and of Kafka, an endpoint
that runs already; and what must have left it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pyarrow.parquet

from lab.benchmarks._demo_project import FRAGMENTS, SITES, Row, Rows, Verdict, counted_rows, verdict_on
from lab.benchmarks._far_site import FarSite
from mooring.spark.runs.results import read_stored
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.storage import stream_logs

FAR = "far"
VIEW, LEDGER, TOPIC = "source_traffic", "ledger", "totals_topic"
_CODE = """\
\"\"\"Where rows leave the pipeline, and a view over a table of it.\"\"\"

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


@dp.materialized_view
def {view}() -> DataFrame:
    rows = SparkSession.active().read.table("source_minutes")
    return rows.groupBy("source").agg(F.sum("packets").alias("packets"), F.sum("bytes").alias("bytes"))


dp.create_sink("{ledger}", "parquet", {{"path": "{folder}"}})


@dp.append_flow(target="{ledger}")
def to_{ledger}() -> DataFrame:
    return SparkSession.active().readStream.table("pair_seconds")
"""
_KAFKA = """\


dp.create_sink("{topic}", "kafka", {{"kafka.bootstrap.servers": "{broker}", "topic": "{topic}"}})


@dp.append_flow(target="{topic}")
def to_{topic}() -> DataFrame:
    rows = SparkSession.active().readStream.table("totals")
    return rows.selectExpr("to_json(array(unix_micros(since), packets, bytes)) AS value")
"""
_SETTINGS = """\
  pair_seconds: {{keep: 7d}} # which no wrong clock may shorten
refresh_s: 15
"""


@dataclass(frozen=True)
class Kafka:
    """A broker, and the connector's jars."""

    address: str
    jars: tuple[Path, ...]


@dataclass(frozen=True)
class WideProject:
    """`ledger`: the folder of the file sink."""

    storage: Path
    ledger: Path
    far: FarSite
    kafka: Kafka | None
    far_cores: float = 0.5

    @property
    def fragments(self) -> int:
        return FRAGMENTS + 2 + (self.kafka is not None)

    def widen(self, folder: Path) -> None:
        """A checkout of the demo becomes one of this."""
        code = _CODE.format(view=VIEW, ledger=LEDGER, folder=self.ledger)
        if self.kafka is not None:
            code += _KAFKA.format(topic=TOPIC, broker=self.kafka.address)
        (folder / "transformations" / "outlets.py").write_text(code)
        settings = folder / "mooring.yml"
        jars = [] if self.kafka is None else [str(jar) for jar in self.kafka.jars]
        own = _SETTINGS.format() + (f"jars: {json.dumps(jars)}\n" if jars else "")
        connect = f'{{url: "{self.far.url}", plain_text: true}}'
        before, tables, rest = settings.read_text().partition("trigger_s:")
        text = before + own + tables + rest
        far_away = ", ".join(f"{site}: 35" for site in SITES)
        for title, line in {
            "sites:\n": f"  {FAR}: {{capacity: {self.far_cores}, connect: {connect}}}\n",
            "latency_ms:\n": f"  {FAR}: {{{far_away}}}\n",
        }.items():
            assert text.count(title) == 1, f"{settings} has no {title!r} of its own"
            text = text.replace(title, title + line)
        settings.write_text(text)

    def sink_log(self, fragment: str) -> Path | None:
        """Of a flow into the file sink."""
        return self.ledger / "_spark_metadata" if fragment == f"to_{LEDGER}" else None

    def compare_outlets(self, expected: dict[str, Rows]) -> list[Verdict]:
        """The view and the file sink hold every row once."""
        return [
            verdict_on(VIEW, self._view_rows(), _view_truth(expected["source_minutes"])),
            verdict_on(LEDGER, self._ledger_rows(), expected["pair_seconds"]),
        ]

    def compare_topic(self, expected: dict[str, Rows]) -> tuple[Verdict, int]:
        """Kafka has every row at least once: how often it has some again is no fault, and counted apart."""
        found = self._topic_rows()
        verdict = verdict_on(TOPIC, Counter(found.keys()), expected["totals"])
        return verdict, found.total() - len(found)

    def _view_rows(self) -> Counter[Row]:
        table = read_stored(self.storage, VIEW)
        columns = [table[name].to_pylist() for name in ("source", "packets", "bytes") if table.num_rows]
        return Counter(zip(*columns, strict=True))

    def _ledger_rows(self) -> Counter[Row]:
        files = [entry.path for entry in stream_logs.sink_entries(self.ledger / "_spark_metadata")]
        parts = [pyarrow.parquet.ParquetFile(file).read() for file in files]
        table = pyarrow.concat_tables(parts) if parts else pyarrow.table({})
        return counted_rows(table, "pair_seconds")

    def _topic_rows(self) -> Counter[Row]:
        """Read by the endpoint, which has the connector."""
        assert self.kafka is not None
        session = open_session(self.far.endpoint)
        try:
            options = {"kafka.bootstrap.servers": self.kafka.address, "subscribe": TOPIC}
            rows = session.read.format("kafka").options(**options).load()
            values = rows.selectExpr("CAST(value AS STRING) AS value").collect()
        finally:
            close_session(session)
        return Counter(tuple(json.loads(row.value)) for row in values)


def _view_truth(minutes: Rows) -> Rows:
    packets, sizes = Counter[int](), Counter[int]()
    for _, source, count, size in minutes:
        packets[source] += count
        sizes[source] += size
    return {(source, packets[source], sizes[source]) for source in packets}
