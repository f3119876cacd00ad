"""A rehearsal changes nothing that anybody reads, and leaves its code to the query that starts next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.disk import DISK, everything_below
from mooring.spark.engine.fragment_query import RunningFragment, prepare_fragment
from mooring.spark.engine.rehearsal import pays, rehearse
from mooring.spark.sites.endpoint import close_session, keep_generated_code, open_session
from tests.spark.engine.fragment_scene import NUMBERS, SETTINGS, feed, holds, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mooring.spark.pipeline.layout import Layout
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker
    from tests.spark.engine.fragment_scene import LayOut, Start

COUNTED = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def counted():
    numbers = spark.readStream.table("numbers").withWatermark("at", "1 second")
    return numbers.groupBy(F.window("at", "2 seconds")).agg(F.count("*").alias("n"))
"""
_COMPILED = (
    "SELECT java_method('org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator', 'compileTime')"
)


def files(layout: Layout) -> dict[Path, int]:
    return {path: entry.size for path, entry in everything_below(DISK, layout.root) if entry.kind == "file"}


@pytest.fixture
def compiled_ns(site: EmbeddedSite) -> Iterator[Callable[[], int]]:
    """What the site has spent on compiling so far, by a question that compiles nothing itself."""
    session = open_session(site.endpoint)
    keep_generated_code(session)

    def ask() -> int:
        return int(session.sql(_COMPILED).collect()[0][0])

    ask()
    assert ask() == ask()
    yield ask
    close_session(session)


def is_at_rest(fragment: RunningFragment) -> bool:
    status = fragment.query.status
    return not status["isTriggerActive"] and not status["isDataAvailable"]


@pytest.mark.spark
def test_a_rehearsal_compiles_the_code_of_the_next_start_and_changes_no_file(
    site: EmbeddedSite,
    make_project: ProjectMaker,
    lay_out: LayOut,
    start: Start,
    compiled_ns: Callable[[], int],
) -> None:
    folder = make_project(settings=SETTINGS, numbers_py=NUMBERS, counted_py=COUNTED)
    layout = lay_out(folder)
    running = [start(layout, name) for name in ("numbers", "counted")]
    feed(folder, "a", range(20))
    wait_until(lambda: holds(layout, "counted", [2] * 9), *running)
    feed(folder, "b", range(20, 30))
    wait_until(lambda: holds(layout, "counted", [2] * 14), *running)
    wait_until(lambda: all(map(is_at_rest, running)), *running)
    before = files(layout)
    prepared = prepare_fragment(layout, layout.fragments["counted"], "here", site.endpoint)
    assert pays(prepared, 0.0, 1.0)
    assert rehearse(prepared)
    assert files(layout) == before
    compiled = compiled_ns()
    assert rehearse(prepared), "once more, in place of the start"
    assert compiled_ns() == compiled
    prepared.discard()
    feed(folder, "c", range(30, 40))
    wait_until(lambda: holds(layout, "counted", [2] * 19), *running)


@pytest.mark.spark
def test_a_source_outside_is_read_once_and_not_by_a_rehearsal(
    site: EmbeddedSite, make_project: ProjectMaker, lay_out: LayOut
) -> None:
    layout = lay_out(make_project(settings=SETTINGS, numbers_py=NUMBERS))
    prepared = prepare_fragment(layout, layout.fragments["numbers"], "here", site.endpoint)
    assert not pays(prepared, 0.0, 1.0)
    prepared.discard()


@pytest.mark.spark
def test_this_spark_keeps_generated_code_for_sessions_that_ask_for_it(
    site: EmbeddedSite, tmp_path: Path, compiled_ns: Callable[[], int]
) -> None:
    """Each start of a query compiles anew by default. A Spark that no longer does needs no settings."""
    spent = {False: list[int](), True: list[int]()}
    for kept in (False, True):
        session = open_session(site.endpoint)
        if kept:
            keep_generated_code(session)
        rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
        writer = rows.selectExpr("value * 17 + 4 AS n").dropDuplicates(["n"]).writeStream.format("noop")
        for number in range(2):
            before = compiled_ns()
            checkpoint = str(tmp_path / f"{kept}{number}")
            query = writer.option("checkpointLocation", checkpoint).trigger(once=True).start()
            assert query.awaitTermination(60)
            spent[kept].append(compiled_ns() - before)
        close_session(session)
    assert spent[False][1] > 0
    assert spent[True][1] == 0
