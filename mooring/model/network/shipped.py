"""The measured latencies that come with Mooring, so that examples work in a bare clone.

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
        matrix = symmetric(archive["ticks"], float(archive["tick_ms"]), 490)
    return RoundTrips(tuple(f"n{i}" for i in range(490)), matrix)


def symmetric(upper: Counts16, tick_ms: float, nodes: int) -> Floats:
    """Of the upper triangle in whole ticks."""
    matrix = np.zeros((nodes, nodes))
    matrix[np.triu_indices(nodes, 1)] = upper * tick_ms
    return matrix + matrix.T
