"""A view's load follows the rows that are stored, and headroom says how long its refresh fits (no Spark)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.model.placement.placement import Placement
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.storage.views.versions import ReadsOf, ViewVersion
from mooring.spark.views.forecast import ViewForecast, view_forecasts
from tests.spark.pipeline.written_storage import Flow, WrittenStorage

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

SETTINGS = """\
sites: {a: {capacity: 1}, b: {capacity: 1}}
streams: {t: {site: a, rate: 100}}
refresh_s: 10
statistics: {t: {cost_us: 10, selectivity: 0.5, fixed_cores: 0.1}, v: {cost_us: 2, fixed_cores: 0.05}}
"""
FLOWS = [Flow("t", outside=True), Flow("v", static=("t",), kind="materialized")]


def layout_of(make_project: ProjectMaker, rows_in: int, more: str = "") -> Layout:
    layout = WrittenStorage(make_project).layout(FLOWS, more, SETTINGS)
    layout.create()
    versions = layout.views["v"]
    version = ViewVersion(versions.next_folder().name, (), 1, 1, 0.0, 1.0, rows_in, ReadsOf(), "what v does")
    versions.publish(version, layout.owned.out)
    return layout


def forecast(layout: Layout, site: str) -> ViewForecast:
    problem = problem_of(layout)
    placement = Placement.from_dict(problem, {"t:ingest": "a", "v": site})
    return view_forecasts(layout, problem, placement)["v"]


def test_the_load_of_a_view_is_that_of_reading_all_rows_once_per_interval(make_project: ProjectMaker) -> None:
    layout = layout_of(make_project, rows_in=1_000_000)
    operator = next(each for each in problem_of(layout).operators if each.name == "v")
    assert operator.cost_us == 0.0, "the rate of a stream does not load it"
    assert operator.fixed_cores == pytest.approx(0.05 + 2.0 / 10)


def test_it_fits_until_its_site_has_too_little_left(make_project: ProjectMaker) -> None:
    found = forecast(layout_of(make_project, rows_in=1_000_000), "b")
    assert found.refresh_cpu_s == pytest.approx(2.5)
    assert found.cores_left == pytest.approx(1.0)
    assert found.most_rows == pytest.approx((10 - 0.5) / 2e-6)
    assert found.rows_per_s == pytest.approx(50)
    assert found.fits_for_s == pytest.approx((found.most_rows - 1_000_000) / 50)


def test_what_else_runs_at_its_site_leaves_it_less(make_project: ProjectMaker) -> None:
    found = forecast(layout_of(make_project, rows_in=1_000_000), "a")
    assert found.cores_left == pytest.approx(1.0 - 0.1 - 100 * 10e-6)
    assert found.most_rows == pytest.approx((found.cores_left * 10 - 0.5) / 2e-6)


def test_one_that_does_not_fit_is_told_and_one_whose_rows_go_by_age_always_fits(
    make_project: ProjectMaker,
) -> None:
    assert forecast(layout_of(make_project, rows_in=10_000_000), "b").fits_for_s == 0.0
    aged = layout_of(make_project, rows_in=1_000, more="tables: {t: {keep: 1h}}\n")
    assert math.isinf(forecast(aged, "b").fits_for_s)
    assert forecast(aged, "b").as_json()["fits_for_s"] is None
