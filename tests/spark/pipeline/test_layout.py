"""What is kept, and so where the pipeline is cut, follows from `mooring.yml` (no Spark needed)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark.sql.types import StructType

from mooring.errors import InputError
from mooring.spark.definitions.definitions import Dataset, Place
from mooring.spark.pipeline.layout import Layout, cut_pipeline
from mooring.spark.pipeline.pipeline import FlowNode, Pipeline
from mooring.spark.pipeline.project import load_project
from mooring.spark.storage.retention import ALL, READ

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

PLACE = Place("flows.py", 1)
SETTINGS = "sites: {here: {capacity: 2}}\nstreams: {numbers: {site: here, rate: 100}}\n"


def flow(name: str, *inputs: str) -> FlowNode:
    return FlowNode(name, name, inputs, (), not inputs, False, StructType(), "", PLACE)


def chain(make_project: ProjectMaker, settings: str) -> Layout:
    """numbers -> small -> sums, which nobody reads."""
    flows = [flow("numbers"), flow("small", "numbers"), flow("sums", "small")]
    datasets = {each.name: Dataset(each.name, "table", PLACE) for each in flows}
    pipeline = Pipeline("chain", datasets, {each.name: each for each in flows})
    return cut_pipeline(load_project(make_project(settings=SETTINGS + settings)), pipeline)


def test_every_table_is_kept_and_stored_unless_told_otherwise(make_project: ProjectMaker) -> None:
    layout = chain(make_project, "")
    assert [layout.keep_of(name) for name in ("numbers", "small", "sums")] == [ALL] * 3
    assert set(layout.channels) == {"numbers", "small", "sums"}
    read = chain(make_project, "tables: {small: {keep: read}}")
    assert read.keep_of("small") == READ
    assert read.fragments["sums"].operators == ("small", "sums")


def test_a_table_that_is_to_be_kept_is_stored(make_project: ProjectMaker) -> None:
    layout = chain(make_project, "tables: {small: {keep: 7d}, sums: {keep: read}}")
    assert layout.keep_of("small").age_s == 7 * 86400
    assert "small" in layout.channels
    assert not layout.is_kept("sums")
    layout.create()
    assert layout.channels["small"].readers() == ["sums", "results small"]


def test_a_query_keeps_what_it_reads_unless_told_otherwise(make_project: ProjectMaker) -> None:
    queries = "queries: {small: {site: here}}\n"
    assert chain(make_project, queries).is_kept("small")
    assert not chain(make_project, queries + "tables: {small: {keep: read}}").is_kept("small")


@pytest.mark.parametrize(
    ("tables", "field", "says"),
    [
        ("{smal: {keep: all}}", "tables.smal", "did you mean 'small'"),
        ("{small: {kep: all}}", "tables.small", "did you mean 'keep'"),
        ("{small: {}}", "tables.small.keep", "expected all, read, or a duration"),
        ("{small: all}", "tables.small", "expected a mapping of fields"),
        ("[small]", "tables", "expected a mapping"),
    ],
)
def test_bad_tables_are_named(make_project: ProjectMaker, tables: str, field: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        chain(make_project, f"tables: {tables}")
    assert refused.value.field == field
    assert says in str(refused.value)
    assert str(refused.value.file).endswith("mooring.yml")
