"""Tables that cost a fragment are named, so that those whom it matters to can say otherwise (no Spark)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.tables.costly_tables import costly_tables_note
from tests.spark.pipeline.written_storage import Flow, WrittenStorage

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

FLOWS = (Flow("packets", outside=True), Flow("small", ("packets",)), Flow("counted", ("small",)))


def test_only_tables_that_could_run_with_their_reader_are_named(make_project: ProjectMaker) -> None:
    storage = WrittenStorage(make_project, as_read=False)
    assert costly_tables_note(storage.layout(FLOWS)) == [
        "packets, small are kept, which takes a fragment more each; for a table without readers of its own, "
        "`tables: {packets: {keep: read}}` avoids that"
    ]
    assert (
        costly_tables_note(storage.layout(FLOWS, "tables: {small: {keep: all}}\npins: {packets: here}")) == []
    )
    read = "tables: {packets: {keep: read}, small: {keep: read}}"
    assert len(storage.layout(FLOWS, read).fragments) == 1
