"""An array frame: one item of a multidimensional stream, such as an image of a camera (not a DataFrame)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Cells
from mooring.errors import InputError

KINDS = "biufc"
"""Kinds of numbers, as numpy names them, that are bytes of a fixed width and nothing else."""


@dataclass(frozen=True, eq=False)
class ArrayFrame:
    """The cells of one frame, its place in the stream, and how old it is."""

    number: int
    """Place in the stream; the frames of a stream are numbered without gaps."""
    entered_ms: float
    """When it entered the system, on any clock that all frames share. The oldest is computed first."""
    cells: Cells

    def __post_init__(self) -> None:
        check_cells(self.cells)


def check_cells(cells: Cells) -> None:
    """What can be cut, sent as bytes, and put together again."""
    if cells.ndim == 0 or cells.size == 0:
        raise InputError(f"found an array of shape {cells.shape}, expected one with cells along every axis")
    if cells.dtype.kind not in KINDS:
        raise InputError(f"found cells of type {cells.dtype}, expected numbers or booleans")


def cells_from_bytes(data: bytes, dtype: str, shape: tuple[int, ...]) -> Cells:
    """The array that `cells_to_bytes` wrote; it may be written to.

    >>> cells_from_bytes(cells_to_bytes(np.eye(2, dtype="u1")), "|u1", (2, 2)).tolist()
    [[1, 0], [0, 1]]
    """
    kind = np.dtype(dtype)
    expected = math.prod(shape) * kind.itemsize
    if kind.kind not in KINDS or len(data) != expected:
        raise InputError(f"found {len(data)} bytes, expected {expected} of shape {shape} and type {dtype}")
    return np.frombuffer(bytearray(data), dtype=kind).reshape(shape)


def cells_to_bytes(cells: Cells) -> bytes:
    """In C order, whatever order they are in."""
    return np.ascontiguousarray(cells).tobytes()
