"""A profile of a small pipeline finds what its fragments cost, and plans are made with it from then on."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.pipeline.project import load_project
from mooring.spark.pipeline.statistics_file import (
    FlowStatistics,
    MeasuredStatistics,
    write_statistics,
)
from mooring.spark.pipeline.statistics_used import statistics_notes
from mooring.spark.profile import profiling
from mooring.spark.profile.fitting import _grouped, middle_of_passes
from mooring.spark.profile.profile_options import ProfileOptions
from mooring.spark.profile.profiling import profile_layout
from mooring.spark.runs.project_run import read_layout
from mooring.spark.sites.process_tree import can_see_processes
from mooring.spark.sites.sites import SiteHandle

if TYPE_CHECKING:
    from mooring.spark.pipeline.layout import Layout
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def doubled():
    return spark.readStream.table("numbers").withColumn("twice", F.col("n") * 2)

@dp.table
def kept():
    return spark.readStream.table("doubled").filter("n % 4 = 0")

@dp.table
def counted():
    rows = spark.readStream.table("kept").withWatermark("at", "1 second")
    return rows.groupBy(F.window("at", "10 seconds")).agg(F.count("*").alias("rows"))
"""
VIEW = """
@dp.materialized_view
def hundreds():
    return spark.read.table("kept").groupBy(F.expr("n div 100")).agg(F.count("*").alias("rows"))
"""
SETTINGS = """\
sites: {here: {capacity: 2}}
streams: {numbers: {site: here, rate: 1000}}
queries: {kept: {site: here}, counted: {site: here}}
tables: {doubled: {keep: read}}
trigger_s: 1
"""
QUICK = ProfileOptions(
    batches=6, passes=2, warm_up=2, most_warm_up=2, first_warm_up=2, warm_up_again=1, largest_rows=15_000
)


def land(folder: Path, rows: int) -> None:
    lines = [
        json.dumps({"n": n, "at": f"2020-01-01T00:{n // 600 % 60:02d}:{n // 10 % 60:02d}Z"})
        for n in range(rows)
    ]
    (folder / "input" / "a.json").write_text("\n".join(lines))


def figure(measured: float | None) -> float:
    assert measured is not None
    return measured


