"""How far rates can grow before the state of fragments fills the memory of their site."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.model.load.model import LoadModel


@dataclass(frozen=True, eq=False)
class StateMemory:
    """As measured."""

    other_mb: Floats
    """Per site, what is in use there beside the state of fragments; infinite where that is not measured."""
    state_mb: Floats
    """Per fragment."""


def growth_by_memory(model: LoadModel, site_of_fragment: Ints, memory: StateMemory) -> Floats:
    """Per site, taking state to grow with the rates; infinite where no limit is stated, or nothing measured.

    >>> model = LoadModel.from_coefficients([[0.1], [0.1]], [1, 1], memory_limit_mb=[900, np.inf])
    >>> growth_by_memory(model, np.array([0, 1]), StateMemory(np.array([500, 500]), np.array([100, 100])))
    array([ 4., inf])
    """
    state_mb = np.bincount(site_of_fragment, memory.state_mb, model.site_count)
    known = np.isfinite(memory.other_mb) & np.isfinite(model.memory_limit_mb) & (state_mb > 0.0)
    growths = np.full(model.site_count, np.inf)
    room_mb = np.maximum(model.memory_limit_mb[known] - memory.other_mb[known], 0.0)
    growths[known] = room_mb / state_mb[known]
    return growths
