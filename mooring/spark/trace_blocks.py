"""Traces of arrivals as Spark rows: blocks of some thousand arrivals, in an order that needs no shuffle.

A trace is kept as gaps, so an instant is a sum over everything before it. Each block holds the running sum of
its own gaps; what came before is added later, once the blocks' sums are known. Plain text is cut by Spark
wherever it likes. What cannot be cut (archives, MATLAB files, numpy extracts) is expanded by one task per
file, with the readers of `mooring.simulator.traces`, and then spread.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mooring.errors import InputError
from mooring.simulator.traces.extracts import extract_path
from mooring.simulator.traces.read import arrival_instants

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

KEY = ("trace", "file", "part", "seq")
"""A block's place: number of the trace, file, where in the file the split begins, number in the split."""
BLOCKS = (
    "trace int, file string, part long, seq long, gaps long, duration_s double, last_s double, "
    "instants_s binary, wrong string, wrong_at long"
)
BLOCK = 65_536
_UNSPLITTABLE = (".zip", ".gz", ".zst", ".mat", ".npz")


def arrival_blocks(session: SparkSession, number: int, trace: str) -> DataFrame:
    """The blocks of trace `number`: a file, a folder of files that follow each other, or a shipped extract."""
    shipped = extract_path(trace)
    if shipped is not None:
        # Small, and not where the cluster could read it.
        files = session.createDataFrame([(shipped.name, shipped.read_bytes())], "path string, content binary")
        return _expanded(files, number)
    path = located(trace)
    if PurePath(trace).suffix.lower() in _UNSPLITTABLE:
        return _expanded(session.read.format("binaryFile").load(path).select("path", "content"), number)
    lines = session.read.text(path).select("_metadata.file_path", "_metadata.file_block_start", "value")
    return lines.mapInPandas(partial(_blocks_of_lines, trace=number), BLOCKS)


def located(trace: str) -> str:
    """A URL as it is; a path from here on, since the cluster has no notion of here."""
    return trace if "://" in trace else os.path.abspath(trace)


def _expanded(files: DataFrame, number: int) -> DataFrame:
    blocks = files.mapInPandas(partial(_blocks_of_files, trace=number), BLOCKS)
    return blocks.repartition(F.col("file"), F.col("seq"))


def _blocks_of_files(frames: Iterator[pd.DataFrame], *, trace: int) -> Iterator[pd.DataFrame]:
    for frame in frames:
        for path, content in frame.itertuples(index=False):
            try:
                instants_s = _instants(PurePath(path).name, content)[1:]
            except InputError as error:
                error.file = None
                yield _block(trace, path, 0, 0, np.zeros(0), 0.0, wrong=str(error))
                continue
            for seq, start in enumerate(range(0, instants_s.size, BLOCK)):
                block = instants_s[start : start + BLOCK]
                is_last = start + BLOCK >= instants_s.size
                yield _block(trace, path, 0, seq, block, float(block[-1]) if is_last else 0.0)


def _instants(name: str, content: bytes) -> NDArray[np.float64]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(content)
        return arrival_instants(file)


def _blocks_of_lines(frames: Iterator[pd.DataFrame], *, trace: int) -> Iterator[pd.DataFrame]:
    """Lines of one split come together and in order, so a block is a run of lines of one split."""
    split, seq = None, 0
    for frame in frames:
        for (file, part), lines in frame.groupby(["file_path", "file_block_start"], sort=False)["value"]:
            seq = seq + 1 if split == (file, part) else 0
            split = (file, part)
            written = [line for line in lines if line.strip()]
            at, wrong = _first_wrong(written)
            if wrong is None:
                instants_s = np.cumsum(_parsed(written))
                yield _block(trace, file, part, seq, instants_s, float(instants_s[-1]) if written else 0.0)
            else:
                yield _block(trace, file, part, seq, np.zeros(0), 0.0, wrong, at)


def _parsed(lines: list[str]) -> NDArray[np.float64]:
    """By the parser that reads whole files, so that both take the same lines."""
    if not lines:
        return np.zeros(0)
    gaps_s = np.loadtxt(lines, dtype=np.float64, ndmin=2, comments=None)
    if gaps_s.shape[1] != 1:
        raise ValueError("more than one column")
    return gaps_s.ravel()


def _first_wrong(lines: list[str]) -> tuple[int, str | None]:
    """The first line that is no gap, and what is wrong with it."""
    try:
        gaps_s = _parsed(lines)
    except ValueError:
        if len(lines) == 1:
            return 0, f"found {lines[0][:60]!r}, expected a gap in seconds"
        wrongs = ((at, _first_wrong([line])[1]) for at, line in enumerate(lines))
        return next(((at, wrong) for at, wrong in wrongs if wrong is not None), (0, "columns differ"))
    wrong = np.flatnonzero(~np.isfinite(gaps_s) | (gaps_s < 0))
    if not wrong.size:
        return 0, None
    gap_s = gaps_s[wrong[0]]
    return int(wrong[0]), f"the gap is {gap_s}, expected a finite number of seconds, zero or more"


def _block(
    trace: int,
    file: str,
    part: int,
    seq: int,
    instants_s: NDArray[np.float64],
    duration_s: float,
    wrong: str | None = None,
    wrong_at: int | None = None,
) -> pd.DataFrame:
    import pandas as pd

    row: dict[str, Any] = {"trace": trace, "file": file, "part": part, "seq": seq, "gaps": instants_s.size}
    row |= {"duration_s": duration_s, "last_s": float(instants_s[-1]) if instants_s.size else 0.0}
    row |= {"instants_s": instants_s.tobytes(), "wrong": wrong, "wrong_at": wrong_at}
    return pd.DataFrame([row]).astype({"wrong_at": "Int64"})
