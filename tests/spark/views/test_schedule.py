"""Views are due when what they read has changed, in the order of the graph, at most once per interval (no
Spark).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.errors import EngineError
from mooring.spark.pipeline.layout import Layout
from mooring.spark.storage import stream_logs
from mooring.spark.storage.views.versions import ViewVersion
from mooring.spark.views.schedule import ViewSchedule
from mooring.spark.views.snapshot_reads import fixed_reads, marks_now, write_file_log
from tests.spark.pipeline.written_storage import Flow, WrittenStorage

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

TABLE = Flow("t", outside=True)
OTHER = Flow("u", outside=True)


def view(name: str, *static: str, **more: object) -> Flow:
    return Flow(name, static=static, kind="materialized", **more)  # type: ignore[arg-type]


@dataclass
class Stage:
    """A layout whose batches and versions are made by hand, and a clock that is set."""

    layout: Layout
    now_s: float = 1000.0
    schedule: ViewSchedule = field(init=False)

    def __post_init__(self) -> None:
        self.layout.create()
        self.schedule = ViewSchedule(self.layout, lambda: self.now_s)
        for name in self.layout.views:
            self.schedule.begin(name, self)

    def batch(self, table: str) -> None:
        """Another batch of one file."""
        channel = self.layout.channels[table]
        number = stream_logs.last_batch(channel.sink_log) + 1
        channel.sink_log.mkdir(exist_ok=True)
        file = channel.folder / f"part-{number}"
        file.write_text("row")
        line = f'{{"path":"file://{channel.link / file.name}","size":3,"modificationTime":1}}'
        (channel.sink_log / str(number)).write_text(f"v1\n{line}")

    def refresh(self, name: str) -> ViewVersion:
        """As a refresh does it, but for the rows."""
        flow, versions = self.layout.pipeline.flows[name], self.layout.views[name]
        with fixed_reads(self.layout, flow.static, name) as fixed:
            folder = versions.next_folder()
            folder.mkdir()
            version = ViewVersion(folder.name, (), 0, 0, self.now_s, 1.0, 0, fixed.marks, flow.fingerprint)
        versions.publish(version, self.layout.owned.out)
        return version

    def may_refresh(self, name: str) -> bool:
        read = [self.layout.views.get(each) for each in self.layout.pipeline.flows[name].static]
        return all(each is None or each.current() is not None for each in read)

    def due(self) -> list[str]:
        views = [name for name in self.layout.pipeline.flows if name in self.layout.views]
        return [name for name in views if self.schedule.is_due(name)]


StageOf = Callable[..., Stage]


@pytest.fixture
def stage_of(make_project: ProjectMaker) -> StageOf:
    def make(flows: Sequence[Flow], more: str = "refresh_s: 60\n") -> Stage:
        return Stage(WrittenStorage(make_project).layout(flows, more))

    return make


def test_a_view_is_due_at_first_when_its_table_grows_and_not_before_its_interval(stage_of: StageOf) -> None:
    stage = stage_of([TABLE, view("v", "t")])
    assert stage.due() == ["v"]
    stage.refresh("v")
    stage.now_s += 100
    assert stage.due() == [], "nothing has changed"
    stage.batch("t")
    assert stage.due() == ["v"]
    stage.refresh("v")
    stage.batch("t")
    stage.now_s += 59
    assert stage.due() == []
    stage.now_s += 1
    assert stage.due() == ["v"]


def test_what_cannot_be_observed_is_due_every_interval_and_nothing_at_all_never(stage_of: StageOf) -> None:
    stage = stage_of([view("v", unobserved=True), view("w")])
    for name in ("v", "w"):
        stage.refresh(name)
    stage.now_s += 60
    assert stage.due() == ["v"]


def test_views_follow_the_order_of_the_graph(stage_of: StageOf) -> None:
    stage = stage_of([TABLE, view("v", "t"), view("w", "v", "t"), view("x", "w")])
    assert stage.due() == ["v"]
    with pytest.raises(EngineError, match="refresh 'w' first"):
        stage.refresh("x")
    for name in ("v", "w", "x"):
        assert stage.due() == [name]
        stage.refresh(name)
    stage.now_s += 60
    stage.batch("t")
    for name in ("v", "w", "x"):
        assert stage.due() == [name], "it waits for those it reads, however far above"
        stage.refresh(name)


def test_a_view_that_is_always_due_does_not_starve_those_behind_it(stage_of: StageOf) -> None:
    stage = stage_of([view("v", unobserved=True), view("w", "v")])
    stage.refresh("v")
    stage.refresh("w")
    stage.now_s += 60
    stage.refresh("v")
    stage.now_s += 60
    assert stage.due() == ["v", "w"]


def test_a_view_that_nobody_looks_after_is_not_waited_for(stage_of: StageOf) -> None:
    stage = stage_of([TABLE, view("v", "t"), view("w", "v", "t")])
    stage.refresh("v")
    stage.refresh("w")
    stage.now_s += 60
    stage.batch("t")
    assert stage.due() == ["v"]
    stage.schedule.end("v", "one that ran before")
    assert stage.due() == ["v"]
    stage.schedule.end("v", stage)
    assert stage.due() == ["v", "w"]


def test_an_edited_view_is_due_at_once_and_so_are_its_readers_after_it(make_project: ProjectMaker) -> None:
    flows = [TABLE, view("v", "t"), view("w", "v")]
    before = Stage(WrittenStorage(make_project).layout(flows, "refresh_s: 60\n"))
    before.refresh("v")
    before.refresh("w")
    edited = [TABLE, view("v", "t", does="something else"), view("w", "v")]
    stage = Stage(WrittenStorage(make_project).layout(edited, "refresh_s: 60\n"))
    assert stage.due() == ["v"]
    stage.refresh("v")
    stage.now_s += 60
    assert stage.due() == ["w"]


def test_a_view_whose_version_was_removed_is_due_at_once(stage_of: StageOf) -> None:
    stage = stage_of([TABLE, view("v", "t")])
    shutil.rmtree(stage.layout.views["v"].folder / stage.refresh("v").folder)
    assert stage.due() == ["v"]


def test_a_table_that_was_written_anew_up_to_the_same_batch_counts_as_changed(stage_of: StageOf) -> None:
    stage = stage_of([TABLE, view("v", "t")])
    stage.batch("t")
    stage.refresh("v")
    stage.now_s += 60
    stage.layout.channels["t"].delete()
    stage.layout.create()
    stage.batch("t")
    assert stage.due() == ["v"]


def test_each_view_may_have_an_interval_of_its_own(stage_of: StageOf) -> None:
    stage = stage_of([TABLE, view("v", "t"), view("w", "t")], "tables: {w: {refresh_s: 10}}\n")
    for name in ("v", "w"):
        stage.refresh(name)
    stage.batch("t")
    stage.now_s += 10
    assert stage.due() == ["w"]
    stage.now_s += 50
    assert stage.due() == ["v", "w"]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(["t", "u", "v", "w", "x"]), max_size=25))
def test_a_snapshot_holds_whatever_went_into_what_it_holds(stage_of: StageOf, steps: list[str]) -> None:
    """Whatever order batches and refreshes come in: the batches that a view was made of are among those that
    a refresh fixes together with the view.
    """
    stage = stage_of([TABLE, OTHER, view("v", "t"), view("w", "v", "u"), view("x", "w", "t", "v")])
    for step in steps:
        if step in "tu":
            stage.batch(step)
        elif stage.may_refresh(step):
            stage.refresh(step)
    flow = stage.layout.pipeline.flows["x"]
    if stage.may_refresh("x"):
        with fixed_reads(stage.layout, flow.static, "x") as fixed:
            for version in fixed.views.values():
                for table, number in version.reads.batches.items():
                    assert number <= fixed.marks.batches.get(table, number)
            assert fixed.marks == marks_now(stage.layout, flow)


def test_the_log_names_exactly_the_files_that_were_fixed(stage_of: StageOf, tmp_path: Path) -> None:
    stage = stage_of([TABLE, view("v", "t")])
    for _ in range(3):
        stage.batch("t")
    with fixed_reads(stage.layout, ["t"], "v") as fixed:
        stage.batch("t")
        write_file_log(tmp_path / "log", fixed.tables["t"], stage.layout)
    entries = stream_logs.sink_entries(tmp_path / "log" / "_spark_metadata")
    link = stage.layout.channels["t"].link
    assert [entry.path for entry in entries] == [link / f"part-{number}" for number in range(3)]
    assert fixed.marks.batches == {"t": 2}
