"""Arrival instants from the files that real traces come in.

A trace of single arrivals is kept as the gaps between them: text with one gap in seconds per line (also
inside a .zip, .gz or .zst, as BC-pAug89 is), a MATLAB file with the gaps in a variable `S` (as DEC-PKT-1
is), or one of the compact extracts that come with Mooring, which go by name.

Instants are whole nanoseconds, because whole numbers add up to the same in any order: a trace that is read in
parts, side by side, has the same instants to the last bit as one that is read from end to end.
"""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path

import numpy as np
from scipy.io import loadmat
from scipy.io.matlab import MatReadError

from mooring.arrays import Floats, Ints
from mooring.errors import InputError
from mooring.traces.bounded import LONGEST_S, MAX_BYTES, as_text, read_expanded
from mooring.traces.extracts import extract_path, read_extract

MAX_ARRIVALS = 20_000_000

_MATLAB_HEADER_BYTES = 128
_MATLAB_COMPRESSED = 15


def arrival_instants(name_or_path: str | Path) -> Floats:
    """The instants of a trace's arrivals in seconds, the first at zero, never decreasing.

    >>> instants_s = arrival_instants("bc-paug89-extract")
    >>> float(instants_s[0]), bool((np.diff(instants_s) >= 0).all())
    (0.0, True)
    """
    path = extract_path(name_or_path) or Path(name_or_path)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return read_extract(path)
    gaps_s = _matlab_gaps(path) if suffix == ".mat" else _text_gaps(path)
    return instants_of_gaps(gaps_s, path)


def instants_of_gaps(gaps_s: Floats, path: Path) -> Floats:
    """n gaps are n + 1 arrivals; a gap that is not a finite duration is refused with its position."""
    if gaps_s.size == 0:
        raise InputError(
            "holds no gaps between arrivals", file=path, remedy="give a trace of two arrivals or more"
        )
    if gaps_s.size >= MAX_ARRIVALS:
        raise InputError(
            f"holds {gaps_s.size} gaps, at most {MAX_ARRIVALS - 1} are read",
            file=path,
            remedy="cut the trace into smaller files",
        )
    try:
        gaps_ns = gaps_in_ns(gaps_s)
    except BadGapError as bad:
        raise InputError(
            str(bad),
            file=path,
            field=f"gap {bad.at + 1}",
            remedy="remove or repair it; the file holds gaps between arrivals, not instants",
        ) from None
    # First as floats, which grow too large instead of turning negative.
    if gaps_s.sum() > LONGEST_S:
        raise InputError(
            "the gaps add up to an implausible duration", file=path, remedy="check that they are in seconds"
        )
    return np.concatenate([[0], np.cumsum(gaps_ns)]) / 1e9


class BadGapError(ValueError):
    """A gap that is no duration, and where it stands."""

    def __init__(self, at: int, gap: float | str) -> None:
        super().__init__(f"the gap is {gap}, expected a number of seconds from zero up to {LONGEST_S}")
        self.at = at


def gaps_in_ns(gaps_s: Floats) -> Ints:
    """The gaps to the nearest nanosecond; the first that is no duration is refused."""
    wrong = np.flatnonzero(~((gaps_s >= 0) & (gaps_s <= LONGEST_S)))
    if wrong.size:
        raise BadGapError(int(wrong[0]), float(gaps_s[wrong[0]]))
    return np.rint(gaps_s * 1e9).astype(np.int64)


def _text_gaps(path: Path) -> Floats:
    lines = as_text(read_expanded(path), path)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*input contained no data")
            gaps_s = np.loadtxt(lines, dtype=np.float64, ndmin=2, comments=None)
    except ValueError as error:
        raise InputError(
            f"is not a list of gaps: {error}", file=path, remedy="one number of seconds per line"
        ) from None
    if gaps_s.size and gaps_s.shape[1] != 1:
        raise InputError(
            f"has {gaps_s.shape[1]} columns, expected one: the gap in seconds",
            file=path,
            remedy="keep one gap per line",
        )
    return gaps_s.ravel()


def _matlab_gaps(path: Path) -> Floats:
    _refuse_matlab_bomb(read_expanded(path), path)
    try:
        content = loadmat(path, variable_names=["S"], verify_compressed_data_integrity=True)
    except (
        *(ValueError, TypeError, KeyError, IndexError, OverflowError, EOFError, OSError, MemoryError),
        *(NotImplementedError, MatReadError, zlib.error),
    ) as error:
        raise InputError(
            f"is not a MATLAB 5 file: {error}", file=path, remedy="save it with -v7 or older"
        ) from error
    gaps_s = content.get("S")
    if gaps_s is None:
        raise InputError("has no variable S", file=path, remedy="S holds the gaps in seconds")
    if (
        not isinstance(gaps_s, np.ndarray)
        or gaps_s.dtype.kind not in "fiu"
        or max(gaps_s.shape) != gaps_s.size
    ):
        raise InputError(
            "S is not a vector of numbers", file=path, field="S", remedy="S holds the gaps in seconds"
        )
    return gaps_s.astype(np.float64).ravel()


def _refuse_matlab_bomb(content: bytes, path: Path) -> None:
    """A MATLAB file is a row of elements, each perhaps deflated; expand them bounded before scipy does it
    whole.
    """
    at, left = _MATLAB_HEADER_BYTES, MAX_BYTES
    order = "big" if content[126:128] == b"MI" else "little"
    while at + 8 <= len(content):
        kind = int.from_bytes(content[at : at + 4], order)  # type: ignore[arg-type]
        length = int.from_bytes(content[at + 4 : at + 8], order)  # type: ignore[arg-type]
        if kind == _MATLAB_COMPRESSED:
            try:
                left -= len(zlib.decompressobj().decompress(content[at + 8 : at + 8 + length], left + 1))
            except zlib.error as error:
                raise InputError(f"is damaged: {error}", file=path, remedy="fetch the file again") from None
        if left < 0:
            raise InputError(
                f"expands to more than {MAX_BYTES} bytes",
                file=path,
                remedy="cut the trace into smaller files",
            )
        at += 8 + length
