"""A storage that an earlier Mooring was killed over is gone on with, every row once."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

import pyarrow.parquet

from mooring.spark.runs.results import read_stored
from mooring.spark.storage.storage_root import FORMAT, format_of
from mooring.spark.storage.stream_logs import last_batch, sink_entries
from tests.spark.storage.earlier.record import BATCHES, ROWS, feed, unpack

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite


def delivered(sink: Path) -> list[dict[str, Any]]:
    """By the log that vouches for the files, as Spark reads them."""
    rows: list[dict[str, Any]] = []
    for entry in sink_entries(sink / "_spark_metadata"):
        rows += pyarrow.parquet.ParquetFile(entry.path).read().to_pylist()
    return rows


def test_a_storage_of_format_2_is_gone_on_with_and_every_row_is_there_once(
    site: EmbeddedSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables, a view and a stream of it, two sinks with batches behind them, open windows, and a list of
    moves that was cut short in its second.
    """
    from mooring.cli.main import main

    folder = unpack(tmp_path, site.endpoint.url)
    storage = folder / ".mooring" / "storage"
    assert format_of(storage) == 2
    before = [last_batch(folder / "out" / name / "_spark_metadata") for name in ("ledger", "hours")]
    assert min(before) >= BATCHES - 1
    for number in range(BATCHES + 2, BATCHES + 5):
        feed(folder, number)
    # Its input lies in another folder than when it was recorded, which counts as an edit.
    assert main(["run", str(folder), "--once", "--accept-edits"]) == 0, capsys.readouterr().err
    numbers = range((BATCHES + 5) * ROWS)
    assert sorted(read_stored(storage, "arrivals")["n"].to_pylist()) == list(numbers)
    assert sorted(read_stored(storage, "even")["n"].to_pylist()) == list(numbers[::2])
    assert sorted(row["n"] for row in delivered(folder / "out" / "ledger")) == list(numbers[::2])
    first = datetime(2024, 1, 1)
    hours = Counter(first + timedelta(hours=n // 4) for n in numbers)
    found = {row["hour"].replace(tzinfo=None): row["ships"] for row in delivered(folder / "out" / "hours")}
    assert len(found) == len(delivered(folder / "out" / "hours"))
    assert found.items() <= hours.items()
    assert len(found) >= len(hours) - 3, "all but those that the watermark keeps open"
    assert max(row["ships"] for row in read_stored(storage, "history").to_pylist()) == len(numbers)
    assert format_of(storage) == FORMAT
