"""`mooring check PROJECT --site NAME` against a real cluster; and two sites that are one cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.model.problem.site import Connection
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.sharing_sites import sharing_once
from mooring.spark.sites.endpoint import Endpoint
from mooring.spark.sites.sites import SiteHandle, SiteHandles

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker
    from tests.spark.runs.conftest import EvenNumbersMaker, Verb
    from tests.spark.shared_cluster import SharedCluster


def test_a_live_cluster_is_tried_whole_and_each_thing_missing_has_its_line(
    even_numbers: EvenNumbersMaker, mooring: Verb, cluster: SharedCluster
) -> None:
    project = even_numbers(f'{{here: {{capacity: 2, connect: "{cluster.url}"}}}}')
    spec = project.folder / "spark-pipeline.yml"
    done = mooring("check", project.folder, "--site", "here", "--json").document
    found = {each["what"]: each["state"] for each in done["findings"]}
    assert done["holds"], done
    tried = ["answers", "version of Spark", "rows", "cluster", "turns", "executors' secret", "logs"]
    tried += ["storage", "executors write", "Python of functions", "a stream with state"]
    assert {name: found.get(name) for name in tried} == dict.fromkeys(tried, "holds")
    assert found["cores"] == "better"  # spark.cores.max is not set
    rows = next(each["found"] for each in done["findings"] if each["what"] == "rows")
    assert "session.timeZone (America/New_York)" in rows
    assert cluster.url.split("token=")[1] not in str(done)

    spec.write_text(spec.read_text() + "configuration: {spark.sql.globalTempDatabase: other}\n")
    elsewhere = f"storage: {{root: {project.folder}/stored, sites: {{here: {project.folder}/nowhere}}}}\n"
    with (project.folder / "mooring.yml").open("a") as settings:
        settings.write(elsewhere)
    said = mooring("check", project.folder, "--site", "here", "--json")
    lacking = json.loads(said.out)
    assert said.code == 4
    missing = {each["what"]: each["remedy"] for each in lacking["findings"] if each["state"] == "missing"}
    fixed = "spark.sql.globalTempDatabase"
    assert missing[f"configuration.{fixed}"] == f"--conf {fixed}=other"
    assert "mount it there" in missing["storage"]


def test_two_endpoints_of_one_master_count_its_cores_once_stated_or_not(
    make_project: ProjectMaker, cluster: SharedCluster
) -> None:
    def sites(shares: str) -> str:
        other = f"{{capacity: 1, connect: '{cluster.url}'{shares}}}"
        return f"sites: {{a: {{capacity: 3, connect: '{cluster.url}'}}, b: {other}}}\n"

    stated = load_project(make_project(sites(", shares: a")))
    assert [site.capacity for site in stated.settings.sites] == [2.0, 1.0]
    project = load_project(make_project(sites("")))
    endpoint = Endpoint(Connection(url=cluster.url))
    handles = SiteHandles(SiteHandle(n, c, endpoint, None) for n, c in {"a": 3.0, "b": 1.0}.items())
    counted, notes = sharing_once(project, handles)
    assert [site.capacity for site in counted.settings.sites] == [2.0, 1.0]
    assert handles["a"].capacity == 2.0
    (note,) = notes
    assert "`shares: a`" in note
    assert "spark.cores.max" in note


@pytest.mark.parametrize(
    ("shares", "found"), [("nobody", "nobody"), ("b", "another site with `connect`"), ("c", "with `connect`")]
)
def test_a_site_shares_the_cluster_of_another_endpoint_only(
    make_project: ProjectMaker, shares: str, found: str
) -> None:
    folder = make_project(
        "sites: {a: {capacity: 3, connect: 'sc://one:1'}, c: {capacity: 1}, "
        f"b: {{capacity: 1, connect: 'sc://two:1', shares: {shares}}}}}\n"
    )
    with pytest.raises(InputError, match=found) as refused:
        load_project(folder)
    assert refused.value.field == "sites.b.shares"
