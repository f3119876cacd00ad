"""Shuffle partitions follow the largest site that may run a fragment, and a checkpoint keeps its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.pipeline.shuffle_partitions import SETTING, partition_notes, partitions_of, shuffling
from tests.spark.pipeline.written_storage import Flow, WrittenStorage

if TYPE_CHECKING:
    from mooring.spark.pipeline.layout import Layout
    from tests.spark.conftest import ProjectMaker

FLOWS = (Flow("events", outside=True), Flow("counts", ("events",), stateful=True))
SITES = (
    "sites: {edge: {capacity: 0.5}, hub: {capacity: 5.5, connect: {url: 'sc://hub:15002'}}}\nstreams: {}\n"
)


def has_run(layout: Layout, fragment: str, partitions: int) -> None:
    """As Spark notes it with a batch."""
    offsets = layout.checkpoint(fragment) / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "7").write_text("v1\n" + json.dumps({"conf": {SETTING: str(partitions)}}) + "\n-")


def test_a_fragment_gets_a_partition_per_core_of_the_largest_site_that_may_run_it(
    make_project: ProjectMaker,
) -> None:
    storage = WrittenStorage(make_project)
    assert partitions_of(storage.layout(FLOWS, sites=SITES), "counts").count == 6
    pinned = storage.layout(FLOWS, "pins: {counts: edge}", sites=SITES)
    assert partitions_of(pinned, "counts").count == 1
    assert list(shuffling(pinned)) == ["counts"]


def test_a_checkpoint_keeps_the_number_that_it_began_with_and_that_is_said(
    make_project: ProjectMaker,
) -> None:
    layout = WrittenStorage(make_project).layout(FLOWS, sites=SITES)
    has_run(layout, "counts", 200)
    found = shuffling(layout)
    assert (found["counts"].count, found["counts"].chosen) == (200, 6)
    (note,) = partition_notes(found)
    assert "counts keeps the 200 shuffle partitions" in note


def test_what_the_spec_states_wins(make_project: ProjectMaker) -> None:
    layout = WrittenStorage(make_project).layout(FLOWS, sites=SITES)
    layout.project.spec.configuration[SETTING] = "3"
    assert partitions_of(layout, "counts").count == 3
