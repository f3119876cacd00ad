"""Fragments run as streaming queries over channels: exactly once, trimmed behind all readers."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.deployment.fragments import Fragment
from mooring.errors import EngineError, InputError
from mooring.spark.pipeline.definitions import load_definitions
from mooring.spark.pipeline.layout import Layout, cut_pipeline
from mooring.spark.pipeline.pipeline import read_pipeline
from mooring.spark.pipeline.project import load_project
from mooring.spark.running.fragment_query import (
    RunningFragment,
    check_checkpoint,
    flow_failure,
    prepare_fragment,
)
from mooring.spark.running.meters import FragmentMeter
from mooring.spark.runs.results import read_stored
from mooring.spark.sites.endpoint import close_session
from mooring.spark.storage import stream_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

LayOut = Callable[[Path], Layout]
Start = Callable[..., RunningFragment]

PATIENCE_S = 150

NUMBERS = """
from pyspark import pipelines as dp

@dp.table
def numbers():
    return spark.readStream.schema("n long, at timestamp").json("INPUT")
"""
SETTINGS = """
sites: {here: {capacity: 2}}
streams: {numbers: {site: here, rate: 100}}
trigger_s: 0.2
"""

READ = "tables: {numbers: {keep: read}, both: {keep: read}}\n"

TWO_FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

dp.create_streaming_table("both")

@dp.append_flow(target="both")
def evens():
    return spark.readStream.table("numbers").filter("n % 2 = 0")

@dp.append_flow(target="both")
def odds():
    return spark.readStream.table("numbers").filter("n % 2 = 1")

@dp.table
def doubled():
    return spark.readStream.table("both").selectExpr("n * 2 AS n")

@dp.table
def late():
    return spark.readStream.table("both").selectExpr("n + 1000000 AS n")
"""

READER = """
from pyspark import pipelines as dp

@dp.table
def kept():
    return spark.readStream.table("numbers").filter("n >= 0")
"""


def wait_until(happened: Callable[[], bool], *running: RunningFragment) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        for fragment in running:
            assert fragment.query.exception() is None, fragment.query.exception()
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def feed(folder: Path, name: str, numbers: range) -> None:
    lines = [json.dumps({"n": n, "at": f"2020-01-01T00:00:{n % 60:02d}Z"}) for n in numbers]
    hidden = folder / "input" / f".{name}"
    hidden.write_text("\n".join(lines))
    hidden.rename(folder / "input" / f"{name}.json")


@pytest.fixture
def lay_out(session: SparkSession) -> LayOut:
    def make(folder: Path) -> Layout:
        project = load_project(folder)
        (project.settings.storage / "empty").mkdir(parents=True, exist_ok=True)
        definitions = load_definitions(folder, project.spec, session)
        pipeline = read_pipeline(project.spec, definitions, session, project.settings.storage / "empty")
        layout = cut_pipeline(project, pipeline)
        layout.create()
        return layout

    return make


@pytest.fixture
def start(site: EmbeddedSite) -> Iterator[Start]:
    running: list[RunningFragment] = []

    def begin(layout: Layout, name: str, **options: bool) -> RunningFragment:
        fragment = prepare_fragment(layout, layout.fragments[name], "here", site.endpoint, **options).start()
        running.append(fragment)
        return fragment

    yield begin
    for fragment in running:
        if fragment.query.isActive:
            fragment.query.stop()
        close_session(fragment.session)


def numbers_of(layout: Layout, dataset: str) -> list[int]:
    table = read_stored(layout.root, dataset)
    return sorted(table["n"].to_pylist()) if table.num_rows else []


def holds(layout: Layout, dataset: str, numbers: list[int]) -> bool:
    return numbers_of(layout, dataset) == numbers


def test_two_flows_into_one_dataset_and_a_late_reader_lose_nothing_while_the_channel_is_trimmed(
    make_project: ProjectMaker, lay_out: LayOut, start: Start
) -> None:
    folder = make_project(more_py=TWO_FLOWS, settings=SETTINGS + READ)
    layout = lay_out(folder)
    assert set(layout.fragments) == {"numbers", "evens", "odds", "doubled", "late"}
    running = [start(layout, name) for name in ("numbers", "evens", "odds", "doubled")]
    for batch in range(4):
        feed(folder, f"f{batch}", range(batch * 50, batch * 50 + 50))
        expected = [2 * n for n in range(batch * 50 + 50)]
        wait_until(partial(holds, layout, "doubled", expected), *running)
    # The late reader never ran, so its rows are all kept, though the other reader has committed past them.
    evens = layout.channels["evens"]
    wait_until(lambda: evens.state().committed["doubled"] == evens.state().end, *running)
    assert evens.state().committed["late"] == 0
    assert evens.trim().items == 0
    # The channel from numbers has no late reader: once both flows have committed, its files are gone.
    numbers = layout.channels["numbers"]
    wait_until(lambda: numbers.trim().items > 0 and numbers.state().start == numbers.state().end, *running)
    assert not list(numbers.folder.glob("*.parquet"))
    running.append(start(layout, "late"))
    wait_until(lambda: len(numbers_of(layout, "late")) == 200, *running)
    assert numbers_of(layout, "late") == [n + 1_000_000 for n in range(200)]
    wait_until(lambda: evens.trim().items > 0 and evens.state().start == evens.state().end, *running)
    # Everything goes on after the trimming, also for readers started anew over shortened logs.
    for fragment in running:
        fragment.query.stop()
    running = [start(layout, name) for name in layout.fragments]
    feed(folder, "last", range(200, 230))
    wait_until(lambda: len(numbers_of(layout, "late")) == 230, *running)
    wait_until(lambda: len(numbers_of(layout, "doubled")) == 230, *running)
    assert numbers_of(layout, "doubled") == [2 * n for n in range(230)]


