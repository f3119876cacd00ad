"""Table arguments and sinks as fragments write them: formats, partitions, columns, rows delivered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.engine.meters import FragmentMeter

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

from tests.spark.engine.fragment_scene import SETTINGS, LayOut, Start, feed, wait_until

ARGUMENTS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table(partition_cols=["kind"], schema="kind STRING, n LONG, none INT")
def sorted_out():
    kind = F.when(F.col("n") % 2 == 0, "even/even").otherwise(F.lit(None))
    return spark.readStream.table("numbers").select("n", kind.alias("kind"))

@dp.table(format="json", spark_conf={"spark.sql.session.timeZone": "Asia/Tokyo"})
def as_json():
    zone = F.expr("current_timezone()").alias("zone")
    return spark.readStream.table("sorted_out").select("n", zone, "kind")

@dp.table(format="orc")
def as_orc():
    return spark.readStream.table("as_json")
"""


def test_formats_partitions_columns_and_settings_are_honoured_through_channels(
    make_project: ProjectMaker, lay_out: LayOut, start: Start
) -> None:
    folder = make_project(settings=SETTINGS, arguments_py=ARGUMENTS)
    layout = lay_out(folder)
    running = [start(layout, name) for name in layout.fragments]
    assert len(running) == 4
    feed(folder, "a", range(6))

    def files(dataset: str) -> list[Path]:
        return [entry.path for entry in layout.channels[dataset].committed().entries]

    wait_until(lambda: bool(files("as_orc")), *running)
    from pyarrow import orc

    rows = [row for file in files("as_orc") for row in orc.read_table(file).to_pylist()]
    kinds = {0: "even/even", 1: None}
    expected = [{"n": n, "zone": "Asia/Tokyo", "kind": kinds[n % 2]} for n in range(6)]
    assert sorted(rows, key=lambda row: int(row["n"])) == expected
    assert {file.parent.name for file in files("sorted_out")} == {
        "kind=even%2Feven",
        "kind=__HIVE_DEFAULT_PARTITION__",
    }
    assert all(file.suffix == ".json" for file in files("as_json"))
    # Positions of a partitioned table are counted as those of any other.
    channel = layout.channels["sorted_out"]
    assert channel.state().committed["as_json"] == channel.state().end > 0


SINK = """
from pyspark import pipelines as dp

dp.create_sink("out", "parquet", {"path": "INPUT-out"})

@dp.append_flow(target="out")
def deliver():
    return spark.readStream.table("numbers")
"""


def test_rows_delivered_to_a_sink_of_files_are_counted(
    make_project: ProjectMaker, lay_out: LayOut, start: Start
) -> None:
    """Spark says -1 of such a sink."""
    folder = make_project(settings=SETTINGS, sink_py=SINK)
    layout = lay_out(folder)
    running = [start(layout, name) for name in layout.fragments]
    feed(folder, "a", range(37))
    meter = FragmentMeter()

    def delivered() -> bool:
        meter.take([json.loads(report.json) for report in running[1].query.recentProgress])
        return meter.rows_in >= 37

    wait_until(delivered, *running)
    assert meter.rows_out == 37
