"""Whatever happens in the middle of a refresh, readers find a snapshot of what it fixed (no Spark)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyarrow
import pyarrow.parquet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.errors import EngineError
from mooring.spark.pipeline.layout import Layout
from mooring.spark.storage import stream_logs
from mooring.spark.storage.fencing import take_epoch
from mooring.spark.views.refresh import Refresher
from mooring.spark.views.snapshot_reads import FixedReads
from tests.spark.pipeline.written_storage import Flow, WrittenStorage

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

FLOWS = [
    Flow("t", outside=True),
    Flow("v", static=("t",), kind="materialized"),
    Flow("w", static=("v", "t"), kind="materialized"),
]


class Computed(Refresher):
    """A refresh whose query is computed here: the rows of `t` that were fixed, and those that `v` had."""

    meanwhile: Callable[[], None]

    def _compute(self, fixed: FixedReads, folder: Path, scratch: Path) -> None:
        self.meanwhile()
        files = [file.path for file in fixed.tables["t"].files]
        rows = [n for file in files for n in pyarrow.parquet.ParquetFile(file).read()["n"].to_pylist()]
        seen = {
            name: row_of(self.layout, name, version.folder)["rows"] for name, version in fixed.views.items()
        }
        folder.mkdir()
        table = pyarrow.table({"rows": [len(rows)], "sum": [sum(rows)], "of_v": [seen.get("v", 0)]})
        pyarrow.parquet.write_table(table, folder / "part-0.parquet")


def row_of(layout: Layout, view: str, folder: str) -> dict[str, int]:
    file = layout.views[view].folder / folder / "part-0.parquet"
    (row,) = pyarrow.parquet.ParquetFile(file).read().to_pylist()
    return dict(row)


@dataclass
class Story:
    layout: Layout
    epochs: dict[str, Path] = field(default_factory=dict)

    def begin(self, view: str) -> None:
        """Started anew, as by a move or after its site was lost: whatever ran before is overtaken."""
        self.epochs[view] = take_epoch(self.layout.checkpoints(view))

    def batch(self) -> None:
        channel = self.layout.channels["t"]
        number = stream_logs.last_batch(channel.sink_log) + 1
        channel.sink_log.mkdir(exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.table({"n": [number]}), channel.folder / f"part-{number}")
        line = f'{{"path":"file://{channel.link}/part-{number}","size":3,"modificationTime":1}}'
        (channel.sink_log / str(number)).write_text(f"v1\n{line}")

    def refresh(self, view: str, events: list[str]) -> None:
        """With events in the middle of it; refused only where it was overtaken, or has nothing to read."""
        nothing: Any = None
        flow, epoch = self.layout.pipeline.flows[view], self.epochs[view]
        refresher = Computed(self.layout, flow, nothing, nothing, epoch)

        def meanwhile() -> None:
            for event in events:
                self.happens(event, [])

        refresher.meanwhile = meanwhile
        try:
            made = refresher.refresh()
        except EngineError:
            readable = view == "v" or self.layout.views["v"].current() is not None
            if epoch == self.epochs[view] and readable:
                raise
            return
        assert epoch == self.epochs[view], "it was overtaken and has published"
        assert self.layout.views[view].current() is not None
        assert made.reads.batches["t"] + 1 == row_of(self.layout, view, made.folder)["rows"]

    def happens(self, event: str, inside: list[str]) -> None:
        if event == "batch":
            self.batch()
        elif event == "sweep":
            for versions in self.layout.views.values():
                versions.sweep(self.layout.owned.remove, now_s=1e12)
        elif event.startswith("begin"):
            self.begin(event[-1])
        else:
            self.refresh(event[-1], inside)
        self.read()

    def read(self) -> None:
        """As somebody outside does, at any moment."""
        for view, versions in self.layout.views.items():
            if (found := versions.current()) is not None:
                row, upto = row_of(self.layout, view, found.folder), found.reads.batches["t"] + 1
                assert (row["rows"], row["sum"]) == (upto, sum(range(upto)))
                assert row["of_v"] <= upto, "a table holds what went into a view that was read with it"


EVENTS = st.sampled_from(["batch", "sweep", "begin v", "begin w", "refresh v", "refresh w"])


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(EVENTS, st.lists(EVENTS, max_size=3)), max_size=8))
def test_readers_find_snapshots_whatever_happens_in_the_middle(
    make_project: ProjectMaker, steps: list[tuple[str, list[str]]]
) -> None:
    layout = WrittenStorage(make_project).layout(FLOWS)
    layout.create()
    story = Story(layout)
    story.begin("v")
    story.begin("w")
    with contextlib.suppress(RecursionError):
        for event, inside in steps:
            story.happens(event, inside)
    story.batch()
    story.refresh("v", [])
    story.refresh("w", [])
    story.read()
