"""The extracts that come with Mooring, so that examples work in a bare clone, and their compact format.

Arrivals are kept as whole ticks between them (the instants are rounded to ticks, not the gaps, so rounding
does not add up), in a numpy archive with the low and the high bytes apart: high bytes are nearly all zero,
so apart they pack a sixth better. `data/SOURCE.md` says where each comes from and under which terms.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from mooring.arrays import Bytes, Floats, Ints
from mooring.errors import InputError
from mooring.traces.bounded import LONGEST_S

DATA = Path(__file__).parent / "data"

ARRIVALS_NAME = "bc-paug89-extract"
COUNTS_NAME = "worldcup98-extract"
_FILES = {ARRIVALS_NAME: "bc-paug89-extract.npz", COUNTS_NAME: "worldcup98-extract.csv.gz"}

_FIELDS = ("tick_us", "gap_low", "gap_high")
_MAX_FIELD_BYTES = 32 * 2**20

_BROKEN = (OSError, EOFError, KeyError, ValueError, NotImplementedError, MemoryError, OverflowError)


def extract_path(name: str | Path) -> Path | None:
    """Where the shipped extract of this name lies; None if it is no extract's name."""
    file = _FILES.get(str(name))
    return None if file is None else DATA / file


def read_extract(path: Path) -> Floats:
    """The instants in seconds of an extract, the first at zero."""
    try:
        tick_us, low, high = _fields(path)
    except FileNotFoundError:
        raise InputError("no such trace file", file=path, remedy="give the path of a trace") from None
    except (*_BROKEN, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"is no trace extract: {error}", file=path, remedy="fetch the file again") from error
    if tick_us.shape != () or tick_us.dtype.kind not in "iu" or int(tick_us) <= 0:
        raise InputError(f"found {tick_us}, expected whole microseconds", file=path, field="tick_us")
    if low.dtype != np.uint8 or high.dtype != np.uint8 or low.ndim != 1 or low.shape != high.shape:
        raise InputError(
            "gap_low and gap_high must be byte vectors of one length", file=path, field="gap_low"
        )
    ticks = np.cumsum(low.astype(np.int64) + 256 * high.astype(np.int64))
    if ticks.size and int(ticks[-1]) * int(tick_us) > LONGEST_S * 10**6:
        raise InputError(
            f"lasts {int(ticks[-1])} ticks of {tick_us} us, too long", file=path, field="tick_us"
        )
    return np.concatenate([[0], ticks * (1000 * int(tick_us))]) / 1e9


def _fields(path: Path) -> tuple[Ints, Bytes, Bytes]:
    """Sizes are checked in the archive's directory first: zipfile never expands more than that says."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.file_size > _MAX_FIELD_BYTES:
                raise ValueError(f"{member.filename} expands to {member.file_size} bytes")
    with np.load(path, allow_pickle=False) as archive:
        tick_us, low, high = (archive[field] for field in _FIELDS)
    return tick_us, low, high