def test_the_logs_of_a_trimmed_channel_stay_short(
    make_project: ProjectMaker, lay_out: LayOut, start: Start
) -> None:
    code = (
        "from pyspark import pipelines as dp\n"
        "dp.create_sink('out', 'noop', {})\n"
        "@dp.append_flow(target='out')\ndef deliver():\n    return spark.readStream.table('numbers')\n"
    )
    one_by_one = NUMBERS.replace(".json(", ".option('maxFilesPerTrigger', 1).json(")
    said = SETTINGS.replace("0.2", "0.05") + "tables: {numbers: {keep: read}}"
    folder = make_project(more_py=code, numbers_py=one_by_one, settings=said)
    for batch in range(23):  # beyond two of Spark's compactions
        feed(folder, f"f{batch}", range(batch, batch + 1))
    layout = lay_out(folder)
    running = [start(layout, name) for name in ("numbers", "deliver")]
    channel, log = layout.channels["numbers"], layout.channels["numbers"].folder / "_spark_metadata"
    wait_until(lambda: (channel.trim(), channel.state().start == 23)[1], *running)
    # Spark may have compacted from what it had read before; the next batches show and settle that.
    for batch in range(23, 27):
        feed(folder, f"f{batch}", range(batch, batch + 1))
    wait_until(lambda: (channel.trim(), channel.state().start == 27)[1], *running)
    channel.trim()
    source_log = layout.checkpoint("deliver") / "sources" / "0"
    assert len(stream_logs.sink_entries(log)) <= 4
    assert len(stream_logs.source_entries(source_log, 10**9)) <= 4


def test_readers_that_start_over_entries_a_stale_compaction_brought_back_go_on_without_them(
    make_project: ProjectMaker, lay_out: LayOut, start: Start
) -> None:
    """Spark compacts from what it had read before Mooring shortened the log, naming files that are gone."""
    folder = make_project(more_py=TWO_FLOWS, settings=SETTINGS + READ)
    layout = lay_out(folder)
    running = [start(layout, name) for name in ("numbers", "evens", "odds")]
    feed(folder, "f", range(10))
    numbers = layout.channels["numbers"]
    wait_until(lambda: numbers.state().end == 1 and numbers.state().trim_to() == 1, *running)
    log = numbers.folder / "_spark_metadata" / "0"
    stale = log.read_text()
    assert numbers.trim().items == 1
    for fragment in running[1:]:
        fragment.query.stop()
    assert log.read_text() != stale
    log.write_text(stale)
    for gone in (layout.checkpoint("odds"), layout.channels["odds"].folder):  # odds is as new; evens resumes
        shutil.rmtree(gone)
    layout.channels["odds"]._note_file.unlink()
    layout.create()
    running[1:] = [start(layout, name) for name in ("evens", "odds")]
    feed(folder, "g", range(10, 20))
    wait_until(lambda: len(numbers_of(layout, "both")) >= 15, *running)
    assert numbers_of(layout, "both") == sorted([*range(0, 20, 2), *range(11, 20, 2)])


def test_trimming_can_be_interrupted_at_any_point_and_done_again(
    make_project: ProjectMaker, lay_out: LayOut, start: Start
) -> None:
    folder = make_project(more_py=TWO_FLOWS, settings=SETTINGS + READ)
    layout = lay_out(folder)
    running = [start(layout, name) for name in ("numbers", "evens", "odds")]
    feed(folder, "f", range(10))
    channel = layout.channels["numbers"]
    wait_until(lambda: channel.state().end == 1 and channel.state().trim_to() == 1, *running)
    entry = stream_logs.sink_entries(channel.folder / "_spark_metadata")[0]
    # As after a crash between writing the intent and carrying it out.
    note_file = layout.owned.channel_note("numbers")
    note = json.loads(note_file.read_text())
    note_file.write_text(json.dumps(note | {"start": 1, "trimming": [str(entry.path)]}))
    assert (channel.state().start, channel.state().end) == (1, 1)
    channel.trim()
    assert not entry.path.exists()
    assert (channel.state().start, channel.state().end) == (1, 1)


