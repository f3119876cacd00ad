"""A short name for exactly this problem, so that a plan can say which problem it was made for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np

from mooring.model.problem.latencies import Coordinates, Latencies
from mooring.model.problem.problem import Problem
from mooring.model.problem.write import problem_to_data

MOST_IN_TEXT = 300
"""Sites up to which matrices are hashed as a problem file states them, beyond which as arrays."""


def fingerprint(problem: Problem) -> str:
    """Equal for equal problems, whatever the order of the entries in their files and the files' names.

    Past rates count, the name of the file they came from does not; neither do Spark addresses, which say how
    to reach a site and not what it is, nor changes, which no plan is made for.

    >>> data = {"sites": {"a": {"capacity": 2}, "b": {"capacity": 1}}, "streams": {"s": {"rate": 10}},
    ...         "operators": {"o": {"inputs": ["s"], "cost_us": 12.5}}}
    >>> fingerprint(Problem.from_dict(data)) == fingerprint(Problem.from_dict(dict(reversed(data.items()))))
    True
    """
    network = problem.network
    large = len(problem.sites) > MOST_IN_TEXT
    if large:  # a text of all pairs would take a hundred times what the matrix takes
        problem = replace(problem, network=replace(network, latency_ms=None, bandwidth=None))
    data = _unordered(problem_to_data(problem))
    data.pop("changes", None)
    for stream in data["streams"].values():
        stream.pop("rates", None)
    digest = hashlib.sha256()
    digest.update(json.dumps(data, sort_keys=True, separators=(",", ":")).encode())
    if large:
        by_site = sorted(range(len(problem.sites)), key=lambda i: problem.sites[i].name)
        for matrix in (network.latency_ms, network.bandwidth):
            _add_matrix(digest, matrix, by_site)
    if problem.history is not None:
        by_name = sorted(range(len(problem.streams)), key=lambda k: problem.streams[k].name)
        columns = np.ascontiguousarray(problem.history.rates[:, by_name], dtype="<f8")
        digest.update(str(columns.shape).encode())
        digest.update(columns.tobytes())
    return f"sha256:{digest.hexdigest()[:16]}"


def _add_matrix(digest: hashlib._Hash, matrix: Latencies | None, order: list[int]) -> None:
    """Row by row, the sites in order of their names."""
    if matrix is None:
        digest.update(b"none")
    elif isinstance(matrix, Coordinates):
        for part in (matrix.position_ms[order], matrix.height_ms[order]):
            digest.update(np.ascontiguousarray(part, dtype="<f8").tobytes())
    else:
        for row in order:
            digest.update(np.ascontiguousarray(matrix[row, order], dtype="<f8").tobytes())


def _unordered(data: dict[str, Any]) -> dict[str, Any]:
    """Which of two sites is named first must not decide which triangle of a symmetric matrix is written."""
    network = dict(data.get("network", {}))
    result = dict(data)
    if "latency_ms" in data:
        result["latency_ms"] = _both_directions(data["latency_ms"])
    if "bandwidth" in network:
        network["bandwidth"] = _both_directions(network["bandwidth"])
    if "routes" in network:
        network["routes"] = _both_directions(network["routes"])
    if network:
        result["network"] = network
    return result


def _both_directions(pairs: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    result = {a: dict(row) for a, row in pairs.items()}
    for a, row in pairs.items():
        for b, value in row.items():
            back = value[::-1] if isinstance(value, list) else value
            result.setdefault(b, {}).setdefault(a, back)
    return result
