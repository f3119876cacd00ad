"""What cannot be run is refused with the reason, and the rest runs without it where `skip` says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker
    from tests.spark.runs.conftest import Verb

HEAD = "from pyspark import pipelines as dp\n"
FILES = {
    "cdc_py": HEAD
    + "dp.create_streaming_table('latest')\n"
    + "dp.create_auto_cdc_flow(target='latest', source='numbers', keys=['n'], sequence_by='at')\n",
    "after_sql": "CREATE STREAMING TABLE newest AS SELECT * FROM STREAM latest;\n"
    "CREATE STREAMING TABLE kept AS SELECT n FROM STREAM numbers;\n"
    "CREATE STREAMING TABLE clean (CONSTRAINT good EXPECT (n > 0)) AS SELECT n FROM STREAM numbers;\n"
    "CREATE FLOW more AS AUTO CDC INTO rows FROM STREAM numbers KEYS (n) SEQUENCE BY at;\n"
    "CREATE STREAMING TABLE listed AS SELECT * FROM STREAM read_files('/data');\n",
    "loader_py": HEAD
    + "@dp.table\ndef loaded():\n    return spark.readStream.format('cloudFiles').load('/data')\n",
    "old_py": "import dlt\n@dlt.table\ndef x():\n    return dlt.read('numbers')\n",
    "checked_py": HEAD + "@dp.table\n@dp.expect_or_drop('good', 'n > 0')\ndef checked():\n    pass\n",
}


def test_each_is_refused_with_its_line_the_reason_and_the_way_to_do_without(
    make_project: ProjectMaker, mooring: Verb, up_already: str
) -> None:
    folder = make_project(settings=f"sites: {{here: {up_already}}}", **FILES)
    said = mooring("check", folder)
    assert said.code == 2
    for place, what, skip in (
        ("cdc.py:3", "rewrites its target", "latest"),
        ("after.sql:3", "expectations", "clean"),
        ("after.sql:4", "rewrites its target", "more"),
        ("after.sql:5", "read_files exists on Databricks only", "listed"),
        ("loader.py", "Auto Loader", "loaded"),
        ("old.py:1", "imports dlt", "transformations/old.py"),
        ("checked.py:3", "dp.expect_or_drop", "transformations/checked.py"),
    ):
        lines = [line for line in said.err.splitlines() if place in line]
        assert any(what in line and f"skip: [{skip}]" in line for line in lines), f"{place}\n{said.err}"
    assert "newest" not in said.err


def test_the_rest_runs_without_what_is_skipped_and_without_what_needs_it(
    make_project: ProjectMaker, mooring: Verb, up_already: str
) -> None:
    skip = "[latest, clean, more, listed, loaded, transformations/old.py, transformations/checked.py]"
    folder = make_project(settings=f"sites: {{here: {up_already}}}\nskip: {skip}", **FILES)
    checked = mooring("check", folder, "--json").document
    assert checked["operators"] == 2
    (note,) = [each for each in checked["statistics"] if "left out" in each]
    assert note.endswith("clean, latest, listed, loaded, newest, rows")
    wrong = folder / "mooring.yml"
    wrong.write_text(wrong.read_text().replace("[latest", "[nobody, latest"))
    assert "found 'nobody', expected a dataset, a flow" in mooring("check", folder).err
