"""One project with everything in it, live both ways: `spark-pipelines run` and `mooring run --once`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from tests.spark.projects import golden, plain_spark
from tests.spark.projects.mooring_run import all_rows, on_sites

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite


def test_a_project_with_everything_in_it_has_the_same_tables_both_ways(
    site: EmbeddedSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mooring.cli.main import main

    plain, ours = (golden.copy_of("combined", tmp_path / way) for way in ("plain", "ours"))
    on_sites(ours, 3, site.endpoint)
    with ThreadPoolExecutor(1) as beside, plain_spark.catalog_for(plain, site.endpoint):
        updated = beside.submit(plain_spark.update, plain, site.endpoint)
        assert main(["run", str(ours), "--once"]) == 0, capsys.readouterr().err
        updated.result()
        expected = plain_spark.all_rows(plain, site.endpoint)
    assert len(expected) == 7
    assert all_rows(ours, site.endpoint) == expected
