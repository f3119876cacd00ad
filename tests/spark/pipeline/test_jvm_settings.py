"""Heap and Java options of embedded sites: stated per site, and refused where they would do harm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.pipeline.project import load_project
from mooring.spark.pipeline.site_options import site_options
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.java import find_java

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

SITE = "sites:\n  here: {{capacity: 1, {}}}\n  there: {{capacity: 1, memory_mb: 2000}}\n"


def test_heap_and_options_of_a_site_reach_its_java_machine_alone(
    make_project: ProjectMaker, tmp_path: Path
) -> None:
    stated = SITE.format("heap_mb: 700, jvm_options: ['-XX:+UseParallelGC', '-Dcolour=red']")
    options = site_options(load_project(make_project(stated)), EmbeddedOptions())
    here = EmbeddedSite("here", tmp_path, find_java(), options=options)
    there = EmbeddedSite("there", tmp_path, find_java(), memory_mb=2000, options=options)
    commands = [site._command(tmp_path) for site in (here, there)]
    assert {"-Xmx700m", "-XX:+UseParallelGC", "-Dcolour=red"} <= set(commands[0])
    assert "-XX:+UseSerialGC" not in commands[0]
    assert {"-Xmx2000m", "-XX:+UseSerialGC"} <= set(commands[1])
    assert "-Dcolour=red" not in commands[1]


@pytest.mark.parametrize(
    ("stated", "why"),
    [
        ("heap_mb: 300", "at least 512"),
        ("jvm_options: ['-Xmx2g']", "state heap_mb instead"),
        ("jvm_options: ['-Dspark.authenticate=false']", "under `configuration`"),
        ("jvm_options: ['-agentlib:jdwp=transport=dt_socket']", "expected an option"),
        ("jvm_options: ['@/tmp/options']", "expected an option"),
        ("jvm_options: ['-Dcom.sun.management.jmxremote.port=9']", "lets others into the site"),
        ("jvm_options: ['-Dstore.secret=hush']", "all users of a machine can read command lines"),
        ("heap_mb: 700, connect: {url: 'sc://there:15002'}", "runs already"),
        ("heap: 700", "heap_mb"),
    ],
)
def test_what_would_do_harm_is_refused_with_the_place_where_it_belongs(
    make_project: ProjectMaker, stated: str, why: str
) -> None:
    with pytest.raises(InputError) as refused:
        load_project(make_project(SITE.format(stated)))
    assert why in str(refused.value)
    assert "hush" not in str(refused.value)
