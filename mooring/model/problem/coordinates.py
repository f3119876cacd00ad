"""Where sites are in a wide area: the `at_ms` and `height_ms` of a problem file's sites."""

from __future__ import annotations

import math

import numpy as np

from mooring.errors import InputError
from mooring.model.problem.latencies import Coordinates, Latencies
from mooring.model.problem.reading.fields import fail

LEAST_DIMENSIONS, MOST_DIMENSIONS = 2, 5


def position(value: object, path: str) -> tuple[float, ...]:
    """Two to five coordinates in milliseconds, which may be negative."""
    if not isinstance(value, list | tuple) or not LEAST_DIMENSIONS <= len(value) <= MOST_DIMENSIONS:
        fail(path, f"a list of {LEAST_DIMENSIONS} to {MOST_DIMENSIONS} coordinates in milliseconds", value)
    for i, part in enumerate(value):
        if type(part) not in (int, float) or not math.isfinite(part):
            fail(f"{path}[{i}]", "a finite number of milliseconds", part)
    return tuple(map(float, value))


class CoordinateReader:
    """Takes the sites one by one: all have coordinates, in as many dimensions, or none has."""

    def __init__(self, has_matrix: bool) -> None:
        self._has_matrix = has_matrix
        self._sites: list[str] = []
        self._positions: list[tuple[float, ...] | None] = []
        self._heights: list[float] = []

    def take(self, site: str, at_ms: tuple[float, ...] | None, height_ms: float | None) -> None:
        path = f"sites.{site}"
        if at_ms is None and height_ms is not None:
            fail(f"{path}.at_ms", "the site's coordinates, since height_ms is given", None)
        if at_ms is not None and self._has_matrix:
            raise InputError(
                "found both latency_ms and coordinates of sites",
                field=f"{path}.at_ms",
                remedy="remove latency_ms, or at_ms and height_ms of all sites",
            )
        first = self._positions[0] if self._positions else at_ms
        if (first is None) != (at_ms is None):
            fail(f"{path}.at_ms", _expected(first, self._sites[0]), at_ms)
        if first is not None and at_ms is not None and len(first) != len(at_ms):
            fail(f"{path}.at_ms", _expected(first, self._sites[0]), at_ms)
        self._sites.append(site)
        self._positions.append(at_ms)
        self._heights.append(height_ms or 0.0)

    def latencies(self, otherwise: Latencies | None) -> Latencies | None:
        if not self._positions or self._positions[0] is None:
            return otherwise
        return Coordinates(np.array(self._positions), np.array(self._heights))


def _expected(first: tuple[float, ...] | None, site: str) -> str:
    return f"{'no' if first is None else len(first)} coordinates, as {site!r} has"
