"""The cost of refreshing a materialized view: its query over samples of two sizes, as a run executes it.

The samples are the rows that the profiled flows and views before it delivered, repeated as often as needed.
What it reads outside the pipeline it reads as it is, and that is part of what does not grow.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pyarrow.parquet
from pyspark.sql import SparkSession

from mooring.errors import InputError
from mooring.model.load.measured.measurements import (
    BatchSample,
    CostFit,
    Measured,
    NotMeasured,
    fit_cost,
    ratio,
)
from mooring.spark.definitions.definitions import Definitions
from mooring.spark.definitions.running_session import active_session
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import FlowNode
from mooring.spark.pipeline.statistics_file import FlowStatistics
from mooring.spark.sites.file_name import file_name
from mooring.spark.views.view_frame import view_frame

SMALL_ROWS = 1_000
LARGE_ROWS = 400_000
"""Of each table that it reads: enough for what grows with the rows to stand above what does not."""
ROUNDS = 3
"""Of both sizes, in each pass; the first is left out."""


@dataclass
class ViewProfiler:
    layout: Layout
    """Of a storage that is there for the profile only."""
    samples: Mapping[str, pyarrow.Table]
    """Rows of each flow and view that was profiled, by flow."""
    cpu_s: Callable[[], float]
    """CPU of the site so far."""
    idle_cores: float
    largest_rows: int = LARGE_ROWS

    def profile(
        self, flow: FlowNode, definitions: Definitions, session: SparkSession, scratch: Path
    ) -> tuple[FlowStatistics, pyarrow.Table | None]:
        """Its figures, and a sample of its rows."""
        sizes = {rows: self._written(flow, rows, scratch / str(rows)) for rows in self._rows()}
        used, made = list[BatchSample](), list[tuple[int, int]]()
        for number in range(ROUNDS):
            for rows, read in sizes.items():
                used_cpu_s = self._refresh(flow, definitions, session, scratch / str(rows), scratch / "out")
                out = _rows_in(scratch / "out")
                if number > 0:
                    used.append(BatchSample(read, used_cpu_s))
                    made.append((read, out))
        sample = _read(scratch / "out")
        fit = fit_cost(used, least_batches=2 * (ROUNDS - 1)) if flow.static else _fixed(used)
        if isinstance(fit, NotMeasured):
            raise InputError(f"{flow.name!r} has too few usable measurements: {fit.reason}")
        share = ratio([out for _, out in made], [read for read, _ in made]) if flow.static else None
        return _statistics(flow, fit, share, used), sample

    def _rows(self) -> tuple[int, int]:
        large = min(LARGE_ROWS, self.largest_rows)
        return min(SMALL_ROWS, large // 10), large

    def _written(self, flow: FlowNode, rows: int, folder: Path) -> int:
        """Write so many rows of everything it reads; returns how many that are in all."""
        total = 0
        for dataset in flow.static:
            writers = [writer.name for writer in self.layout.pipeline.writers(dataset)]
            tables = [self.samples[name] for name in writers if name in self.samples]
            if not tables:
                raise InputError(
                    f"{flow.name!r} reads {dataset!r}, which delivered no rows",
                    remedy="give a larger sample, or state statistics in mooring.yml",
                )
            table = pyarrow.concat_tables(tables, promote_options="default")
            repeated = pyarrow.concat_tables([table] * (-(-rows // table.num_rows))).slice(0, rows)
            (folder / file_name(dataset)).mkdir(parents=True)
            file = folder / file_name(dataset) / "part-0.parquet"
            pyarrow.parquet.write_table(
                repeated, file, coerce_timestamps="us", allow_truncated_timestamps=True
            )
            total += rows
        return total

    def _refresh(
        self, flow: FlowNode, definitions: Definitions, session: SparkSession, inputs: Path, out: Path
    ) -> float:
        """CPU seconds of one."""
        shutil.rmtree(out, ignore_errors=True)
        before_cpu_s, before_s = self.cpu_s(), time.monotonic()
        with active_session(session):
            for dataset in flow.static:
                reader = session.read.schema(self.layout.pipeline.schemas[dataset])
                reader.parquet(f"file://{inputs / file_name(dataset)}").createOrReplaceTempView(dataset)
            frame = view_frame(self.layout, flow, definitions, session)
            frame.write.mode("error").parquet(f"file://{out}")
        idle_s = self.idle_cores * (time.monotonic() - before_s)
        return max(0.0, self.cpu_s() - before_cpu_s - idle_s)


def _fixed(used: list[BatchSample]) -> CostFit:
    """Of a view that reads nothing of the pipeline."""
    cpu_s = sorted(sample.cpu_s for sample in used)
    middle, spread = cpu_s[len(cpu_s) // 2], (cpu_s[-1] - cpu_s[0]) / 2
    return CostFit(Measured(middle, spread), Measured(0.0, 0.0), len(used))


def _statistics(
    flow: FlowNode, fit: CostFit, share: Measured | NotMeasured | None, used: list[BatchSample]
) -> FlowStatistics:
    known = share if isinstance(share, Measured) else None
    return FlowStatistics(
        cost_us=fit.cost_us.value,
        cost_us_error=fit.cost_us.standard_error,
        batch_cpu_s=fit.batch_cpu_s.value,
        batch_cpu_s_error=fit.batch_cpu_s.standard_error,
        selectivity=None if known is None else known.value,
        selectivity_error=None if known is None else known.standard_error,
        error=fit.cost_us.relative_error if flow.static else None,
        batches=fit.batches,
        rows=int(max(sample.rows_in for sample in used)),
        flow=flow.unplaced_fingerprint,
        note="the cost per row is below the noise: cost_us is an upper bound" if fit.below_noise else None,
    )


def _rows_in(folder: Path) -> int:
    return sum(pyarrow.parquet.read_metadata(file).num_rows for file in folder.glob("*.parquet"))


def _read(folder: Path) -> pyarrow.Table | None:
    parts = [pyarrow.parquet.ParquetFile(file).read() for file in sorted(folder.glob("*.parquet"))]
    table = pyarrow.concat_tables(parts) if parts else None
    return table if table is not None and table.num_rows > 0 else None
