"""The graph is read off the definitions, and what cannot be placed is refused by name and line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError, UnsupportedError
from mooring.spark.definitions.definitions import load_definitions
from mooring.spark.pipeline.layout import Layout, cut_pipeline
from mooring.spark.pipeline.pipeline import Pipeline, read_pipeline
from mooring.spark.pipeline.project import load_project
from tests.spark.conftest import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import ProjectMaker

HEAD = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F
"""


def read(folder: Path, session: SparkSession) -> Pipeline:
    project = load_project(folder)
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    definitions = load_definitions(folder, project.spec, session)
    return read_pipeline(project.spec, definitions, session, empty)


def layout_of(folder: Path, session: SparkSession) -> Layout:
    return cut_pipeline(load_project(folder), read(folder, session))


def test_python_and_sql_definitions_form_one_graph(make_project: ProjectMaker, session: SparkSession) -> None:
    folder = make_project(
        more_py=HEAD
        + """
        @dp.table
        def even():
            return SparkSession.active().readStream.table("half").filter("n % 4 = 0")

        @dp.temporary_view
        def half():
            return spark.readStream.table("numbers").withWatermark("at", "1 second").filter("n % 2 = 0")
        """.replace("\n        ", "\n"),
        rest_sql="""\
        CREATE STREAMING TABLE counted AS
        WITH e AS (SELECT * FROM STREAM even)
        SELECT window(at, '1 second') AS w, count(*) AS c FROM e GROUP BY window(at, '1 second');

        CREATE STREAMING TABLE all_of_it;
        CREATE FLOW one AS INSERT INTO all_of_it BY NAME SELECT n FROM STREAM(numbers);
        CREATE FLOW two AS INSERT INTO all_of_it BY NAME SELECT n + 1 AS n FROM STREAM even;
        """,
    )
    pipeline = read(folder, session)
    flows = pipeline.flows
    assert flows["numbers"].outside
    assert flows["even"].inputs == ("numbers",)
    assert flows["even"].views == ("half",)
    assert flows["counted"].inputs == ("even",)
    assert flows["counted"].stateful
    assert [flow.name for flow in pipeline.writers("all_of_it")] == ["one", "two"]
    assert str(flows["two"].place) == "transformations/rest.sql:7"
    assert str(flows["even"].place) == "transformations/more.py:5"


def test_a_view_may_read_tables_where_no_stream_could_stand(
    make_project: ProjectMaker, session: SparkSession
) -> None:
    folder = make_project(
        rest_sql="""\
        CREATE TEMPORARY VIEW large AS SELECT n FROM numbers WHERE n > (SELECT avg(n) FROM numbers);
        CREATE MATERIALIZED VIEW counts AS
        SELECT (SELECT count(*) FROM large) AS large, (SELECT count(*) FROM default.numbers) AS all;
        """
    )
    flow = read(folder, session).flows["counts"]
    assert (flow.inputs, flow.static, flow.views) == ((), ("numbers",), ("large",))


def test_a_sink_ends_a_chain_and_operators_that_only_feed_each_other_run_together(
    make_project: ProjectMaker, session: SparkSession
) -> None:
    folder = make_project(
        settings=SETTINGS + "tables: {small: {keep: read}}\n",
        more_py=HEAD
        + """
dp.create_sink("out", "noop", {})

@dp.table
def small():
    return spark.readStream.table("numbers").filter("n < 10")

@dp.append_flow(target="out")
def deliver():
    return spark.readStream.table("small")
""",
    )
    layout = layout_of(folder, session)
    # numbers is pinned where its source is reachable, so it stays apart.
    assert {name: f.operators for name, f in layout.fragments.items()} == {
        "numbers": ("numbers",),
        "deliver": ("small", "deliver"),
    }
    assert set(layout.channels) == {"numbers"}


def test_a_view_may_be_read_as_a_stream_by_one_and_as_it_stands_by_another(
    make_project: ProjectMaker, session: SparkSession
) -> None:
    folder = make_project(
        more_py=HEAD + "@dp.materialized_view\ndef v():\n    return spark.read.table('numbers').distinct()\n"
        "@dp.table\ndef t():\n    return spark.readStream.table('v').where('n > 1')\n",
        s_sql="CREATE STREAMING TABLE s AS SELECT n FROM STREAM v",
        j_sql="CREATE STREAMING TABLE j AS SELECT x.n FROM STREAM numbers x JOIN v ON x.n = v.n",
        w_sql="CREATE MATERIALIZED VIEW w AS SELECT count(*) AS c FROM v",
    )
    layout = layout_of(folder, session)
    flows = layout.pipeline.flows
    read = {name: (flows[name].inputs, flows[name].static) for name in "tsjw"}
    assert read == {
        "t": (("v",), ()),
        "s": (("v",), ()),
        "j": (("numbers",), ("v",)),
        "w": ((), ("v",)),
    }
    assert {"v", "t", "s"} <= layout.fragments.keys()
    assert layout.reads_of("t") == ("v",)
    assert sorted(layout.registered(layout.channels["v"])) == ["s", "t"]