def test_an_edited_flow_is_noticed_and_never_silently_reset(
    make_project: ProjectMaker, lay_out: LayOut, start: Start
) -> None:
    def project(condition: str) -> Path:
        code = (
            "from pyspark import pipelines as dp\n"
            f"@dp.table\ndef some():\n    return spark.readStream.table('numbers').filter('{condition}')\n"
        )
        return make_project(more_py=code)

    folder = project("n < 5")
    layout = lay_out(folder)
    running = [start(layout, name) for name in ("numbers", "some")]
    feed(folder, "f", range(10))
    wait_until(lambda: numbers_of(layout, "some") == [0, 1, 2, 3, 4], *running)
    for fragment in running:
        fragment.query.stop()
    edited = lay_out(project("n < 7"))
    with pytest.raises(InputError, match=r"(?s)edited since.*'some' \(transformations/more.py:2\).*--fresh"):
        start(edited, "some")
    assert numbers_of(edited, "some") == [0, 1, 2, 3, 4]
    running = [start(edited, "some", accept_edits=True), start(edited, "numbers")]
    feed(folder, "g", range(10))
    wait_until(lambda: len(numbers_of(edited, "some")) == 12, *running)


def test_a_lost_checkpoint_is_refused_since_spark_would_drop_rows(
    make_project: ProjectMaker, lay_out: LayOut, start: Start
) -> None:
    folder = make_project()
    layout = lay_out(folder)
    running = start(layout, "numbers")
    feed(folder, "f", range(10))
    wait_until(lambda: len(numbers_of(layout, "numbers")) == 10, running)
    running.query.stop()
    layout.checkpoint("numbers").rename(folder / "elsewhere")
    with pytest.raises(EngineError, match="silently drop rows"):
        start(layout, "numbers")


def test_a_failing_function_is_reported_with_flow_line_and_site(
    make_project: ProjectMaker, lay_out: LayOut, start: Start
) -> None:
    code = (
        "from pyspark import pipelines as dp\nfrom pyspark.sql import functions as F\n"
        "@F.udf('long')\ndef inverse(n):\n    return 1 // n\n"
        "@dp.table\ndef bad():\n"
        "    return spark.readStream.table('numbers').select(inverse('n').alias('n'))\n"
    )
    folder = make_project(more_py=code)
    layout = lay_out(folder)
    running = [start(layout, name) for name in ("numbers", "bad")]
    feed(folder, "f", range(3))
    deadline = time.monotonic() + PATIENCE_S
    while (failure := running[1].query.exception()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    said = str(flow_failure(layout, "bad", "here", failure))
    for part in ("'bad' (transformations/more.py:6)", "site 'here'", "more.py:5", "ZeroDivisionError"):
        assert part in said


def test_a_channel_taken_away_is_not_made_again_so_that_no_reader_takes_its_files_for_deleted(
    make_project: ProjectMaker, lay_out: LayOut, start: Start
) -> None:
    """Spark's file source skips a planned file it cannot find, in silence, if only the folder is there."""
    folder = make_project(more_py=READER)
    layout = lay_out(folder)
    writer, reader = start(layout, "numbers"), start(layout, "kept")
    feed(folder, "first", range(10))
    wait_until(lambda: numbers_of(layout, "kept") == list(range(10)), writer, reader)
    channel = layout.channels["numbers"]
    reader.query.stop()
    feed(folder, "second", range(10, 20))
    wait_until(lambda: channel.state().end > channel.state().committed["kept"], writer)
    channel.folder.rename(channel.folder.with_name("elsewhere"))
    feed(folder, "third", range(20, 30))
    wait_until(lambda: not writer.query.isActive)
    assert writer.query.exception() is not None
    assert not channel.folder.exists()
    assert "is missing" in str(channel.lost())

    channel.folder.with_name("elsewhere").rename(channel.folder)
    again = [start(layout, "numbers"), start(layout, "kept")]
    wait_until(lambda: numbers_of(layout, "kept") == list(range(30)), *again)


@pytest.mark.parametrize("note", ["", '{"flows": {"f": "a', "[]", '{"flows": 3}'])
def test_a_torn_note_of_a_fragment_is_named(tmp_path: Path, note: str) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    (tmp_path / "note").write_text(note)
    stored = SimpleNamespace(
        checkpoint=lambda name: tmp_path, fragment_note=lambda name: tmp_path / "note", channels={}
    )
    with pytest.raises(EngineError, match="note cannot be read"):
        check_checkpoint(stored, Fragment("f", ("f",)), accept_edits=False)  # type: ignore[arg-type]


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
