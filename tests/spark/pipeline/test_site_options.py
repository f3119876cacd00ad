"""Jars of a project reach its embedded sites; where they cannot go is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.errors import InputError
from mooring.spark.pipeline.project import load_project
from mooring.spark.pipeline.site_options import jar_notes, power_cut_notes, site_options
from mooring.spark.sites.embedded_site import EmbeddedOptions

JARS = "jars: [lib/*.jar]\n"
EMBEDDED = "sites:\n  here: {capacity: 2}\n"
EXISTING = "sites:\n  there: {capacity: 2, connect: {url: 'sc://there:15002'}}\n"


@pytest.fixture
def with_jar(make_project: Callable[..., Path]) -> Callable[[str], Path]:
    def make(settings: str) -> Path:
        folder = make_project(settings)
        (folder / "lib").mkdir()
        (folder / "lib" / "a.jar").touch()
        return folder

    return make


def test_the_jars_of_mooring_yml_and_of_the_spec_reach_embedded_sites(
    with_jar: Callable[[str], Path],
) -> None:
    folder = with_jar(EMBEDDED + JARS)
    (folder / "b.jar").touch()
    with (folder / "spark-pipeline.yml").open("a") as spec:
        spec.write(f"configuration:\n  spark.jars: file://{folder}/b.jar\n")
    options = site_options(load_project(folder), EmbeddedOptions(heap_mb=777))
    assert options is not None
    assert options.heap_mb == 777
    assert options.jars == (folder / "lib" / "a.jar", folder / "b.jar")


def test_existing_endpoints_must_bring_the_jars_themselves_and_check_says_so(
    with_jar: Callable[[str], Path],
) -> None:
    project = load_project(with_jar(EXISTING + JARS))
    assert site_options(project) is None
    (note,) = jar_notes(project)
    assert "'there' must start with a.jar" in note


def test_where_all_sites_are_embedded_or_no_jar_is_wanted_nothing_is_said(
    with_jar: Callable[[str], Path],
) -> None:
    folder = with_jar(EMBEDDED + JARS)
    assert jar_notes(load_project(folder)) == []
    (folder / "mooring.yml").write_text(EXISTING)
    assert jar_notes(load_project(folder)) == []


def test_a_power_cut_is_survived_unless_mooring_yml_says_that_nobody_cares(
    make_project: Callable[..., Path],
) -> None:
    project = load_project(make_project(EMBEDDED))
    options = site_options(project)
    assert options is not None
    assert options.durable
    assert power_cut_notes(project) == {"here": "committed batches survive"}
    project = load_project(make_project(EMBEDDED + "durability: fast\n"))
    options = site_options(project)
    assert options is not None
    assert not options.durable
    assert "`durability: fast`" in power_cut_notes(project)["here"]


def test_where_spark_does_not_sync_its_files_check_says_that_mooring_does(
    make_project: Callable[..., Path],
) -> None:
    assert "Mooring syncs" in power_cut_notes(load_project(make_project(EXISTING)))["there"]
    folder = make_project(EMBEDDED)
    with (folder / "spark-pipeline.yml").open("a") as spec:
        spec.write("configuration:\n  spark.hadoop.fs.file.impl: org.apache.hadoop.fs.LocalFileSystem\n")
    assert "Mooring syncs" in power_cut_notes(load_project(folder))["here"]


def test_durability_is_one_of_two_words(make_project: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match="found 'quick', expected durable or fast"):
        load_project(make_project(EMBEDDED + "durability: quick\n"))
