"""Chunk plans as pictures: where in a frame the work is, and which site computes what.

A frame of two dimensions is drawn as it is, a line as one row; of more dimensions the last two are drawn, and
the others summed up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.chunks.model import ArrayOperator, ChunkPlan, ChunkProblem, OperatorChunks
from mooring.chunks.partitioning import Partitioning
from mooring.quantity import milliseconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHADES = " .:-=+*#%@"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_COLOURS = ("#1b6ca8", "#d9822b", "#3a9d5d", "#b5403c", "#7d5ba6", "#8a8a8a", "#5aa7b5", "#c2185b")


def cost_grid(operator: ArrayOperator, rows: int, columns: int, frame: int = 0) -> Floats:
    """Cycles per cell in each block of a frame, at most so many rows and columns of them."""
    shape = operator.shape
    lengths = [1] * (len(shape) - 2) + [
        min(rows, shape[-2]) if len(shape) > 1 else 1,
        min(columns, shape[-1]),
    ]
    parts = tuple(lengths[-len(shape) :])
    blocks = Partitioning(parts)
    cells = np.array([box.cells for box in blocks.bounds(shape)])
    costs = operator.complexity.chunk_cycles(shape, blocks, frame) / cells
    return np.asarray(costs.reshape(lengths[-2:]))


def site_grid(operator: ArrayOperator, chunks: OperatorChunks, sites: Sequence[str], like: Floats) -> Ints:
    """The number of the site that has the middle of each block; of the first layer, beyond two dimensions."""
    found = np.zeros(like.shape, dtype=np.int64)
    shape = (1, *operator.shape)[-2:]
    for box, site in zip(chunks.partitioning.bounds(operator.shape), chunks.sites, strict=True):
        if any(start > 0 for start in box.start[:-2]):
            continue
        where = [
            _middles(like.shape[axis], shape[axis], *bounds)
            for axis, bounds in enumerate(list(zip((0, *box.start), (1, *box.stop), strict=True))[-2:])
        ]
        found[np.ix_(*where)] = sites.index(site)
    return found


def _middles(blocks: int, cells: int, start: int, stop: int) -> Ints:
    """The blocks whose middle lies from `start` up to `stop`."""
    middles = (np.arange(blocks) + 0.5) * cells / blocks
    return np.flatnonzero((middles >= start) & (middles < stop))


def text_picture(
    operator: ArrayOperator, chunks: OperatorChunks, sites: Sequence[str], rows: int = 8, columns: int = 32
) -> list[str]:
    """The work as shades, and beside it the sites as letters where the plan names them."""
    costs = cost_grid(operator, rows, columns)
    span = costs.max() - costs.min()
    relative = (costs - costs.min()) / span if span > 1e-12 * costs.max() else np.full(costs.shape, 0.5)
    shades = [[SHADES[int(value * (len(SHADES) - 1))] for value in line] for line in relative]
    if not chunks.sites:
        return ["".join(line) for line in shades]
    letters = [
        [LETTERS[k % len(LETTERS)] for k in line] for line in site_grid(operator, chunks, sites, costs)
    ]
    return [f"{''.join(left)}   {''.join(right)}" for left, right in zip(shades, letters, strict=True)]


def draw_plan(problem: ChunkProblem, plan: ChunkPlan) -> Figure:
    """A heat map of every operator's work, with its chunks framed in the colours of their sites."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    columns = min(3, len(problem.operators))
    rows = -(-len(problem.operators) // columns)
    figure = Figure(figsize=(4 * columns, 3 * rows + 0.4), layout="constrained")
    grid = np.atleast_1d(figure.subplots(rows, columns, squeeze=False).ravel())
    sites = [site.name for site in problem.sites]
    for axes, operator in zip(grid, problem.operators, strict=False):
        _draw_operator(axes, operator, plan.operators[operator.name], sites)
    for axes in grid[len(problem.operators) :]:
        axes.axis("off")
    legend = [Patch(color=_colour(k), label=name) for k, name in enumerate(sites)]
    figure.legend(handles=legend, loc="outside lower center", ncols=min(6, len(sites)), frameon=False)
    figure.suptitle(
        f"{milliseconds(plan.latency_ms)} per frame, at least {milliseconds(plan.latency_bound_ms)}"
    )
    return figure


def _draw_operator(axes: Axes, operator: ArrayOperator, chunks: OperatorChunks, sites: list[str]) -> None:
    from matplotlib.patches import Rectangle

    height, width = (1, *operator.shape)[-2:]
    costs = cost_grid(operator, 64, 64)
    darkest = 1.6 * float(costs.max()) or 1.0
    axes.imshow(costs, extent=(0, width, height, 0), cmap="Greys", aspect="auto", vmin=0, vmax=darkest)
    down, across = 0.008 * height, 0.006 * width
    for at, box in enumerate(chunks.partitioning.bounds(operator.shape)):
        if any(start > 0 for start in box.start[:-2]):
            continue
        (top, left), (bottom, right) = (0, *box.start)[-2:], (1, *box.stop)[-2:]
        colour = _colour(sites.index(chunks.sites[at])) if chunks.sites else "#222222"
        corner, size = (left + across, top + down), (right - left - 2 * across, bottom - top - 2 * down)
        axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=colour, linewidth=2))
    axes.set(title=f"{operator.name}: {chunks.partitioning}", xticks=[], yticks=[])


def _colour(site: int) -> str:
    return _COLOURS[site % len(_COLOURS)]
