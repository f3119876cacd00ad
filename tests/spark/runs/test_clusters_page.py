"""docs/clusters.md starts what examples/cluster/standalone.py starts, on which tests of the cluster run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from examples.cluster.standalone import CONNECT_SERVER, MASTER, WORKER, Cluster, default_settings
from mooring.spark.pipeline.project import load_project

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

PAGE = (Path(__file__).parents[3] / "docs" / "clusters.md").read_text()
OF_THE_PLACE = re.compile(
    r"spark\.(cores\.max|\w+\.memory|connect\.grpc|master|scheduler\.alloc|authenticate\.secret)"
)
"""What depends on the machines."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_settings_of_the_page_are_those_that_the_example_starts_with(tmp_path: Path) -> None:
    (stated,) = (block for block in blocks("text") if block.startswith("spark.master"))
    of_page = dict(line.split(None, 1) for line in stated.splitlines())
    cluster = Cluster(tmp_path)
    (tmp_path / "conf").mkdir()
    cluster._configure()
    written = dict(
        line.split(None, 1) for line in (tmp_path / "conf" / "spark.conf").read_text().splitlines()
    )
    assert of_page.keys() - written.keys() == {"spark.cores.max"}
    same = {name for name in of_page.keys() & written.keys() if not OF_THE_PLACE.match(name)}
    assert len(same) >= 8
    assert {name: of_page[name] for name in same} == {name: written[name] for name in same}
    local = ("spark.driver.", "spark.local.", "spark.sql.warehouse", "spark.ui.")
    assert [
        name for name in default_settings(tmp_path) if name not in of_page and not name.startswith(local)
    ] == []


def test_the_commands_of_the_page_start_the_same_processes(tmp_path: Path) -> None:
    commands = "\n".join(blocks("bash"))
    assert all(name in commands for name in (MASTER, WORKER, CONNECT_SERVER, "--properties-file", "TZ=UTC"))
    scripts = re.findall(r"examples/[\w/]+\.py", PAGE)
    assert scripts
    assert all((Path(__file__).parents[3] / script).is_file() for script in scripts)


def test_the_sites_of_the_page_are_a_project(make_project: ProjectMaker, tmp_path: Path) -> None:
    (sites,) = blocks("yaml")
    (tmp_path / "token").write_text("secret")
    settings = load_project(
        make_project(sites.replace("out/cluster/token", str(tmp_path / "token")))
    ).settings
    cluster, here = settings.sites
    assert cluster.connect is not None
    assert here.connect is None
    assert settings.clusters["cluster"].ui is not None
