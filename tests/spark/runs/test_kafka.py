"""Kafka as source and sink of a pipeline, over a real broker and Spark's own connector; and tables of Avro,
whose connector stands beside it on the class path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.engine.meters import FragmentMeter
from mooring.spark.pipeline.project import load_project
from mooring.spark.profile.sources import outside_sources, read_sample
from mooring.spark.runs.results import read_stored
from mooring.spark.sites.embedded_site import EmbeddedSite
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.java import find_java
from tests.spark.connectors.kafka_broker import KafkaBroker
from tests.spark.connectors.kafka_jars import Part, fetch_all
from tests.spark.quick_start import quick_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import ProjectMaker
    from tests.spark.runs.conftest import Verb

pytestmark = pytest.mark.spark
SETTINGS = """\
sites:
  here: {capacity: 2, connect: "SITE"}
tables: {readings: {keep: all}}
"""
READINGS = """
from pyspark import pipelines as dp

@dp.table
def readings():
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "BROKER")
    rows = source.option("subscribe", "readings").option("startingOffsets", "earliest").load()
    return rows.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS n")
"""
PUBLISHED = """
from pyspark import pipelines as dp

dp.create_sink("published", "kafka", {"kafka.bootstrap.servers": "BROKER", "topic": "published"})

@dp.append_flow(target="published")
def publish():
    return spark.readStream.table("readings").filter("n % 2 = 0").selectExpr("CAST(n AS STRING) AS value")
"""


AVRO = """
from pyspark import pipelines as dp

@dp.table(format="avro")
def kept():
    return spark.readStream.table("numbers").select("n")

@dp.materialized_view(format="avro")
def sums():
    return spark.sql("SELECT n % 2 AS odd, sum(n) AS n FROM kept GROUP BY n % 2")
"""


@dataclass(frozen=True)
class Topics:
    """What a broker holds, written and read through a site that has the connector."""

    address: str
    session: SparkSession

    def send(self, topic: str, numbers: range) -> None:
        rows = self.session.range(numbers.start, numbers.stop).selectExpr("CAST(id AS STRING) AS value")
        options = {"kafka.bootstrap.servers": self.address, "topic": topic}
        rows.write.format("kafka").options(**options).save()

    def numbers(self, topic: str) -> list[int]:
        options = {"kafka.bootstrap.servers": self.address, "subscribe": topic}
        rows = self.session.read.format("kafka").options(**options).load()
        return sorted(int(row.value) for row in rows.select("value").collect())


@pytest.fixture(scope="module")
def jars() -> dict[Part, list[Path]]:
    try:
        return fetch_all()
    except OSError as failure:
        pytest.skip(f"no Kafka: its jars are neither here nor to be had from Maven Central ({failure})")


@pytest.fixture(scope="module")
def connected(
    jars: dict[Part, list[Path]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedSite]:
    """A site whose server has the connector."""
    options = quick_start(jars=tuple(jars["connector"]))
    site = EmbeddedSite("here", tmp_path_factory.mktemp("site"), find_java(), capacity=2, options=options)
    site.start()
    try:
        site.wait_ready()
        yield site
    finally:
        site.stop()


@pytest.fixture(scope="module")
def topics(
    jars: dict[Part, list[Path]], connected: EmbeddedSite, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Topics]:
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), jars["broker"], find_java())
    try:
        broker.wait_ready()
        session = open_session(connected.endpoint)
        yield Topics(broker.address, session)
        close_session(session)
    finally:
        broker.stop()


@pytest.fixture
def project(make_project: ProjectMaker, connected: EmbeddedSite, topics: Topics) -> Path:
    flows = {"numbers_py": "", "readings_py": READINGS, "published_py": PUBLISHED}
    texts = {name: text.replace("BROKER", topics.address) for name, text in flows.items()}
    return make_project(SETTINGS.replace("SITE", connected.endpoint.url), **texts)


def test_updates_carry_every_row_from_topic_to_topic_and_a_crash_repeats_some(
    project: Path, topics: Topics, mooring: Verb
) -> None:
    """`check` says that the sink is at least once; a batch that was delivered and not committed shows why."""
    topics.send("readings", range(100))
    checked = mooring("check", project, "--json").document
    assert any(
        "the sink 'published' (kafka) receives rows at least once" in warning
        for warning in checked["warnings"]
    )

    done = mooring("run", project, "--once", "--json").document
    assert done["update"]["fragments"]["publish"]["rows_written"] == 50
    topics.send("readings", range(100, 200))
    assert mooring("run", project, "--once").code == 0
    stored = read_stored(load_project(project).settings.storage, "readings")
    assert sorted(stored["n"].to_pylist()) == list(range(200))
    assert topics.numbers("published") == list(range(0, 200, 2))

    commits = [file for file in project.rglob("commits/[0-9]*") if "publish" in file.parts]
    last = max(commits, key=lambda file: int(file.name)).name
    for file in commits:
        if file.name == last:
            file.unlink()
    assert mooring("run", project, "--once").code == 0
    delivered = topics.numbers("published")
    assert set(delivered) == set(range(0, 200, 2))
    assert len(delivered) == 150, "the last batch went out once more"


def test_a_profile_takes_its_sample_from_the_topic(topics: Topics) -> None:
    topics.send("sampled", range(30))
    options = {"kafka.bootstrap.servers": topics.address, "subscribe": "sampled", "maxOffsetsPerTrigger": "5"}
    frame = topics.session.readStream.format("kafka").options(**options).load()
    (source,) = outside_sources(frame)
    sample = read_sample(topics.session, source, "sampled", None)
    values = sorted(int(value) for value in sample.table["value"].to_pylist())
    assert values == list(range(30))
    assert sample.kind == "parquet"
    assert "`value` binary" in sample.schema_ddl


def test_meters_count_the_rows_of_a_topic_that_are_still_to_be_read(topics: Topics, tmp_path: Path) -> None:
    topics.send("behind", range(40))
    options = {"kafka.bootstrap.servers": topics.address, "subscribe": "behind", "maxOffsetsPerTrigger": "20"}
    source = topics.session.readStream.format("kafka").options(**options)
    frame = source.option("startingOffsets", "earliest").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    meter = FragmentMeter()
    meter.take([json.loads(report.json) for report in query.recentProgress])
    assert meter.rows_in == 40
    counts = [batch.rows_behind for batch in meter.batches]
    assert counts[0] == 20
    assert counts[-1] == 0


def test_tables_of_a_format_on_the_class_path_are_kept_in_it(
    make_project: ProjectMaker, connected: EmbeddedSite, mooring: Verb
) -> None:
    folder = make_project(
        f'sites: {{here: {{capacity: 2, connect: "{connected.endpoint.url}"}}}}', avro_py=AVRO
    )
    for first in (0, 50):
        lines = [json.dumps({"n": n, "at": "2020-01-01T00:00:00Z"}) for n in range(first, first + 50)]
        (folder / "input" / f"{first}.json").write_text("\n".join(lines))
        assert mooring("run", folder, "--once").code == 0
    tables = {table["name"]: table for table in mooring("tables", folder, "--json").document["tables"]}
    assert [(tables[name]["format"], tables[name]["rows"]) for name in ("kept", "sums")] == [
        ("avro", 100),
        ("avro", 2),
    ]
    session = open_session(connected.endpoint)
    try:
        line = tables["sums"]["read"]["spark"]
        rows = eval(line, {"spark": session, "json": json, "Path": Path}).collect()  # noqa: S307
    finally:
        close_session(session)
    assert sorted(map(tuple, rows)) == [(0, 2450), (1, 2500)]
