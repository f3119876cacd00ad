"""Traces of arrivals as Spark rows: blocks of some thousand arrivals, in an order that needs no shuffle.

A trace is kept as gaps, so an instant is a sum over everything before it. Each block holds the running sum of
its own gaps; what came before is added later, once the blocks' sums are known. All are whole nanoseconds, so
it does not matter where the blocks are cut. Plain text is cut by Spark
wherever it likes. What cannot be cut (archives, MATLAB files, numpy extracts) is expanded by one task per
file, with the readers of `mooring.traces`, and then spread.
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

from mooring.arrays import Floats, Ints
from mooring.errors import InputError
from mooring.traces.bounded import LONGEST_S
from mooring.traces.extracts import extract_path
from mooring.traces.read import BadGapError, arrival_instants, gaps_in_ns

if TYPE_CHECKING:
    import pandas as pd

KEY = ("trace", "file", "part", "seq")
"""A block's place: number of the trace, file, where in the file the split begins, number in the split."""
BLOCKS = (
    "trace int, file string, part long, seq long, gaps long, duration_ns long, last_ns long, "
    "instants_ns binary, wrong string, wrong_at long"
)
BLOCK = 65_536
"""Arrivals in a block of an expanded file; of text, a block is what Spark hands over at once."""
TOO_LONG = "the gaps add up to an implausible duration: are they in seconds?"
_NOTHING: Ints = np.zeros(0, dtype=np.int64)
_UNSPLITTABLE = (".zip", ".gz", ".zst", ".mat", ".npz")


def arrival_blocks(session: SparkSession, number: int, trace: str) -> DataFrame:
    """The blocks of a trace: a file, a folder of files that follow each other, or a shipped extract."""
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
                instants_ns = _instants_ns(PurePath(path).name, content)[1:]
            except InputError as error:
                error.file = None
                yield _block(trace, path, 0, 0, _NOTHING, 0, str(error))
                continue
            for seq, start in enumerate(range(0, instants_ns.size, BLOCK)):
                block = instants_ns[start : start + BLOCK]
                # The instants are counted from the file's beginning, so only its end moves what follows.
                is_last = start + BLOCK >= instants_ns.size
                yield _block(trace, path, 0, seq, block, int(block[-1]) if is_last else 0)


def _instants_ns(name: str, content: bytes) -> Ints:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(content)
        return np.rint(arrival_instants(file) * 1e9).astype(np.int64)


def _blocks_of_lines(frames: Iterator[pd.DataFrame], *, trace: int) -> Iterator[pd.DataFrame]:
    """Lines of one split come together and in order, so a block is a run of lines of one split."""
    split, seq = None, 0
    for frame in frames:
        for (file, part), lines in frame.groupby(["file_path", "file_block_start"], sort=False)["value"]:
            seq = seq + 1 if split == (file, part) else 0
            split = (file, part)
            try:
                gaps_s = _parsed([line for line in lines if line.strip()])
                gaps_ns = gaps_in_ns(gaps_s)
            except BadGapError as bad:
                yield _block(trace, file, part, seq, _NOTHING, 0, str(bad), bad.at)
                continue
            wrong = TOO_LONG if gaps_s.sum() > LONGEST_S else None
            yield _block(trace, file, part, seq, np.cumsum(gaps_ns), int(gaps_ns.sum()), wrong)


def _parsed(lines: list[str]) -> Floats:
    """By the parser that reads whole files, so that both take the same lines."""
    try:
        gaps_s = np.loadtxt(lines, dtype=np.float64, ndmin=2, comments=None) if lines else np.zeros((0, 1))
        if gaps_s.shape[1] == 1:
            return gaps_s.ravel()
    except ValueError:
        pass
    raise BadGapError(*next(found for found in map(_unreadable, enumerate(lines)) if found is not None))


def _unreadable(numbered: tuple[int, str]) -> tuple[int, str] | None:
    at, line = numbered
    try:
        return None if np.loadtxt([line], comments=None, ndmin=2).shape[1] == 1 else (at, repr(line[:60]))
    except ValueError:
        return at, repr(line[:60])


def _block(
    trace: int,
    file: str,
    part: int,
    seq: int,
    instants_ns: Ints,
    duration_ns: int,
    wrong: str | None = None,
    wrong_at: int | None = None,
) -> pd.DataFrame:
    import pandas as pd

    row: dict[str, Any] = {"trace": trace, "file": file, "part": part, "seq": seq, "gaps": instants_ns.size}
    row |= {"duration_ns": duration_ns, "last_ns": int(instants_ns[-1]) if instants_ns.size else 0}
    row |= {"instants_ns": instants_ns.tobytes(), "wrong": wrong, "wrong_at": wrong_at}
    return pd.DataFrame([row]).astype({"wrong_at": "Int64"})
