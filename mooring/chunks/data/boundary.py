"""Cell values beyond the edge of a frame, for windows that reach there.

A window that slides over a frame reaches cells which the frame does not have. The modes are those of
`scipy.ndimage`, by the same names; `a b c d` is the frame:

    constant   k k k | a b c d | k k k      a value of the operator's
    nearest    a a a | a b c d | d d d
    reflect    c b a | a b c d | d c b
    mirror     d c b | a b c d | c b a
    wrap       b c d | a b c d | a b c

Whoever cuts a chunk fills these cells in. So a chunk in the middle and one at the edge look alike to the
operator, and an operator needs no code for edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Bools, Cells, Ints
from mooring.chunks.partitioning import Bounds
from mooring.errors import InputError

MODES = ("constant", "nearest", "reflect", "mirror", "wrap")


@dataclass(frozen=True)
class Boundary:
    mode: str = "nearest"
    value: float = 0.0
    """Of every cell beyond the edge; `constant` only."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InputError(f"found the boundary {self.mode!r}, expected one of {', '.join(MODES)}")

    def cells(self, frame: Cells, region: Bounds) -> Cells:
        """The cells of a region that may reach beyond the frame, as an array of its own, in C order."""
        if _is_inside(region, frame.shape):
            return np.ascontiguousarray(frame[region.slices])
        axes = list(zip(region.start, region.stop, frame.shape, strict=True))
        cells = frame[np.ix_(*(_sources(self.mode, *axis) for axis in axes))]
        if self.mode == "constant":
            for axis, (start, stop, length) in enumerate(axes):
                outside = _outside(start, stop, length)
                cells[(slice(None),) * axis + (outside,)] = self.value
        return np.ascontiguousarray(cells)


def _is_inside(region: Bounds, shape: tuple[int, ...]) -> bool:
    return min(region.start) >= 0 and all(
        stop <= length for stop, length in zip(region.stop, shape, strict=True)
    )


def _outside(start: int, stop: int, length: int) -> Bools:
    at = np.arange(start, stop)
    return (at < 0) | (at >= length)


def _sources(mode: str, start: int, stop: int, length: int) -> Ints:
    """Of every position from `start` to `stop` along an axis: which position of the frame stands there.

    >>> _sources("reflect", -3, 6, 4).tolist(), _sources("mirror", -3, 6, 4).tolist()
    ([2, 1, 0, 0, 1, 2, 3, 3, 2], [3, 2, 1, 0, 1, 2, 3, 2, 1])
    """
    at = np.arange(start, stop)
    if mode == "wrap":
        return at % length
    if mode == "reflect":
        at = at % (2 * length)
        return np.minimum(at, 2 * length - 1 - at)
    if mode == "mirror":
        period = max(2 * length - 2, 1)
        at = at % period
        return np.minimum(at, period - at) if length > 1 else np.zeros_like(at)
    return np.clip(at, 0, length - 1)
