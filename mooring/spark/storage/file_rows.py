"""The number of rows in a table's file, from its metadata where the format has it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pyarrow
import pyarrow.parquet
from pyarrow import orc

_LINES = (".json", ".csv", ".txt")
"""Formats with a row per line."""
_AT_ONCE = 1 << 20
_AVRO = b"Obj\x01"
_AVRO_SYNC = 16
"""Bytes of the mark after the header and after every block."""


def rows_in(path: Path) -> int | None:
    """None if the file is gone, or nobody can tell (compressed text)."""
    try:
        if path.suffix == ".orc":
            return int(orc.ORCFile(path).nrows)
        if path.suffix == ".avro":
            return _avro_rows(path)
        if path.suffix in _LINES:
            return _lines(path)
        if path.suffix == ".gz" or path.suffix == ".zst":
            return None
        return int(pyarrow.parquet.read_metadata(path).num_rows)
    except (OSError, pyarrow.ArrowException):
        return None


def _avro_rows(path: Path) -> int | None:
    """Of an object container file: every block begins with how many rows and bytes it has."""
    with path.open("rb") as handle:
        if handle.read(len(_AVRO)) != _AVRO:
            return None
        while entries := _avro_long(handle):  # the header's key-value pairs
            if entries < 0:
                _avro_long(handle)  # the size of them, which is said with a negative count
            for _ in range(2 * abs(entries)):
                handle.seek(_avro_long(handle), os.SEEK_CUR)
        handle.seek(_AVRO_SYNC, os.SEEK_CUR)
        rows, end = 0, os.fstat(handle.fileno()).st_size
        while handle.tell() < end:
            rows += _avro_long(handle)
            handle.seek(_avro_long(handle) + _AVRO_SYNC, os.SEEK_CUR)
        return rows


def _avro_long(handle: BinaryIO) -> int:
    """Seven bits at a time, the lowest first, with the sign in the lowest."""
    value = shift = 0
    while True:
        byte = handle.read(1)
        if not byte:
            raise OSError("the file ends in the middle of a number")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def _lines(path: Path) -> int:
    with path.open("rb") as handle:
        return sum(block.count(b"\n") for block in iter(lambda: handle.read(_AT_ONCE), b""))
