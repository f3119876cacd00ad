"""A network as a CSV file of links between sites and routers, `a,b,latency_ms`: latencies of least ways.

A file of links grows with the network, a matrix with its square; between sites alone one is made of it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from mooring.arrays import Floats
from mooring.errors import InputError
from mooring.model.problem.reading.fields import shown

COLUMNS = ["a", "b", "latency_ms"]
SITES_AT_A_TIME = 64
"""From which ways to all nodes are held."""

Links = Mapping[tuple[int, int], float]


def latencies_over(path: Path, index: Mapping[str, int]) -> Floats:
    """One way between all sites, both ways alike. `index`: the number of each site."""
    from scipy.sparse import csr_array  # here: it takes long to load
    from scipy.sparse.csgraph import dijkstra

    nodes, links = _read(path)
    if missing := [site for site in index if site not in nodes]:
        raise InputError(
            f"found no link of {shown(missing[0])} ({len(missing)} of {len(index)} sites have none), "
            "expected one or more of every site",
            file=path,
        )
    ends = np.array(list(links), dtype=np.int64).reshape(-1, 2)
    graph = csr_array((list(links.values()), (ends[:, 0], ends[:, 1])), shape=(len(nodes), len(nodes)))
    at = np.array([nodes[site] for site in index], dtype=np.int64)
    matrix = np.zeros((len(at), len(at)))
    for begin in range(0, len(at), SITES_AT_A_TIME):
        some = slice(begin, begin + SITES_AT_A_TIME)
        matrix[some] = dijkstra(graph, directed=False, indices=at[some])[:, at]
    if not np.isfinite(matrix).all():
        a, b = np.argwhere(np.isinf(matrix))[0]
        sites = list(index)
        raise InputError(f"found no way between {shown(sites[a])} and {shown(sites[b])}", file=path)
    return np.minimum(matrix, matrix.T)  # sums in both directions may differ in the last bit


def _read(path: Path) -> tuple[dict[str, int], Links]:
    """Nodes by name, and the latency of each link, the least where there are several."""
    nodes: dict[str, int] = {}
    links: dict[tuple[int, int], float] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            header = [cell.strip() for cell in next(rows, [])]
            if header != COLUMNS:
                raise InputError(f"found the columns {header}, expected {','.join(COLUMNS)}", file=path)
            for a, b, latency_ms in _links(rows, path):
                ends = [nodes.setdefault(name, len(nodes)) for name in (a, b)]
                pair = min(ends), max(ends)
                links[pair] = min(latency_ms, links.get(pair, math.inf))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read: {error}", file=path) from None
    return nodes, links


def _links(rows: Iterable[list[str]], path: Path) -> Iterable[tuple[str, str, float]]:
    for number, row in enumerate(rows, start=2):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        try:
            a, b, latency_ms = cells[0], cells[1], float(cells[2])
        except (IndexError, ValueError):
            a, b, latency_ms = "", "", math.nan
        if len(cells) != len(COLUMNS) or not a or not b or a == b or not 0.0 < latency_ms < math.inf:
            raise InputError(
                f"found {shown(','.join(row))} in line {number}, expected two nodes and milliseconds above "
                "zero",
                file=path,
            )
        yield a, b, latency_ms
