"""Materialized views that are added, edited or removed between two runs (no Spark)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.project_edits import AcceptedEdits
from mooring.spark.storage.pipeline_record import read_record
from mooring.spark.storage.views.versions import ReadsOf, ViewVersion
from mooring.spark.views.schedule import ViewSchedule
from tests.spark.pipeline.written_storage import Flow, WrittenStorage

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

TABLE = Flow("t", outside=True)
VIEW = Flow("v", static=("t",), kind="materialized")


@pytest.fixture(autouse=True, scope="module")
def no_power_failures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def refreshed(layout: Layout, view: str = "v") -> None:
    versions, flow = layout.views[view], layout.pipeline.flows[view]
    folder = versions.next_folder()
    folder.mkdir()
    version = ViewVersion(folder.name, (), 3, 10, 0.0, 1.0, 5, ReadsOf(), flow.fingerprint)
    versions.publish(version, layout.owned.out)


def test_a_view_that_has_gone_is_refused_with_its_rows_and_dropped_by_name(
    make_project: ProjectMaker,
) -> None:
    storage = WrittenStorage(make_project)
    refreshed(storage.begin([TABLE, VIEW]))
    with pytest.raises(InputError, match=r"'v' is gone, of which there is a version with 3 rows.*--drop v"):
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
    with pytest.raises(InputError, match="keep: read for 'u', which v reads as it stands"):
        storage.begin(
            [TABLE, Flow("u", reads=("t",)), Flow("v", static=("u",), kind="materialized")],
            "tables: {u: {keep: read}}\n",
        )
