"""A slice of the feasible set: how far two streams can go while the others stay where they are."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mooring.arrays import Floats, Ints
from mooring.model.load.feasible.boundary import largest_multiples
from mooring.model.load.model import LoadModel

RAYS = 129
_BEYOND = 4.0
"""Times the present rate that is shown of a stream that fills no site."""


@dataclass(frozen=True)
class Edge:
    """A stretch of the boundary, along which one site is full."""

    site: int | None
    """None where no site is full: the stretch is only as far as is shown."""
    points: Floats
    """(points, 2): rates of the first and the second stream, from the second's axis towards the first's."""


@dataclass(frozen=True)
class Slice:
    edges: tuple[Edge, ...]
    """Empty where the other streams alone overload a site."""
    overloaded: int | None = None
    """The site that is full before either stream brings anything."""


def slice_through(
    model: LoadModel, site_of_fragment: npt.ArrayLike, rates: npt.ArrayLike, first: int, second: int
) -> Slice:
    """The feasible rates of two different streams, the others staying at `rates`; by true loads, as in
    `headroom`.

    >>> model = LoadModel.from_coefficients([[0.2, 0.0], [0.0, 0.1]], capacity_cores=[1.0, 1.0])
    >>> cut = slice_through(model, [0, 1], [1, 2], 0, 1)
    >>> [(edge.site, edge.points[[0, -1]].tolist()) for edge in cut.edges]
    [(1, [[0.0, 10.0], [5.0, 10.0]]), (0, [[5.0, 10.0], [5.0, 0.0]])]
    """
    sites = np.asarray(site_of_fragment)
    base = np.array(rates, dtype=np.float64)
    shown = _BEYOND * np.maximum(base[[first, second]], 1.0)
    base[[first, second]] = 0.0
    at_base = model.site_loads(sites, base)
    if (at_base > model.capacity_cores).any():
        return Slice((), int(np.argmax(at_base - model.capacity_cores)))
    ends = [
        _reach(model, sites, base, stream, most) for stream, most in zip((first, second), shown, strict=True)
    ]
    angles = np.linspace(np.pi / 2, 0.0, RAYS)
    directions = np.zeros((RAYS, len(base)))
    directions[:, first] = np.round(np.cos(angles), 12) * ends[0]
    directions[:, second] = np.round(np.sin(angles), 12) * ends[1]
    return Slice(_edges(model, sites, base, directions, (first, second), np.array(ends)))


def ideal_line(model: LoadModel, rates: npt.ArrayLike, first: int, second: int) -> Floats | None:
    """(2, 2): where the second stream's axis and the first's are met by the rates that all sites together
    could just carry if load could be cut at will; None where that is no line, or nothing is left for the two.

    >>> model = LoadModel.from_coefficients([[0.2, 0.0], [0.0, 0.1]], capacity_cores=[1.0, 1.0])
    >>> ideal_line(model, [1, 2], 0, 1).tolist()
    [[0.0, 20.0], [10.0, 0.0]]
    """
    if model.definitions:
        return None
    base = np.array(rates, dtype=np.float64)
    base[[first, second]] = 0.0
    per_unit = np.asarray(model.coefficients.sum(axis=0)).ravel()
    left = float(model.capacity_cores.sum() - model.fixed_cores.sum() - per_unit @ base)
    each = per_unit[[first, second]]
    if left <= 0.0 or (each <= 0.0).any():
        return None
    return np.array([[0.0, left / each[1]], [left / each[0], 0.0]])


def _reach(model: LoadModel, sites: Ints, base: Floats, stream: int, most: float) -> float:
    """How far one stream goes alone."""
    direction = np.zeros((1, len(base)))
    direction[0, stream] = 1.0
    reach = float(_multiples(model, sites, base, direction)[0])
    return reach if np.isfinite(reach) and reach > 0.0 else float(most)


def _multiples(model: LoadModel, sites: Ints, base: Floats, directions: Floats) -> Floats:
    return largest_multiples(
        lambda t: model.site_loads(sites, base + t[:, None] * directions),
        len(directions),
        model.capacity_cores,
        linear=not model.definitions,
    )


def _edges(
    model: LoadModel,
    sites: Ints,
    base: Floats,
    directions: Floats,
    streams: tuple[int, int],
    ends: Floats,
) -> tuple[Edge, ...]:
    """The boundary cut where another site becomes the full one; the corner between two is put where their
    lines meet, so that straight edges are exact.
    """
    reach = _multiples(model, sites, base, directions)
    along = directions[:, list(streams)]
    with np.errstate(divide="ignore"):
        box = np.min(np.where(along > 0.0, ends / np.where(along > 0.0, along, 1.0), np.inf), axis=1)
    bounded = reach <= box * (1.0 + 1e-9)
    points = along * np.minimum(reach, box)[:, None]
    loads = model.site_loads(sites, base + np.minimum(reach, box)[:, None] * directions)
    full = np.where(bounded, np.argmax(loads - model.capacity_cores, axis=1), -1)
    cuts = [0, *(np.flatnonzero(np.diff(full)) + 1), len(full)]
    pieces = [points[start:stop] for start, stop in itertools.pairwise(cuts)]
    for k in range(len(pieces) - 1):
        corner = _corner(pieces[k], pieces[k + 1])
        pieces[k] = np.vstack([pieces[k], corner])
        pieces[k + 1] = np.vstack([corner, pieces[k + 1]])
    return tuple(
        Edge(int(full[cut]) if full[cut] >= 0 else None, piece)
        for cut, piece in zip(cuts[:-1], pieces, strict=True)
    )


def _corner(before: Floats, after: Floats) -> Floats:
    """Where the last stretch of one edge meets the first of the next; halfway where they run alike."""
    halfway = (before[-1] + after[0]) / 2.0
    if len(before) < 2 or len(after) < 2:
        return np.asarray(halfway)
    (p, r), (q, s) = (before[-1], before[-1] - before[-2]), (after[0], after[0] - after[1])
    across = r[0] * s[1] - r[1] * s[0]
    if abs(across) <= 1e-12 * max(float(np.abs(r).max() * np.abs(s).max()), 1e-300):
        return np.asarray(halfway)
    t = ((q - p)[0] * s[1] - (q - p)[1] * s[0]) / across
    corner = p + t * r
    near = np.abs(corner - halfway) <= np.abs(after[0] - before[-1]) + 1e-9
    return np.asarray(np.round(corner, 9) if near.all() else halfway)
