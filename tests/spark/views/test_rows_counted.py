"""What a view's refresher remembers is bounded by what its tables hold now (no Spark needed)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.storage.committed_files import CommittedFile, CommittedFiles
from mooring.spark.views import refresh
from mooring.spark.views.refresh import Refresher
from mooring.spark.views.snapshot_reads import FixedReads


def test_rows_of_files_are_counted_once_and_forgotten_with_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []

    def rows_in(path: Path) -> int:
        counted.append(path.name)
        return 10

    monkeypatch.setattr(refresh, "rows_in", rows_in)
    nothing: Any = None
    refresher = Refresher(nothing, nothing, nothing, nothing, Path("epoch"))
    for day in range(50):
        names = [f"part-{day + number}" for number in range(20)]
        files = tuple(CommittedFile(Path("table", name), 4, False) for name in names)
        assert refresher._rows_in(FixedReads({"t": CommittedFiles({}, files)}, {}, {})) == 200
        assert len(refresher._rows) == 20
    assert counted == [f"part-{number}" for number in range(69)]
