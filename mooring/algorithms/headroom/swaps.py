"""The headroom of each site, and swaps of two fragments.

Where every other site is well used, a large fragment fits nowhere, but may take the place of a smaller one.
"""

from __future__ import annotations

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.contracts.picture import Picture

_MOST_TRIED = 32
"""Fragments of the full site that are looked at, the largest first."""


def site_factors(picture: Picture, sites: Ints) -> Floats:
    """Per site, by which all rates can grow; where loads are not linear, as if they were."""
    model = picture.model
    loads = np.asarray(model.site_coefficients(sites) @ model.present)
    return growth_factor(model.site_capacity_left(sites), loads)


def growth_factor(room: Floats, load: Floats) -> Floats:
    """By which a load can grow into the room there is for it; zero where there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(room < 0.0, 0.0, np.where(load > 1e-15, room / load, np.inf))


def best_swap(
    picture: Picture, sites: Ints, full: int, wanted: float
) -> tuple[float, tuple[int, int]] | None:
    """A fragment of the full site and one elsewhere: with their places changed both sites have most room, and
    as much as is wanted; and how much that is.
    """
    model, own = picture.model, picture.loads_cores
    leaving = np.flatnonzero(picture.movable & (sites == full))
    leaving = leaving[np.argsort(-own[leaving], kind="stable")][:_MOST_TRIED]
    coming = np.flatnonzero(picture.movable & (sites != full))
    if not len(leaving) or not len(coming):
        return None
    fixed, memory_mb = model.fixed_cores, model.memory_mb
    growing = np.bincount(sites, own, model.site_count)
    room, used_mb = model.site_capacity_left(sites), np.bincount(sites, memory_mb, model.site_count)
    there = sites[coming]
    more = own[leaving][:, None] - own[coming][None, :]
    more_fixed = fixed[leaving][:, None] - fixed[coming][None, :]
    more_mb = memory_mb[leaving][:, None] - memory_mb[coming][None, :]
    after = np.minimum(
        growth_factor(room[full] + more_fixed, growing[full] - more),
        growth_factor(room[there][None, :] - more_fixed, growing[there][None, :] + more),
    )
    fits = (used_mb[there][None, :] + more_mb <= model.memory_limit_mb[there][None, :]) & (
        used_mb[full] - more_mb <= model.memory_limit_mb[full]
    )
    after = np.where(fits & (more > 0.0), after, -np.inf)
    row, column = np.unravel_index(int(np.argmax(after)), after.shape)
    if after[row, column] < max(wanted, 1e-12):
        return None
    return float(after[row, column]), (int(leaving[row]), int(coming[column]))
