"""The measured latencies that come with Mooring, so that examples and experiments work in a bare clone.

`data/SOURCE.md` says where each comes from and under which terms. Matrices are kept as whole ticks: the upper
triangle where they are symmetric.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from mooring.arrays import Counts16, Floats
from mooring.model.network.round_trips import RoundTrips

DATA = Path(__file__).parent / "data"


def aws_regions() -> RoundTrips:
    """19 AWS regions, mean ping times of 5 June 2020."""
    with (DATA / "aws-2020-06-05.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    return RoundTrips(tuple(rows[0][1:]), np.array([row[1:] for row in rows[1:]], dtype=np.float64))


def planetlab() -> RoundTrips:
    """490 PlanetLab nodes, the median of 18 measurements of every pair."""
    with np.load(DATA / "planetlab-median.npz", allow_pickle=False) as archive:
        matrix = _symmetric(archive["ticks"], float(archive["tick_ms"]), 490)
    return RoundTrips(tuple(f"n{i}" for i in range(490)), matrix)


def planetlab_series() -> Floats:
    """18 times x 130 nodes x 130 nodes of the same data: round-trip times as they changed."""
    with np.load(DATA / "planetlab-series.npz", allow_pickle=False) as archive:
        tick_ms, ticks = float(archive["tick_ms"]), archive["ticks"]
    return np.stack([_symmetric(each, tick_ms, 130) for each in ticks])


def seattle_series() -> Floats:
    """200 times x 40 nodes x 40 nodes: noisy, asymmetric round-trip times between home computers, as
    measured."""
    with np.load(DATA / "seattle-series.npz", allow_pickle=False) as archive:
        return np.asarray(archive["ticks"].astype(np.float64) * float(archive["tick_ms"]))


def _symmetric(upper: Counts16, tick_ms: float, nodes: int) -> Floats:
    matrix = np.zeros((nodes, nodes))
    matrix[np.triu_indices(nodes, 1)] = upper * tick_ms
    return matrix + matrix.T
