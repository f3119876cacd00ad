"""Measured latencies as they changed, which experiments replay. `data/SOURCE.md` says where each comes from,
and under which terms.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mooring.arrays import Floats
from mooring.model.network.shipped import symmetric

DATA = Path(__file__).parent / "data"


def planetlab_series() -> Floats:
    """18 times x 130 nodes x 130 nodes of PlanetLab: round-trip times as they changed."""
    with np.load(DATA / "planetlab-series.npz", allow_pickle=False) as archive:
        tick_ms, ticks = float(archive["tick_ms"]), archive["ticks"]
    return np.stack([symmetric(each, tick_ms, 130) for each in ticks])


def seattle_series() -> Floats:
    """200 times x 40 nodes x 40 nodes: noisy, asymmetric round-trip times between home computers, as
    measured."""
    with np.load(DATA / "seattle-series.npz", allow_pickle=False) as archive:
        return np.asarray(archive["ticks"].astype(np.float64) * float(archive["tick_ms"]))
