"""The lines of event logs and progress records, one at a time, also from damaged files.

A log may be a file, a rolling folder of Spark's (`eventlog_v2_*`), or a folder full of either. It may be
compressed, still being written, or cut off. Lines are read with a bound on their length, so that a hostile
or broken file costs no memory.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mooring.errors import InputError

LONGEST_LINE = 64 * 2**20
"""Bytes. Spark's longest events (plans of huge queries) stay below; longer lines are skipped and counted."""
_CHUNK = 2**20
_ROLLED = re.compile(r"events_(\d+)_")
_CUT_OFF = (EOFError, OSError, ValueError, zlib.error)
"""What decompressors raise where a file ends early or is damaged."""


@dataclass
class LineCounts:
    lines: int = 0
    too_long: int = 0
    cut_off: int = 0
    bytes_read: int = 0


def log_groups(path: Path) -> list[list[Path]]:
    """Each application's files in order; a folder of logs has several applications."""
    if not path.exists():
        raise InputError("no such file or folder", file=path, remedy="give an event log of Spark")
    if path.is_file():
        return [[path]]
    if rolled := _rolled(path):
        return [rolled]
    groups: list[list[Path]] = []
    for entry in sorted(path.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            if inner := _rolled(entry):
                groups.append(inner)
        else:
            groups.append([entry])
    if not groups:
        raise InputError(
            "found no event log in this folder", file=path, remedy="give spark.eventLog.dir or a file in it"
        )
    return groups


def _rolled(folder: Path) -> list[Path]:
    found = [(int(m[1]), f) for f in folder.iterdir() if (m := _ROLLED.match(f.name)) and f.is_file()]
    return [file for _, file in sorted(found)]


def read_lines(file: Path, counts: LineCounts) -> Iterator[bytes]:
    """Lines without their ends; one that is too long is skipped. Ends quietly where a file was cut off."""
    with _opened(file) as stream:
        rest, skipping = b"", False
        while True:
            try:
                chunk = stream.read(_CHUNK)
            except _CUT_OFF:
                counts.cut_off += 1
                return
            if not chunk:
                break
            counts.bytes_read += len(chunk)
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                if skipping:
                    skipping = False
                    continue
                counts.lines += 1
                yield line
            if len(rest) > LONGEST_LINE:
                counts.too_long += not skipping
                rest, skipping = b"", True
        if rest and not skipping:
            counts.lines += 1
            yield rest


def _opened(file: Path) -> IO[bytes] | Any:
    name = file.name.removesuffix(".inprogress")
    try:
        if name.endswith(".gz"):
            return gzip.open(file, "rb")
        if name.endswith((".zst", ".zstd")):
            return _zstd(file)
        if name.endswith((".lz4", ".lzf", ".snappy")):
            raise InputError(
                f"is compressed as {file.suffix}, in a block format of Spark's own",
                file=file,
                remedy="set spark.eventLog.compression.codec to zstd, or let Spark write it uncompressed",
            )
        return file.open("rb")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=file) from None


def _zstd(file: Path) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise InputError(
            "is compressed with zstd, and pyarrow is not installed",
            file=file,
            remedy="pip install pyarrow, or decompress it with zstd -d",
        ) from None
    return pyarrow.CompressedInputStream(pyarrow.OSFile(str(file)), "zstd")
