"""The network section of a problem file: latencies, bandwidths and routes between named sites."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mooring.arrays import Floats
from mooring.errors import InputError
from mooring.model.problem.latencies import MOST_IN_MATRIX
from mooring.model.problem.network import Network
from mooring.model.problem.reading.companion import companion_file
from mooring.model.problem.reading.fields import (
    Check,
    fail,
    mapping,
    names,
    number,
    positive,
    read_fields,
    refuse_reference,
)
from mooring.model.problem.topology_file import latencies_over

MAX_SITES = 10_000
"""A matrix between more sites than this would not fit in memory."""


_DECODER = msgspec.json.Decoder(list[float | None])


ROWS_AT_A_TIME = 64


def _either(value: object, path: str) -> object:
    return value


_NETWORK: dict[str, Check] = {
    "channel_ms": number,
    "comm_us": number,
    "bandwidth": _either,
    "routes": mapping,
}


def read_network(latency: Any, network: Any, sites: Sequence[str], folder: Path | None) -> Network:
    """`sites`: their names."""
    fields: dict[str, Any] = read_fields(network or {}, _NETWORK, "network")
    index = {site: i for i, site in enumerate(sites)}
    if len(sites) > MAX_SITES and (latency is not None or "bandwidth" in fields):
        fail("sites", f"at most {MAX_SITES} where latencies or bandwidths are given", len(sites))
    latency_ms = None if latency is None else _read_latency(latency, index, folder)
    return Network(
        latency_ms=latency_ms,
        channel_ms=fields.get("channel_ms", 0.0),
        comm_us=fields.get("comm_us", 0.0),
        bandwidth=_read_bandwidth(fields["bandwidth"], index) if "bandwidth" in fields else None,
        routes=_read_routes(fields.get("routes", {}), index),
    )


def _read_latency(raw: Mapping[str, object], index: dict[str, int], folder: Path | None) -> Floats:
    file = raw.get("file")
    if isinstance(file, str):
        if len(raw) > 1:
            fail("latency_ms", "either file or latencies, not both", raw)
        matrix = _read_matrix_file(companion_file(folder, file, "latency_ms.file"), index)
    elif isinstance(topology := raw.get("topology"), str):
        if len(raw) > 1:
            fail("latency_ms", "either topology or latencies, not both", raw)
        if len(index) > MOST_IN_MATRIX:
            fail("sites", f"at most {MOST_IN_MATRIX} over a topology (give them coordinates)", len(index))
        matrix = latencies_over(companion_file(folder, topology, "latency_ms.topology"), index)
    else:
        matrix = _fill(raw, index, "latency_ms")
    _complete(matrix, index, "latency_ms")
    return matrix


def _fill(raw: Mapping[str, object], index: dict[str, int], path: str) -> Floats:
    """Entries as given; NaN where nothing is."""
    matrix = np.full((len(index), len(index)), math.nan)
    for a, row in raw.items():
        i = _site(a, index, path)
        given = mapping(row, f"{path}.{a}", "a mapping of sites to numbers")
        if _fill_at_once(matrix[i], given, index):
            continue
        for b, value in given.items():
            j = _site(b, index, f"{path}.{a}")
            matrix[i, j] = number(value, f"{path}.{a}.{b}")
    return matrix


def _fill_at_once(row: Floats, given: Mapping[str, object], index: dict[str, int]) -> bool:
    """Sound numbers of known sites; false where something has to be looked at one by one."""
    values = list(given.values())
    if not set(map(type, values)) <= {float, int}:
        return False
    try:
        columns = [index[b] for b in given]
        numbers = np.array(values, dtype=np.float64)
    except (KeyError, OverflowError):
        return False
    if not ((numbers >= 0.0) & (numbers < math.inf)).all():
        return False
    row[columns] = numbers
    return True


def _site(key: str, index: dict[str, int], path: str) -> int:
    if key not in index:
        refuse_reference(str(key), index, path, "a site")
    return index[key]


def _complete(matrix: Floats, index: dict[str, int], path: str) -> None:
    """Fill in the other direction and the diagonal; every pair of sites must have come up."""
    diagonal = np.diagonal(matrix)
    if np.any(diagonal[~np.isnan(diagonal)] != 0.0):
        site = list(index)[int(np.argmax(np.nan_to_num(diagonal)))]
        fail(f"{path}.{site}.{site}", "zero from a site to itself", float(np.nanmax(diagonal)))
    np.fill_diagonal(matrix, 0.0)
    for begin in range(0, len(matrix), ROWS_AT_A_TIME):  # not all at once, for the sake of memory
        rows, back = matrix[begin : begin + ROWS_AT_A_TIME], matrix[:, begin : begin + ROWS_AT_A_TIME].T
        np.copyto(rows, back, where=np.isnan(rows))
    if np.isnan(matrix.sum()):
        gaps = np.argwhere(np.isnan(matrix))
        known = list(index)
        a, b = known[gaps[0][0]], known[gaps[0][1]]
        raise InputError(
            f"found no latency between {a!r} and {b!r} ({len(gaps) // 2} pairs lack one), expected all pairs",
            field=path,
            remedy=f"add {path}: {{{a}: {{{b}: ...}}}}",
        )


def _read_matrix_file(path: Path, index: dict[str, int]) -> Floats:
    """A CSV file: site names after one corner cell, then one row per site. Other sites are left out."""
    matrix = np.full((len(index), len(index)), math.nan)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = (line for line in file if line.strip())
            header = [cell.strip() for cell in next(csv.reader(lines), [])[1:]]
            there = [(k, index[cell]) for k, cell in enumerate(header) if cell in index]
            cells, columns = np.array(there, dtype=np.int64).reshape(-1, 2).T
            for line_number, line in enumerate(lines, start=2):
                known = _row_of_numbers(line, len(header))
                if known is not None and (i := index.get(known[0])) is not None:
                    matrix[i, columns] = known[1][cells]
                elif known is None:
                    row = next(csv.reader([line]))
                    i = index.get(row[0].strip())
                    for k, j in there if i is not None else ():
                        if k + 1 < len(row) and row[k + 1].strip():
                            matrix[i, j] = _cell(row[k + 1], path, line_number, header[k])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read: {error}", file=path) from None
    return matrix


def _row_of_numbers(line: str, columns: int) -> tuple[str, Floats] | None:
    """A plain line, all of it at once: its name and its numbers, NaN where a cell is empty. None: anything
    else, to be looked at cell by cell.
    """
    name, _, rest = line.partition(",")
    if '"' in line:
        return None
    if ",," in rest or rest[:1] == "," or rest.rstrip()[-1:] == ",":
        rest = ",".join([cell.strip() or "null" for cell in rest.split(",")])
    try:
        row = np.array(_DECODER.decode(f"[{rest}]"), dtype=np.float64)
    except msgspec.DecodeError:
        return None
    if len(row) != columns or (row < 0.0).any() or np.isinf(row).any():
        return None
    return name.strip(), row


def _cell(text: str, path: Path, line: int, column: str) -> float:
    try:
        return number(float(text), "")
    except (ValueError, InputError):
        raise InputError(
            f"found {text[:40]!r} in line {line}, column {column!r}; expected milliseconds, not negative",
            file=path,
        ) from None


def _read_bandwidth(raw: object, index: dict[str, int]) -> Floats:
    """One number for every pair, or a matrix in which missing pairs are not limited."""
    if not isinstance(raw, Mapping):
        matrix = np.full((len(index), len(index)), positive(raw, "network.bandwidth"))
    else:
        matrix = _fill(raw, index, "network.bandwidth")
        missing = np.isnan(matrix)
        matrix[missing] = matrix.T[missing]
        matrix[np.isnan(matrix)] = math.inf
    np.fill_diagonal(matrix, math.inf)
    return matrix


def _read_routes(raw: Any, index: dict[str, int]) -> dict[tuple[int, int], tuple[int, ...]]:
    routes: dict[tuple[int, int], tuple[int, ...]] = {}
    for a, row in raw.items():
        i = _site(a, index, "network.routes")
        for b, via in mapping(row, f"network.routes.{a}", "a mapping of sites to lists of sites").items():
            path = f"network.routes.{a}.{b}"
            j = _site(b, index, f"network.routes.{a}")
            stops = () if via == [] else names(via, path)
            routes[i, j] = tuple(_site(stop, index, path) for stop in stops)
            routes.setdefault((j, i), routes[i, j][::-1])
    return routes
