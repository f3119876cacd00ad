"""Headroom: the distance of the present rates from the edge of the feasible set, and the site at that
edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array, csr_array, issparse

from mooring.arrays import Bools, Floats, Ints
from mooring.model.load.feasible.boundary import largest_multiples
from mooring.model.load.model import LoadModel

MOST_RAY_CELLS = 4_000_000
"""Rays x sites or variables at a time."""


@dataclass(frozen=True)
class Growth:
    """The factor by which rates can grow until the first site saturates.

    Below one when a site is overloaded now. Zero when it would be even without what grows. Infinite,
    without a site, when nothing that grows loads any site; a rate of zero cannot be scaled and so counts as
    that.
    """

    factor: float
    site: int | None


@dataclass(frozen=True)
class Headroom:
    all: Growth  # all rates together
    streams: tuple[Growth, ...]  # each stream alone, the others staying as they are


def headroom(
    model: LoadModel, site_of_fragment: npt.ArrayLike, rates: npt.ArrayLike | None = None
) -> Headroom:
    """Growth until saturation by true loads: joins count quadratically, communication and fixed load too.

    `rates` are the streams' present rates unless given.

    >>> model = LoadModel.from_coefficients([[0.2, 0.0], [0.0, 0.1]], capacity_cores=[1.0, 1.0])
    >>> headroom(model, [0, 1], [1.0, 2.0])
    Headroom(all=Growth(factor=5.0, site=0), streams=(Growth(factor=5.0, site=0), Growth(factor=5.0, site=1)))
    """
    now = np.asarray(model.present[: model.stream_count] if rates is None else rates, dtype=np.float64)
    # One ray per row: first all streams, then each alone; what does not grow stays.
    if model.is_wide:
        growths = sparse_growths(model, np.asarray(site_of_fragment, dtype=np.int64), now)
    else:
        grows = np.vstack([np.ones(len(now), dtype=bool), np.eye(len(now), dtype=bool)])
        growths = _growths(model, site_of_fragment, now, grows, np.concatenate([[True], now > 0.0]))
    return Headroom(growths[0], tuple(growths[1:]))


def growth_of_all(model: LoadModel, site_of_fragment: npt.ArrayLike, rates: npt.ArrayLike) -> Growth:
    """Of all streams together and none alone: `headroom(...).all`, for those who ask often."""
    now = np.asarray(rates, dtype=np.float64)
    return _growths(model, site_of_fragment, now, np.ones((1, len(now)), dtype=bool), np.array([True]))[0]


def growth_by_site(model: LoadModel, site_of_fragment: npt.ArrayLike, rates: npt.ArrayLike) -> Floats:
    """Per site, the factor by which all rates can grow until it is full, whatever becomes of the others.

    >>> model = LoadModel.from_coefficients([[0.2, 0.0], [0.0, 0.1]], capacity_cores=[1.0, 1.0])
    >>> growth_by_site(model, [0, 1], [1.0, 2.0]).tolist()
    [5.0, 5.0]
    """
    now, sites = np.asarray(rates, dtype=np.float64), np.asarray(site_of_fragment, dtype=np.int64)
    capacity = model.site_capacity_left(sites)
    if model.is_wide and not model.definitions:
        loads = np.asarray(model.sparse_site_coefficients(sites) @ model.variable_values(now))
        return largest_multiples(
            lambda factors: (factors * loads)[:, None], len(capacity), capacity[:, None], linear=True
        )
    coefficients = model.site_coefficients(sites)

    def loads_at(factors: Floats) -> Floats:
        values = model.variable_values(factors[:, None] * now)
        return np.asarray((values * coefficients).sum(axis=1)[:, None])

    return largest_multiples(loads_at, len(capacity), capacity[:, None], linear=not model.definitions)


def sparse_growths(model: LoadModel, sites: Ints, now: Floats) -> list[Growth]:
    """First all streams, then each alone: linear loads by what is loaded only, others some rays at a time."""
    rows, capacity = model.sparse_site_coefficients(sites), model.site_capacity_left(sites)
    one = np.ones((1, len(now)), dtype=bool)
    found = dense_growths(model, rows, capacity, now, one, np.array([True]))
    if not model.definitions:
        return found + _each_linear(csc_array(rows[:, : len(now)]), capacity, now)
    at_a_time = max(MOST_RAY_CELLS // max(len(model.variables), model.site_count), 1)
    for begin in range(0, len(now), at_a_time):
        grows = np.zeros((min(at_a_time, len(now) - begin), len(now)), dtype=bool)
        own = np.arange(begin, begin + len(grows))
        grows[np.arange(len(grows)), own] = True
        found += dense_growths(model, rows, capacity, now, grows, now[own] > 0.0)
    return found


def _each_linear(columns: csc_array, capacity: Floats, now: Floats) -> list[Growth]:
    """Each stream alone, from the sites that it loads and from those that are too full without it."""
    load = np.asarray(columns @ now).ravel()
    slack = capacity - load
    fullest = int(slack.argmin())
    over = np.flatnonzero(slack < 0.0)
    found = []
    for k, (begin, end) in enumerate(pairwise(columns.indptr.tolist())):
        loaded, growth = columns.indices[begin:end], columns.data[begin:end] * now[k]
        loaded, growth = loaded[growth > 0.0], growth[growth > 0.0]
        if not len(loaded) or not now[k] > 0.0:
            found.append(_unmoved(now[k] > 0.0 and bool(len(over)), fullest))
            continue
        # Without the stream itself; what a site has too little of for the others, no factor mends.
        room = slack[loaded] + growth
        if len(over) > (slack[loaded] < 0.0).sum() or (room < 0.0).any():
            left = slack.copy()
            left[loaded] = room
            found.append(Growth(0.0, int(left.argmin())))
            continue
        factors = room / growth
        nearest = loaded[factors == factors.min()]
        found.append(Growth(float(factors.min()), int(nearest.min())))
    return found


def _unmoved(is_over: bool, fullest: int) -> Growth:
    """Of a stream that loads nothing."""
    return Growth(0.0, fullest) if is_over else Growth(float("inf"), None)


def _growths(
    model: LoadModel, site_of_fragment: npt.ArrayLike, now: Floats, grows: Bools, scalable: Bools
) -> list[Growth]:
    """One per row of `grows`, which says of each stream whether it grows along that ray."""
    sites = np.asarray(site_of_fragment, dtype=np.int64)
    coefficients = model.site_coefficients(sites)
    capacity = model.site_capacity_left(sites)
    return dense_growths(model, coefficients, capacity, now, grows, scalable)


def dense_growths(
    model: LoadModel,
    coefficients: Floats | csr_array,
    capacity: Floats,
    now: Floats,
    grows: Bools,
    scalable: Bools,
) -> list[Growth]:
    """Rays x sites at a time. `coefficients`: sites x variables."""

    def loads_at(factors: Floats) -> Floats:
        values = model.variable_values(np.where(grows, factors[:, None] * now, now))
        return np.asarray((coefficients @ values.T).T if issparse(coefficients) else values @ coefficients.T)

    factors = largest_multiples(loads_at, len(grows), capacity, linear=not model.definitions)
    slack = capacity - loads_at(np.where(np.isfinite(factors), factors, 0.0))
    moving = loads_at(np.ones(len(grows))) > loads_at(np.zeros(len(grows)))
    # A site at its edge whose load does not move along the ray is not what limits it, unless it is
    # overloaded.
    limiting = np.where(moving | (slack < 0.0), slack, np.inf).argmin(axis=1)
    return [
        Growth(float(factor), int(site)) if can and np.isfinite(factor) else Growth(float("inf"), None)
        for factor, site, can in zip(factors, limiting, scalable, strict=True)
    ]
