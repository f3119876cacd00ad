"""Fragments run as streaming queries over channels: exactly once, trimmed behind all readers."""

from __future__ import annotations

import json
import shutil
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.checksum import checked
from mooring.disk import DISK
from mooring.errors import EngineError, InputError
from mooring.model.deployment.fragments import Fragment
from mooring.spark.engine.fragment_query import (
    check_checkpoint,
    flow_failure,
)
from mooring.spark.storage import stream_logs

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

from tests.spark.engine.fragment_scene import (
    NUMBERS,
    PATIENCE_S,
    READ,
    READER,
    SETTINGS,
    TWO_FLOWS,
    LayOut,
    Start,
    feed,
    holds,
    numbers_of,
    wait_until,
)


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
    note = json.loads(checked(note_file.read_bytes()))
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
    with pytest.raises(
        InputError, match=r"(?s)edited after the checkpoint.*'some' \(transformations/more.py:2\).*--fresh"
    ):
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
        checkpoint=lambda name: tmp_path,
        fragment_note=lambda name: tmp_path / "note",
        sink_of=lambda name: None,
        channels={},
        disk=DISK,
    )
    with pytest.raises(EngineError, match="note cannot be read"):
        check_checkpoint(stored, Fragment("f", ("f",)), accept_edits=False)  # type: ignore[arg-type]
