"""`check` shows all that is wrong with `mooring.yml`, and then all of the definitions, by file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.runs import project_run

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker
    from tests.spark.runs.conftest import Verb

HEAD = "from pyspark import pipelines as dp\n"
GOOD = "@dp.table\ndef good():\n    return spark.readStream.table('numbers')\n"
BAD = (
    "@dp.table\ndef bad():\n    return spark.readStream.table('numbers').select('nope')\n"
    "@dp.table\ndef worse():\n    return spark.readStream.table('absent')\n"
    "@dp.table\ndef after_bad():\n    return spark.readStream.table('bad')\n"
    "dp.create_streaming_table('unfed')\n"
    "@dp.append_flow(target='nowhere')\ndef lost():\n    return spark.readStream.table('numbers')\n"
)
SQL = "CREATE TABLE t (n INT);\nCREATE STREAMING TABLE s AS SELECT nope FROM STREAM numbers;\nSELEC 1;\n"


def test_every_problem_of_definitions_and_spec_is_shown_once(
    make_project: ProjectMaker, mooring: Verb, up_already: str
) -> None:
    folder = make_project(
        settings=f"sites: {{here: {up_already}, there: {up_already}}}",
        bad_py=HEAD + BAD,
        good_py=HEAD + GOOD,
        more_sql=SQL,
    )
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text() + "configuration: {spark.sql.warehouse.dir: /x, my.own: '1'}\n")
    said = mooring("check", folder)
    assert said.code == 2
    for place, what in (
        ("bad.py:2", "nope"),
        ("bad.py:5", "absent"),
        ("bad.py:11", "no flow writes into 'unfed'"),
        ("bad.py:12", "'nowhere', which is not defined"),
        ("more.sql:1", "CREATE STREAMING TABLE name AS"),
        ("more.sql:2", "nope"),
        ("more.sql:3", "SELEC 1"),
        ("spark-pipeline.yml: configuration.spark.sql.warehouse.dir", "the site 'here'"),
        ("spark-pipeline.yml: configuration.spark.sql.warehouse.dir", "the site 'there'"),
    ):
        lines = [line for line in said.err.splitlines() if place in line]
        assert any(what in line for line in lines), f"{place}: {what}\n{said.err}"
    assert said.err.count("mooring: ") == 9
    assert "after_bad" not in said.err


def test_two_flows_into_the_same_files_are_refused_since_spark_would_skip_batches(
    make_project: ProjectMaker, mooring: Verb, up_already: str
) -> None:
    flow = "@dp.append_flow(target='{0}')\ndef {1}():\n    return spark.readStream.table('numbers')\n"
    sink = "dp.create_sink('{0}', '{1}', {{'path': '{2}'}})\n"
    folder = make_project(f"sites: {{here: {up_already}}}")
    sinks = (("one", "parquet", f"{folder}/out"), ("other", "json", f"file://{folder}/more/../out/"))
    told = "".join(sink.format(*each) for each in (*sinks, ("shown", "console", "")))
    told += "".join(flow.format(*each) for each in (("one", "f"), ("one", "g"), ("other", "h")))
    told += "".join(flow.format("shown", name) for name in ("j", "k"))
    (folder / "transformations" / "sinks.py").write_text(HEAD + told)
    said = mooring("check", folder)
    assert said.code == 2
    assert said.err.count("mooring: ") == 1, said.err
    assert f"the flows 'f', 'g', 'h' write files into one folder, {folder}/out" in " ".join(said.err.split())


def test_problems_of_mooring_yml_are_all_named_before_a_site_is_started(
    make_project: ProjectMaker, mooring: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(project_run, "running_sites")
    folder = make_project(
        settings="sites: {here: {capcity: 2}}\ntriger_s: 2\ntables: {t: {keep: 7}}\npins: {t: 3}",
        bad_sql="CREATE TABLE t (n INT)",
    )
    said = mooring("check", folder, "--json")
    assert said.code == 2
    assert "sites.here" in said.out
    assert "did you mean 'trigger_s'" in said.out
    assert '"tables.t.keep"' in said.out
    assert '"pins.t"' in said.out
    assert "bad.sql" not in said.out


def test_names_in_mooring_yml_that_the_pipeline_lacks_are_all_named(
    make_project: ProjectMaker, mooring: Verb, up_already: str
) -> None:
    folder = make_project(
        settings=f"sites: {{here: {up_already}}}\nstreams: {{nubmers: {{site: here}}}}\n"
        "queries: {q: {reads: numbrs, site: here}}\npins: {gone: here}\ncuts: [gone_too]"
    )
    said = mooring("check", folder)
    fields = ("streams.nubmers", "queries.q.reads", "pins.gone", "cuts.gone_too")
    assert [field for field in fields if field not in said.err] == []
    assert "did you mean 'numbers'" in said.err


@pytest.mark.usefixtures("reader_up_already")
def test_a_second_check_says_the_same_without_a_site(
    make_project: ProjectMaker, mooring: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_project()
    first = mooring("check", folder, "--json")
    assert first.code == 0, first.err
    monkeypatch.delattr(project_run, "running_sites")
    second = mooring("check", folder, "--json").document
    assert "graph_kept_from" not in first.document
    assert second.pop("graph_kept_from")
    assert second == first.document
