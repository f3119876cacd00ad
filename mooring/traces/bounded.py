"""Reading files that may be hostile: nothing is expanded beyond a limit, regardless of what its header
claims."""

from __future__ import annotations

import gzip
import importlib
import io
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

from mooring.errors import InputError

MAX_BYTES = 256 * 2**20
"""The most a trace may take once expanded; the largest known one (BC-pAug89 as text) takes 18 MB."""
LONGEST_S = 2**31
"""The longest a trace may last, 68 years; nanoseconds in eight bytes would do for four times as long."""

_BROKEN = (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError)


def read_expanded(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of `path`, expanded by its suffix: .zip (one member), .gz, .zst, or as it is."""
    try:
        with path.open("rb") as raw:
            match path.suffix.lower():
                case ".zip":
                    return _zip_member(raw, path, max_bytes)
                case ".gz":
                    return _at_most(gzip.GzipFile(fileobj=raw), path, max_bytes)
                case ".zst":
                    return _at_most(_zstandard_stream(raw, path), path, max_bytes)
                case _:
                    return _at_most(raw, path, max_bytes)
    except FileNotFoundError:
        raise InputError("no such trace file", file=path, remedy="give the path of a trace") from None
    except _BROKEN as error:
        raise InputError(
            f"cannot be read or expanded: {error}", file=path, remedy="fetch the file again"
        ) from error


def _at_most(stream: IO[bytes] | Any, path: Path, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    left = max_bytes + 1
    while left > 0 and (piece := stream.read(min(left, 2**20))):
        pieces.append(piece)
        left -= len(piece)
    if left <= 0:
        raise InputError(
            f"expands to more than {max_bytes} bytes", file=path, remedy="cut the trace into smaller files"
        )
    return b"".join(pieces)


def _zip_member(raw: IO[bytes], path: Path, max_bytes: int) -> bytes:
    with zipfile.ZipFile(raw) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        if len(members) != 1:
            raise InputError(
                f"holds {len(members)} files, expected one with the gaps between arrivals",
                file=path,
                remedy="unpack it and give the text file itself",
            )
        with archive.open(members[0]) as member:
            return _at_most(member, path, max_bytes)


def _zstandard_stream(raw: IO[bytes], path: Path) -> Any:
    """Zstandard is only in Python's library from 3.14 on, so it is optional: few traces come in it."""
    for name in ("compression.zstd", "zstandard"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if name == "zstandard":
            return module.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        return module.ZstdFile(raw)
    raise InputError(
        "is compressed with Zstandard, which this Python does not support",
        file=path,
        remedy="pip install zstandard, or expand the file first (zstd -d)",
    )


def as_text(content: bytes, path: Path) -> io.StringIO:
    """Traces are text in UTF-8 (names of streams may be in any script); anything else is the wrong file."""
    try:
        return io.StringIO(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(
            f"is not text: byte {error.start} is {content[error.start]:#04x}",
            file=path,
            remedy="give a text, .zip, .gz, .zst, .mat or .npz trace",
        ) from None
