"""Networks of the Internet Topology Zoo: GML files with the places of routers, from which latencies follow.

A link's latency is the great circle between its ends at the speed of light in fibre; its routing weight is 1,
since the files say nothing about policies. Nodes without a place are put in the middle of their neighbours.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from mooring.arrays import Bools, Floats, Ints
from mooring.errors import InputError
from mooring.model.network.topology import Topology

FIBRE_KM_PER_MS = 200.0
"""Two thirds of the speed of light."""
LEAST_LATENCY_MS = 0.05
"""A link within one place still passes two routers."""
_EARTH_KM = 6371.0
_TOKEN = re.compile(r'\[|\]|"[^"]*"|[^\s\[\]]+')
_LARGEST_FILE_BYTES = 16 * 2**20

_Node = dict[str, "str | list[_Node]"]


def read_gml(path: Path) -> Topology:
    """One network: its largest connected part, nodes named by label and id."""
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise InputError(f"is larger than {_LARGEST_FILE_BYTES} bytes", file=path)
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot be read: {error}", file=path) from None
    nodes, edges = _graph(text, path)
    ids = {str(node["id"]): i for i, node in enumerate(nodes)}
    try:
        ends = np.array([(ids[str(e["source"])], ids[str(e["target"])]) for e in edges], dtype=np.int64)
    except KeyError as error:
        raise InputError(f"an edge names {error}, expected the id of a node", file=path) from None
    ends = ends.reshape(-1, 2)
    place = _filled(_places(nodes), ends)
    kept = _largest_part(len(nodes), ends)
    number = np.cumsum(kept) - 1
    ends = ends[kept[ends[:, 0]] & (ends[:, 0] != ends[:, 1])]
    latency = np.maximum(
        _great_circle_km(place[ends[:, 0]], place[ends[:, 1]]) / FIBRE_KM_PER_MS, LEAST_LATENCY_MS
    )
    names = tuple(f"{_label(nodes[i])}-{nodes[i]['id']}" for i in np.flatnonzero(kept))
    count = len(names)
    everywhere = np.zeros(count, dtype=np.int64)
    return Topology(names, number[ends], latency, np.ones(len(ends)), everywhere, np.ones(count, dtype=bool))


def _label(node: _Node) -> str:
    """As a site may be called: without the `#` that numbers the instances of operators."""
    return " ".join(str(node.get("label", "node")).replace("#", " ").split()) or "node"


def _graph(text: str, path: Path) -> tuple[list[_Node], list[_Node]]:
    tokens = _TOKEN.findall(re.sub(r"(?m)^\s*#.*$", "", text))
    try:
        root, _ = _block(tokens, 0)
        graph = root["graph"]
        assert isinstance(graph, list)
        nodes, edges = graph[0].get("node", []), graph[0].get("edge", [])
        if not (isinstance(nodes, list) and isinstance(edges, list) and all("id" in n for n in nodes)):
            raise ValueError("nodes need ids")
    except (KeyError, IndexError, ValueError, AssertionError, RecursionError) as error:
        raise InputError(f"is not a GML graph: {error}", file=path) from None
    return nodes, edges


def _block(tokens: list[str], at: int) -> tuple[_Node, int]:
    """Keys and values up to the closing bracket; keys of blocks may come up again and again."""
    found: _Node = {}
    while at < len(tokens) and tokens[at] != "]":
        key, value = tokens[at], tokens[at + 1]
        if value == "[":
            inner, at = _block(tokens, at + 2)
            blocks = found.setdefault(key, [])
            if isinstance(blocks, list):
                blocks.append(inner)
        else:
            found[key] = value.strip('"')
            at += 2
    return found, at + 1


def _places(nodes: list[_Node]) -> Floats:
    """Latitude and longitude in radians; NaN where not stated."""
    place = np.full((len(nodes), 2), np.nan)
    for i, node in enumerate(nodes):
        if "Latitude" in node and "Longitude" in node:
            place[i] = np.radians([float(str(node["Latitude"])), float(str(node["Longitude"]))])
    return place


def _filled(place: Floats, ends: Ints) -> Floats:
    for _ in range(len(place)):
        missing = np.flatnonzero(np.isnan(place[:, 0]))
        if not len(missing):
            break
        before = place.copy()
        for i in missing:
            around = np.concatenate([ends[ends[:, 0] == i, 1], ends[ends[:, 1] == i, 0]])
            known = before[around][~np.isnan(before[around, 0])]
            if len(known):
                place[i] = known.mean(axis=0)
        if np.array_equal(before, place, equal_nan=True):
            break
    middle = np.nanmean(place, axis=0) if np.any(~np.isnan(place)) else np.zeros(2)
    return np.where(np.isnan(place), middle, place)


def _largest_part(nodes: int, ends: Ints) -> Bools:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    graph = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(nodes, nodes))
    _, part = connected_components(graph, directed=False)
    return np.asarray(part == np.argmax(np.bincount(part)))


def _great_circle_km(a: Floats, b: Floats) -> Floats:
    across = np.sin((b[:, 0] - a[:, 0]) / 2) ** 2
    along = np.cos(a[:, 0]) * np.cos(b[:, 0]) * np.sin((b[:, 1] - a[:, 1]) / 2) ** 2
    return np.asarray(2 * _EARTH_KM * np.arcsin(np.sqrt(np.clip(across + along, 0.0, 1.0))))
