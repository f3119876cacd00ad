"""Arcs seen from the fragments: who is at the other end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mooring.arrays import Ints
from mooring.model.load.model import LoadModel


class Adjacency(NamedTuple):
    """The ends of fragment j's arcs are at positions start[j] to start[j + 1] of the other arrays."""

    start: Ints
    neighbour: Ints
    """The fragment at the other end; -1: a stream or a query, at a fixed site."""
    fixed_end: Ints
    """The site of that stream or query; -1 elsewhere."""
    arc: Ints
    """Index into the model's arcs."""


def adjacency(model: LoadModel) -> Adjacency:
    """Every arc once from each of its ends that is a fragment."""
    arcs = model.arcs
    own = np.concatenate([arcs.source_fragment, arcs.target_fragment])
    other = np.concatenate([arcs.target_fragment, arcs.source_fragment])
    fixed_end = np.concatenate([arcs.target_site, arcs.source_site])
    arc = np.tile(np.arange(len(arcs.source_fragment)), 2)
    by_owner = np.argsort(own, kind="stable")
    by_owner = by_owner[own[by_owner] >= 0]
    start = np.zeros(model.fragment_count + 1, np.int64)
    np.cumsum(np.bincount(own[by_owner], minlength=model.fragment_count), out=start[1:])
    return Adjacency(start, other[by_owner], fixed_end[by_owner], arc[by_owner])