@pytest.mark.parametrize(
    ("code", "line", "said"),
    [
        (
            "@dp.materialized_view\ndef v():\n    return spark.readStream.table('numbers')\n",
            4,
            "materialized view 'v' reads a stream",
        ),
        ("@dp.table\ndef t():\n    return spark.read.table('numbers')\n", 4, "as a fixed table"),
        ("@dp.table\ndef t():\n    return spark.range(3)\n", 4, "reads no stream"),
        ("@dp.table\ndef t():\n    return spark.readStream.table('numbers').select('nope')\n", 4, "nope"),
        ("@dp.table\ndef t():\n    return spark.readStream.table('absent')\n", 4, "absent"),
        (
            "@dp.table\ndef t():\n    x = 1\n    return spark.readStream.table('numbers') + x\n",
            7,
            "TypeError",
        ),
        ("dp.create_streaming_table('t')\n", 4, "no flow writes"),
        ("@dp.append_flow(target='t')\ndef f():\n    return 1\n", 4, "not defined"),
        ("1 / 0\n", 4, "ZeroDivisionError"),
        ("import sys\nsys.exit()\n", 5, "ends the process"),
        (
            "dp.create_streaming_table('t')\ndp.create_auto_cdc_flow(target='t', source='numbers', "
            "keys=['n'], sequence_by='at')\n",
            5,
            "AutoCDC",
        ),
    ],
)
def test_what_cannot_be_placed_is_refused_with_its_line(
    make_project: ProjectMaker, session: SparkSession, code: str, line: int, said: str
) -> None:
    folder = make_project(bad_py=HEAD + code)
    with pytest.raises(InputError) as refusal:
        read(folder, session)
    assert said in str(refusal.value)
    assert f"bad.py:{line}" in str(refusal.value)


@pytest.mark.parametrize(
    ("sql", "line", "said"),
    [
        ("-- c\nCREATE MATERIALIZED VIEW v AS SELECT n FROM STREAM numbers", 2, "materialized view 'v'"),
        ("CREATE STREAMING TABLE t AS SELECT * FROM numbers", 1, "as a fixed table"),
        ("CREATE STREAMING TABLE t AS SELEC * FROM STREAM numbers", 1, "expected a query after AS"),
        ("CREATE STREAMING TABLE t AS\nSELECT nope FROM STREAM numbers", 1, "nope"),
        ("DROP TABLE numbers", 1, "DROP TABLE"),
    ],
)
def test_sql_that_cannot_be_placed_is_refused_with_its_line(
    make_project: ProjectMaker, session: SparkSession, sql: str, line: int, said: str
) -> None:
    folder = make_project(bad_sql=sql)
    with pytest.raises(InputError) as refusal:
        read(folder, session)
    assert said in str(refusal.value)
    assert f"bad.sql:{line}" in str(refusal.value)


def test_flows_that_read_each_other_are_refused(make_project: ProjectMaker, session: SparkSession) -> None:
    folder = make_project(
        bad_sql="CREATE STREAMING TABLE a AS SELECT * FROM STREAM b;"
        "CREATE STREAMING TABLE b AS SELECT * FROM STREAM a;"
    )
    with pytest.raises(InputError, match="circle"):
        read(folder, session)


def test_a_fingerprint_changes_with_the_meaning_and_not_with_the_layout(
    make_project: ProjectMaker, session: SparkSession
) -> None:
    def fingerprint(code: str) -> str:
        return read(make_project(more_py=HEAD + code), session).flows["t"].fingerprint

    body = (
        "@F.udf('long')\ndef twice(n):\n    return n * 2\n"
        "@dp.table\ndef t():\n    return spark.readStream.table('numbers').select(twice('n'))\n"
    )
    first = fingerprint(body)
    assert fingerprint("# a comment\n\n\n" + body) == first
    assert fingerprint(body.replace("n * 2", "n * 3")) != first
    assert fingerprint(body.replace("'numbers').", "'numbers').filter('n > 1').")) != first


def test_a_fingerprint_sees_through_views(make_project: ProjectMaker, session: SparkSession) -> None:
    def fingerprint(condition: str) -> str:
        code = (
            "@dp.temporary_view\ndef v():\n"
            f"    return spark.readStream.table('numbers').filter('{condition}')\n"
            "@dp.table\ndef t():\n    return spark.readStream.table('v')\n"
        )
        return read(make_project(more_py=HEAD + code), session).flows["t"].fingerprint

    assert fingerprint("n > 1") != fingerprint("n > 2")


def test_mooring_yml_must_not_define_operators(make_project: ProjectMaker) -> None:
    with pytest.raises(InputError, match="statistics"):
        load_project(make_project(settings="operators: {}\nsites: {here: {capacity: 1}}\n"))


def test_unsupported_is_an_input_error() -> None:
    assert UnsupportedError("x").exit_code == 2


def test_the_graph_is_drawn_with_every_fragment_stream_and_query(
    make_project: ProjectMaker, session: SparkSession
) -> None:
    from xml.etree import ElementTree

    from mooring.spark.runs.record.graph_drawing import graph_svg

    settings = "sites: {here: {capacity: 1}}\nstreams: {numbers: {rate: 1}}\nqueries: {t: {site: here}}\n"
    code = "@dp.table\ndef t():\n    return spark.readStream.table('numbers')\n"
    layout = layout_of(make_project(settings=settings, more_py=HEAD + code), session)
    picture = ElementTree.fromstring(graph_svg(layout))
    texts = {element.text for element in picture.iter() if element.tag.endswith("text")}
    assert {"numbers", "outside source", "t", "query"} <= texts
