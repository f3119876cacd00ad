"""Materialized views that are added, edited or removed between two runs (no Spark)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.pipeline.project_edits import AcceptedEdits
from mooring.spark.runs.apply_edits import write_anew
from mooring.spark.storage import stream_logs
from mooring.spark.storage.pipeline_record import read_record
from mooring.spark.storage.views.versions import ReadsOf, ViewVersion
from mooring.spark.views.schedule import ViewSchedule
from tests.spark.pipeline.written_storage import Flow, WrittenStorage, run_fragment

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

TABLE = Flow("t", outside=True)
VIEW = Flow("v", static=("t",), kind="materialized")


def refreshed(layout: Layout, view: str = "v", *files: str) -> str:
    versions, flow = layout.views[view], layout.pipeline.flows[view]
    folder = versions.next_folder()
    folder.mkdir()
    for name in files:
        (folder / name).write_text("rows")
    version = ViewVersion(folder.name, files, 3, 10, 0.0, 1.0, 5, ReadsOf(), flow.fingerprint)
    versions.publish(version, layout.owned.out)
    if (channel := layout.version_channels.get(view)) is not None:
        channel.hand_over()
    return folder.name


def delivered(layout: Layout, reader: str, view: str = "v") -> list[str]:
    """Versions that the reader has taken in, or finds when it starts."""
    layout.version_channels[view].begin(reader)
    run_fragment(layout, reader, 1)
    entries = stream_logs.source_entries(layout.checkpoint(reader) / "sources" / "0", 99)
    return [entry.path.name.rpartition("-part")[0] for entry in entries]


def test_a_view_that_has_gone_is_refused_with_its_rows_and_dropped_by_name(
    make_project: ProjectMaker,
) -> None:
    storage = WrittenStorage(make_project)
    refreshed(storage.begin([TABLE, VIEW]))
    with pytest.raises(InputError, match=r"'v' was removed with a version with 3 rows.*--drop 'v"):
        storage.begin([TABLE])
    layout = storage.begin([TABLE], accepted=AcceptedEdits(drop=("v",)))
    assert not layout.versions_of("v").folder.exists()
    record = read_record(layout.root)
    assert record is not None
    assert [each.name for each in record.dropped] == ["v"]
    assert not record.unfinished


def test_a_view_without_a_version_goes_without_a_word_and_comes_as_new(make_project: ProjectMaker) -> None:
    storage = WrittenStorage(make_project)
    storage.begin([TABLE, VIEW])
    storage.begin([TABLE])
    layout = storage.begin([TABLE, VIEW])
    assert layout.views["v"].current() is None
    assert ViewSchedule(layout).is_due("v")


def test_an_edited_view_keeps_its_version_until_it_is_computed_anew(make_project: ProjectMaker) -> None:
    storage = WrittenStorage(make_project)
    refreshed(storage.begin([TABLE, VIEW]))
    edited = Flow("v", static=("t",), kind="materialized", does="something else")
    layout = storage.begin([TABLE, edited])
    assert (found := layout.views["v"].current()) is not None
    assert found.rows == 3
    assert ViewSchedule(layout).is_due("v")


def test_a_table_does_not_become_a_view_of_the_same_name(make_project: ProjectMaker) -> None:
    storage = WrittenStorage(make_project)
    storage.run([TABLE, Flow("v", reads=("t",))])
    with pytest.raises(
        InputError, match="wrote into the table 'v' and writes into the materialized view 'v'"
    ):
        storage.begin([TABLE, VIEW])


def test_a_table_that_a_view_reads_is_a_channel_whose_rows_are_kept(make_project: ProjectMaker) -> None:
    storage = WrittenStorage(make_project)
    layout = storage.begin([TABLE, Flow("u", reads=("t",)), Flow("v", static=("u",), kind="materialized")])
    assert {"u", "v"} <= layout.fragments.keys()
    assert layout.is_kept("u")
    assert layout.comes_after("v") == ("u",)
    assert layout.readers_of("u") == []
    with pytest.raises(InputError, match="keep: read for 'u', which v reads as a fixed table"):
        storage.begin(
            [TABLE, Flow("u", reads=("t",)), Flow("v", static=("u",), kind="materialized")],
            "tables: {u: {keep: read}}\n",
        )


READER = Flow("r", reads=("v",))


def test_a_flow_that_comes_to_read_a_view_as_a_stream_begins_with_its_current_version(
    make_project: ProjectMaker,
) -> None:
    storage = WrittenStorage(make_project, as_read=False)
    layout = storage.begin([TABLE, VIEW])
    refreshed(layout, "v", "part")
    current = refreshed(layout, "v", "part")
    layout = storage.begin([TABLE, VIEW, READER])
    assert layout.comes_after("r") == ("v",)
    assert delivered(layout, "r") == [current]
    later = refreshed(layout, "v", "part")
    late = storage.begin([TABLE, VIEW, READER, Flow("late", reads=("v",))])
    assert delivered(late, "r") == [current, later]
    assert delivered(late, "late") == [later]


def test_what_is_kept_for_readers_of_a_view_goes_with_the_last_of_them(make_project: ProjectMaker) -> None:
    storage = WrittenStorage(make_project, as_read=False)
    layout = storage.begin([TABLE, VIEW, READER])
    refreshed(layout, "v", "part")
    delivered(layout, "r")
    with pytest.raises(InputError, match="'r' was removed"):
        storage.begin([TABLE, VIEW])
    layout = storage.begin([TABLE, VIEW], accepted=AcceptedEdits(drop=("r",)))
    assert not layout.channel_of("v", "v").exists
    assert not layout.channel_of("v", "v").folder.exists()
    layout = storage.begin([TABLE, VIEW, READER])
    current = refreshed(layout, "v", "part")
    assert delivered(layout, "r") == [current]
    layout = storage.begin([TABLE], accepted=AcceptedEdits(drop=("v", "r")))
    assert not (layout.root / "channels" / "v" / "v").exists()


def test_a_reader_that_is_written_anew_begins_with_the_version_of_then(make_project: ProjectMaker) -> None:
    """As under plain Spark, which has the newest version only."""
    storage = WrittenStorage(make_project, as_read=False)
    layout = storage.begin([TABLE, VIEW, READER])
    refreshed(layout, "v", "part")
    delivered(layout, "r")
    write_anew(layout, ["r"])
    current = refreshed(layout, "v", "part")
    assert delivered(layout, "r") == [current]


def test_rows_of_every_refresh_are_load_to_those_who_read_the_view_as_a_stream(
    make_project: ProjectMaker,
) -> None:
    storage = WrittenStorage(make_project, as_read=False)
    flows = [TABLE, VIEW, READER, Flow("s", reads=("r",))]
    said = "streams: {t: {site: here, rate: 1}}\nrefresh_s: 10\nstatistics:\n" + "".join(
        f"  {name}: {{cost_us: 1000, selectivity: 0.5, fixed_cores: 0.1}}\n" for name in "rs"
    )
    layout = storage.layout(flows, said, sites="sites: {here: {capacity: 2}}\n")
    fixed = {each.name: each.fixed_cores for each in problem_of(layout).operators}
    assert (fixed["r"], fixed["s"]) == (0.1, 0.1), "before the first version"
    layout.create()
    refreshed(layout, "v", "part")  # 3 rows
    operators = {each.name: each for each in problem_of(layout).operators}
    assert operators["r"].inputs == ("v",)
    assert operators["r"].fixed_cores == pytest.approx(0.1 + 1e-3 * 3 / 10)
    assert operators["s"].fixed_cores == pytest.approx(0.1 + 1e-3 * 0.5 * 3 / 10)