def layout_of(folder: Path, site: EmbeddedSite) -> Layout:
    return read_layout(load_project(folder), SiteHandle("here", 2.0, site.endpoint, site))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits shorter than those that make figures exact, on which nothing here depends."""
    monkeypatch.setattr(profiling, "_IDLE_S", 0.1)
    monkeypatch.setattr(profiling, "_TRIGGER_S", 0.1)


@pytest.mark.skipif(not can_see_processes(), reason="CPU is read from /proc")
def test_a_profile_measures_every_fragment_and_the_planner_uses_it(
    make_project: ProjectMaker, site: EmbeddedSite, tmp_path: Path
) -> None:
    folder = make_project(settings=SETTINGS, flows_py=FLOWS + VIEW)
    land(folder, 5000)
    layout = layout_of(folder, site)
    assert list(layout.fragments) == ["numbers", "kept", "counted", "hundreds"]
    handle = SiteHandle("here", 2.0, site.endpoint, site)
    told: list[float] = []
    found = profile_layout(
        layout, problem_of(layout), handle, tmp_path / "scratch", QUICK, lambda part, what: told.append(part)
    )
    assert not found.unmeasured
    assert found.flows.keys() == {"numbers", "doubled", "kept", "counted", "hundreds"}
    assert found.flows["numbers"].selectivity == pytest.approx(1.0)
    assert found.flows["kept"].selectivity == pytest.approx(0.25, abs=0.01)
    assert figure(found.flows["counted"].selectivity) < 0.1
    assert figure(found.flows["counted"].state_bytes) > 0
    # No batch is missed, merged with another or put down to another's rows, windowed or not.
    assert [found.flows[name].rows for name in layout.fragments] == 4 * [QUICK.largest_rows]
    assert all(figure(found.flows[name].batch_cpu_s) > 0.01 for name in layout.fragments)
    assert found.flows["doubled"].batch_cpu_s is None
    assert found.flows["doubled"].cost_us == pytest.approx(found.flows["kept"].cost_us)
    assert {found.flows[name].batches for name in found.flows} == {2 * 4}  # of all passes, those that count
    assert told == sorted(told)
    assert told[-1] == 1.0
    at = datetime.now(UTC).isoformat()
    write_statistics(
        folder / "statistics.yml", MeasuredStatistics(found.flows, at, look_cpu_s=found.look_cpu_s)
    )
    planned = layout_of(folder, site)
    operators = {operator.name: operator for operator in problem_of(planned).operators}
    assert operators["kept"].cost_us == pytest.approx(found.flows["kept"].cost_us, rel=1e-3)
    assert operators["kept"].fixed_cores > figure(found.flows["kept"].batch_cpu_s)
    refresh_cores = figure(found.flows["hundreds"].batch_cpu_s) / 60 + found.look_cpu_s / 5
    assert operators["hundreds"].fixed_cores == pytest.approx(refresh_cores, rel=1e-2)
    assert all("as measured" in note for note in statistics_notes(planned))


def test_the_user_wins_field_by_field_and_stale_or_missing_figures_are_said(
    make_project: ProjectMaker, site: EmbeddedSite
) -> None:
    given = SETTINGS + "statistics: {kept: {selectivity: 0.3}}\n"
    folder = make_project(settings=given, flows_py=FLOWS)
    layout = layout_of(folder, site)
    version = layout.pipeline.flows["kept"].unplaced_fingerprint
    flows = {
        "kept": FlowStatistics(cost_us=3.0, batch_cpu_s=0.1, selectivity=0.25, flow=version),
        "counted": FlowStatistics(cost_us=2.0, batch_cpu_s=0.2, flow="of another version"),
        "gone": FlowStatistics(cost_us=1.0),
    }
    measured = MeasuredStatistics(flows, at="2020-01-01T00:00:00Z")
    layout = replace(layout, project=replace(layout.project, measured=measured))
    operators = {operator.name: operator for operator in problem_of(layout).operators}
    assert (operators["kept"].cost_us, operators["kept"].selectivity) == (3.0, 0.3)
    assert operators["numbers:ingest"].fixed_cores > 0.0
    notes = " / ".join(statistics_notes(layout))
    assert "kept, counted as measured" in notes
    assert "override the measured ones of kept" in notes
    assert "stale: counted edited since measured" in notes
    assert "days ago" in notes
    assert "'gone', which is not a flow" in notes
    assert "no statistics for numbers, doubled: assumed 20 us" in notes
    assert "no fixed cost for numbers: assumed" in notes


def test_a_flow_that_moved_to_another_folder_is_not_stale(
    make_project: ProjectMaker, site: EmbeddedSite, tmp_path: Path
) -> None:
    folder = make_project(settings=SETTINGS, flows_py=FLOWS)
    before = layout_of(folder, site).pipeline.flows
    code = folder / "transformations" / "numbers.py"
    code.write_text(code.read_text().replace(str(folder / "input"), str(tmp_path)))
    after = layout_of(folder, site).pipeline.flows
    assert before["numbers"].fingerprint != after["numbers"].fingerprint
    assert before["numbers"].unplaced_fingerprint == after["numbers"].unplaced_fingerprint


@pytest.mark.skipif(not can_see_processes(), reason="CPU is read from /proc")
def test_what_cannot_be_sampled_is_named_and_the_profile_goes_on(
    make_project: ProjectMaker, site: EmbeddedSite, tmp_path: Path
) -> None:
    numbers = """
    from pyspark import pipelines as dp

    @dp.table
    def numbers():
        return spark.readStream.format("rate").load()
    """
    folder = make_project(settings=SETTINGS.split("queries")[0] + "trigger_s: 1\n", numbers_py=numbers)
    layout = layout_of(folder, site)
    handle = SiteHandle("here", 2.0, site.endpoint, site)
    found = profile_layout(layout, problem_of(layout), handle, tmp_path / "s", QUICK, lambda part, what: None)
    assert not found.flows
    assert "rate, which cannot be sampled" in found.unmeasured["numbers"]
    assert "--sample DIR" in found.unmeasured["numbers"]


def test_too_few_batches_are_refused() -> None:
    with pytest.raises(InputError, match="at least 6"):
        ProfileOptions(batches=5)


def test_the_verb_refuses_bad_options_before_it_starts_anything(
    make_project: ProjectMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    from mooring.cli.main import main

    folder = make_project(settings=SETTINGS, flows_py=FLOWS)
    assert main(["profile", str(folder), "--batches", "3"]) == 2
    assert main(["profile", str(folder), "--sample", str(folder / "nowhere")]) == 2
    assert main(["profile", str(folder / "nowhere")]) == 2
    assert "expected at least" in capsys.readouterr().err
    assert not (folder / "statistics.yml").exists()


def test_the_verb_shows_every_figure_with_its_error() -> None:
    from rich.console import Console

    from mooring.cli.verbs.profile import _table

    console = Console(width=120, record=True, file=io.StringIO())
    flow = FlowStatistics(cost_us=1.25, cost_us_error=0.05, batch_cpu_s=0.3, batches=12)
    console.print(_table(MeasuredStatistics({"kept": flow})))
    assert "1.25 ± 0.05" in console.export_text()


def test_what_passes_differ_by_is_in_the_error() -> None:
    """Each is sure of itself, and they were taken minutes apart on a machine that others use."""
    first = FlowStatistics(
        cost_us=1.0, cost_us_error=0.02, batch_cpu_s=0.2, batch_cpu_s_error=0.01, selectivity=0.5,
        selectivity_error=0.01, bytes=8.0, error=0.02, batches=8, rows=1000,
    )  # fmt: skip
    second = replace(first, cost_us=1.2, bytes=10.0, rows=2000, note="shared evenly with a")
    both = middle_of_passes([first, second])
    assert both.cost_us == pytest.approx(1.1)
    assert both.cost_us_error == pytest.approx(0.1)
    assert both.error == pytest.approx(0.1 / 1.1)
    assert both.batch_cpu_s_error == pytest.approx(0.01 / 2**0.5)
    assert (both.selectivity, both.bytes, both.batches, both.rows) == (0.5, 9.0, 16, 2000)
    assert both.note == "shared evenly with a"
    assert middle_of_passes([replace(first, selectivity=None)]).selectivity is None


def test_the_closing_batch_of_a_profile_belongs_to_the_last_round() -> None:
    """On its own it would look like a round that gives out far more than it takes in."""
    assert _grouped([1.0] * 13) == [6.0, 7.0]
    assert _grouped([1.0] * 3) == [3.0]
