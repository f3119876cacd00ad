"""New rows reach a sink of files however its writer begins anew; before, Spark skipped them in silence."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyarrow.parquet

from mooring.spark.storage.stream_logs import last_batch, sink_entries

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

FLOWS = """
from pyspark import pipelines as dp

dp.create_sink("ledger", "parquet", {"path": "INPUT/../out"})

@dp.append_flow(target="ledger")
def into_ledger():
    return spark.readStream.schema("n LONG").json("INPUT")
"""


def delivered(sink: Path) -> Counter[int]:
    found = Counter[int]()
    for entry in sink_entries(sink / "_spark_metadata"):
        found.update(pyarrow.parquet.ParquetFile(entry.path).read()["n"].to_pylist())
    return found


def test_rows_after_a_refresh_and_after_a_fresh_start_reach_a_sink_of_files(
    make_project: ProjectMaker, site: EmbeddedSite, capsys: pytest.CaptureFixture[str]
) -> None:
    from mooring.cli.main import main

    address = json.dumps(site.endpoint.url)
    folder = make_project(f"sites: {{a: {{capacity: 2, connect: {address}}}}}\n", numbers_py=FLOWS)
    expected, offered = Counter[int](), 0

    def update(*words: str) -> None:
        nonlocal offered
        (folder / "input" / f"{offered}.json").write_text(json.dumps({"n": offered}))
        offered += 1
        # What begins anew delivers all rows again, behind those that are there.
        expected.update(range(offered) if words else [offered - 1])
        assert main(["run", str(folder), "--once", *words]) == 0, capsys.readouterr().err
        assert delivered(folder / "out") == expected, words

    update()
    for words in (("--full-refresh-all",), ("--fresh",)):
        update(*words)
        update()
    log = folder / "out" / "_spark_metadata"
    newest = last_batch(log)
    (log / f"{newest + 1}").write_text("v1\n")  # as an earlier Mooring left it
    assert main(["run", str(folder), "--once"]) == 4
    said = capsys.readouterr().err
    assert f"the sink 'ledger' has batches up to {newest + 1}" in said
    assert "--full-refresh ledger" in said
