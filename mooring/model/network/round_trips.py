"""Readers for published round-trip times.

All give round-trip times in milliseconds as they were measured, errors and gaps included; `one_way_ms` cleans
them up for planning. Ping folders: one file per source, lines `min/avg/max/mdev:destination` (AWS and GCP
regions, from the fantoch project). Matrices: rows of numbers, separated by blanks, tabs or commas, or `.npy`
(PlanetLab, from NetLatency-Data).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mooring.arrays import Floats
from mooring.errors import InputError

LARGEST_FILE_BYTES = 64 * 2**20
"""The largest known matrix (PlanetLab as text) takes 2 MB."""


@dataclass(frozen=True, eq=False)
class RoundTrips:
    names: tuple[str, ...]
    rtt_ms: Floats
    """From a row's node to a column's; NaN where nothing was measured."""

    def one_way_ms(self) -> Floats:
        """Half the round trip, the mean of both directions, zero on the diagonal.

        What cannot be (zero, negative, missing) is taken from the other direction, and if that has nothing
        either, from the best detour over a third node.
        """
        rtt = np.where(self.rtt_ms > 0.0, self.rtt_ms, np.nan)
        rtt = np.where(np.isnan(rtt), rtt.T, rtt)
        one_way = (rtt + rtt.T) / 4.0
        np.fill_diagonal(one_way, 0.0)
        for i, j in np.argwhere(np.isnan(one_way)).tolist():
            one_way[i, j] = np.nanmin(one_way[i] + one_way[:, j], initial=np.inf)
        if not np.all(np.isfinite(one_way)):
            i, j = np.argwhere(~np.isfinite(one_way))[0]
            raise InputError(
                f"found no latency between {self.names[i]!r} and {self.names[j]!r}, directly or by a detour"
            )
        return np.asarray(one_way)


def read_pings(folder: Path) -> RoundTrips:
    """A folder of ping summaries, one file per source named after it."""
    files = sorted(folder.glob("*.dat"))
    if not files:
        raise InputError("found no .dat files, expected one per source", file=folder)
    names = tuple(file.stem for file in files)
    index = {name: i for i, name in enumerate(names)}
    rtt_ms = np.full((len(names), len(names)), np.nan)
    for i, file in enumerate(files):
        for number, line in enumerate(_text(file).splitlines(), start=1):
            if not line.strip():
                continue
            parts = re.fullmatch(r"\s*([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+):(\S+)\s*", line)
            if parts is None:
                raise InputError(
                    f"found {line[:60]!r} in line {number}, expected min/avg/max/mdev:destination", file=file
                )
            if parts[5] in index:
                rtt_ms[i, index[parts[5]]] = float(parts[2])
    return RoundTrips(names, rtt_ms)


def read_matrix(path: Path) -> RoundTrips:
    """A square matrix of milliseconds; nodes are numbered, as published."""
    if path.suffix == ".npy":
        try:
            values = np.load(path, allow_pickle=False).astype(np.float64)
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read: {error}", file=path) from None
    else:
        text = _text(path).replace(",", " ")
        try:
            values = np.array([line.split() for line in text.splitlines() if line.strip()], dtype=np.float64)
        except ValueError as error:
            raise InputError(f"is not a matrix of numbers: {error}", file=path) from None
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise InputError(f"found a matrix of {values.shape}, expected a square one", file=path)
    return RoundTrips(tuple(f"n{i}" for i in range(len(values))), values)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise InputError(f"is larger than {LARGEST_FILE_BYTES} bytes", file=path)
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", file=path) from None
