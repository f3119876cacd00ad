"""The latencies of a large JSON file, row by row: all at once they would take ten times the file's size.

Only what is plainly written is read this way. Anything else is left to the parser of small files, which also
says what is wrong.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from mooring.errors import InputError

LARGE_BYTES = 20_000_000
"""From here on memory counts."""
_KEY = re.compile(rb'"latency_ms"\s*:\s*(?=\{)')
_SPACE = re.compile(rb"[ \t\n\r]*")
_DECODER = msgspec.json.Decoder(dict[str, float])


class JsonRows(Mapping[str, object]):
    """Rows of an object of objects, read from their file and decoded when they are asked for."""

    def __init__(
        self, path: Path, rows: Mapping[str, tuple[int, int]], slowly: Callable[[str], object]
    ) -> None:
        self._path, self._rows, self._slowly = path, rows, slowly
        self._file = _identity(path.stat())

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __getitem__(self, key: str) -> object:
        begin, end = self._rows[key]
        try:
            with self._path.open("rb") as file:
                changed = _identity(os.fstat(file.fileno())) != self._file
                file.seek(begin)
                row = file.read(end - begin)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=self._path) from None
        if changed:
            raise InputError("changed while it was read", file=self._path, remedy="try again")
        try:
            found = _DECODER.decode(row)
            if len(found) == row.count(b":"):  # no key twice, and none with a colon
                return found
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        try:
            return self._slowly(row.decode())
        except (UnicodeDecodeError, InputError) as error:
            raise InputError(f"found a row that cannot be read: {error}", field=f"latency_ms.{key}") from None


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns


def split_rows(data: bytes, path: Path, slowly: Callable[[str], object]) -> tuple[bytes, JsonRows] | None:
    """The file with nothing in `latency_ms`, and its rows; None where it is not plainly there. `slowly`: the
    parser for what is unusual. The rows stay in the file, so that it is not held beside the matrix.
    """
    keys = list(_KEY.finditer(data))
    if len(keys) != 1:
        return None
    begin = keys[0].end()
    try:
        rows, end = _rows(data, begin)
    except (IndexError, ValueError):
        return None
    return data[:begin] + b"{}" + data[end:], JsonRows(path, rows, slowly)


def _rows(data: bytes, at: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Where the rows of the object that begins here lie, and its end."""
    rows: dict[str, tuple[int, int]] = {}
    at = _skip(data, at + 1)
    while True:
        key, at = _name(data, at)
        at = _skip(data, _skip_one(data, at, b":"))
        if data[at : at + 1] != b"{" or key in rows:
            raise ValueError(key)
        end = data.index(b"}", at) + 1
        rows[key] = at, end
        at = _skip(data, end)
        if data[at : at + 1] == b"}":
            return rows, at + 1
        at = _skip(data, _skip_one(data, at, b","))


def _name(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b'"', at + 1) + 1
    if data[at : at + 1] != b'"' or b"\\" in data[at:end]:
        raise ValueError(at)
    return str(json.loads(data[at:end])), end


def _skip(data: bytes, at: int) -> int:
    found = _SPACE.match(data, at)
    return at if found is None else found.end()


def _skip_one(data: bytes, at: int, wanted: bytes) -> int:
    at = _skip(data, at)
    if data[at : at + 1] != wanted:
        raise ValueError(at)
    return at + 1
