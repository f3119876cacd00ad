"""Projects run by `mooring run --once` over several sites have the tables that plain Spark made of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from tests.spark.projects import golden
from tests.spark.projects.mooring_run import all_rows, on_sites

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite


@pytest.mark.parametrize("name", golden.RECORDED)
def test_tables_are_those_of_plain_spark(
    name: str, site: EmbeddedSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over two sites first, and over three once more has arrived."""
    from mooring.cli.main import main

    folder = golden.copy_of(name, tmp_path)
    for number, expected in enumerate(golden.read_golden(name)):
        if number:
            golden.arrive(folder)
        on_sites(folder, 2 + number, site.endpoint)
        assert main(["run", str(folder), "--once"]) == 0, capsys.readouterr().err
        assert all_rows(folder, site.endpoint) == expected
