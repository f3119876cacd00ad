"""Chains of two moves: a fragment makes room at a site by leaving it, and one of the fullest site takes that.

Where every site with room has room in pieces, the fragment that would help fits nowhere until something
leaves first.
"""

from __future__ import annotations

import numpy as np

from mooring.algorithms.headroom.swaps import growth_factor
from mooring.arrays import Ints
from mooring.contracts.picture import Picture

_MOST_LEAVING = 16
"""Fragments of the full site that are looked at, the largest first."""
_MOST_THROUGH = 24
"""Sites through which chains lead, and to which, those with most room first."""


def best_chain(
    picture: Picture, sites: Ints, full: int, wanted: float
) -> tuple[float, tuple[int, int, int]] | None:
    """A fragment elsewhere, the site it goes to, and the fragment of the full site that takes its place: all
    three sites have most room then, and as much as is wanted; and how much that is.
    """
    model, own = picture.model, picture.loads_cores
    leaving = np.flatnonzero(picture.movable & (sites == full))
    leaving = leaving[np.argsort(-own[leaving], kind="stable")][:_MOST_LEAVING]
    growing = np.bincount(sites, own, model.site_count)
    room, used_mb = (
        model.site_capacity_left(sites),
        np.bincount(sites, model.memory_mb, model.site_count),
    )
    spare = np.where(picture.lost, -np.inf, room - growing)
    spare[full] = -np.inf
    open_sites = np.argsort(-spare, kind="stable")[:_MOST_THROUGH]
    open_sites = open_sites[np.isfinite(spare[open_sites])]
    making_room = np.flatnonzero(picture.movable & np.isin(sites, open_sites))
    if not len(leaving) or not len(making_room) or len(open_sites) < 2:
        return None
    there = sites[making_room]
    load, fixed, memory_mb = own[making_room], model.fixed_cores[making_room], model.memory_mb[making_room]
    # Where what makes room goes to: fragments x sites, whichever fragment follows it.
    onward = growth_factor(
        room[open_sites][None, :] - fixed[:, None], growing[open_sites][None, :] + load[:, None]
    )
    fits = used_mb[open_sites][None, :] + memory_mb[:, None] <= model.memory_limit_mb[open_sites][None, :]
    onward = np.where(fits & (open_sites[None, :] != there[:, None]), onward, -np.inf)
    best_onward = np.argmax(onward, axis=1)
    onward_factor = onward[np.arange(len(making_room)), best_onward]
    found: tuple[float, tuple[int, int, int]] | None = None
    for fragment in leaving.tolist():
        here = growth_factor(
            np.asarray(room[full] + model.fixed_cores[fragment]), np.asarray(growing[full] - own[fragment])
        )
        taken = growth_factor(
            room[there] + fixed - model.fixed_cores[fragment], growing[there] - load + own[fragment]
        )
        enough_mb = used_mb[there] - memory_mb + model.memory_mb[fragment] <= model.memory_limit_mb[there]
        after = np.minimum(np.minimum(taken, onward_factor), float(here))
        after = np.where(enough_mb, after, -np.inf)
        row = int(np.argmax(after))
        if after[row] >= max(wanted, 1e-12) and (found is None or after[row] > found[0]):
            to = int(open_sites[best_onward[row]])
            found = float(after[row]), (int(making_room[row]), to, fragment)
    return found
