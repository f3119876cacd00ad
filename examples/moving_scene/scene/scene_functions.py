"""What is computed from a video: subtract the background, smooth what is left, find its edges.

Smoothing is the expensive one, and only where something moves: the paper's operators, too, quickly overlook
the background and drill down where there may be a feature (section 1). So its cost follows the content of a
frame and not its size, which is what chunk plans are for.

Every function computes a cell in an order that does not depend on the chunk: by shifted slices, or cell by
cell over the cells that move, with nothing but sums, products and quotients.
"""

from __future__ import annotations

import numpy as np

from mooring.arrays import Bytes, Cells, Singles
from mooring.chunks.data.array_function import ArrayFunction, CellToCell, RegionToCell, shifted_sum
from mooring.chunks.partitioning import Bounds

MOVED = 24
"""Cells that differ from the background by more than this moved; noise differs by less."""
SOFTNESS = 12.0
"""How much a cell may differ from its surroundings and still count among them."""
_ACROSS = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=np.float32)


def foreground(background: Bytes, name: str = "foreground") -> ArrayFunction:
    """By how much a cell differs from the background, where that is more than noise; else 0."""

    def kernel(cells: Cells, where: Bounds) -> Cells:
        still = background[where.slices].astype(np.int16)
        differs = np.abs(cells.astype(np.int16) - still)
        return np.where(differs > MOVED, differs, 0).astype(np.uint8)

    return ArrayFunction(name, CellToCell(), kernel)


def smooth(rounds: int = 20, radius: int = 2, name: str = "smooth") -> ArrayFunction:
    """Smooths what moved and keeps its edges: in every round a cell becomes the mean of its window, weighted
    by how alike they are. Cells that did not move cost next to nothing.
    """

    def kernel(window: Cells, where: Bounds) -> Cells:
        rows, columns = where.shape
        centre = window[radius : radius + rows, radius : radius + columns]
        moved = centre > 0
        out: Singles = np.zeros((rows, columns), dtype=np.float32)
        if not moved.any():
            return out
        value = centre[moved].astype(np.float32)
        around = [
            window[down : down + rows, right : right + columns][moved].astype(np.float32)
            for down in range(2 * radius + 1)
            for right in range(2 * radius + 1)
        ]
        weight = np.empty_like(value)
        for _ in range(rounds):
            total, weights = np.zeros_like(value), np.zeros_like(value)
            for neighbour in around:
                np.subtract(neighbour, value, out=weight)
                np.multiply(weight, weight, out=weight)
                weight += np.float32(SOFTNESS**2)
                np.divide(np.float32(SOFTNESS**2), weight, out=weight)
                weights += weight
                weight *= neighbour
                total += weight
            value = total / weights
        out[moved] = value
        return out

    return ArrayFunction(name, RegionToCell.window(radius, radius, boundary="reflect"), kernel)


def edges(name: str = "edges") -> ArrayFunction:
    """How steep it is at a cell, by Sobel's windows: the sum of both directions."""

    def kernel(window: Cells, where: Bounds) -> Cells:
        values = window.astype(np.float32)
        return np.abs(shifted_sum(values, _ACROSS)) + np.abs(shifted_sum(values, _ACROSS.T))

    return ArrayFunction(name, RegionToCell.window(1, 1), kernel)
