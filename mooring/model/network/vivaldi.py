"""Vivaldi (Dabek et al., SIGCOMM 2004): every node finds its coordinate by measuring a few others.

Each measurement is a spring between two nodes whose rest length is the measured latency; the node moves a
small way along the force. How far depends on whose coordinate is less certain: a node that joins moves fast,
and does not drag along those with certain coordinates. `VivaldiClient` is one node's part; `embedding.py`
runs thousands of nodes at once for planning and experiments.

Deployed systems were poisoned by samples that cannot be (NaN, zero, negative, absurd) from themselves or
others. They are refused and counted by reason; nothing of them reaches the coordinate.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from mooring.errors import InputError
from mooring.model.network.coordinate import Coordinate
from mooring.model.network.latency_filter import FilterParams, LatencyFilter


@dataclass(frozen=True)
class VivaldiParams:
    dimensions: int = 3
    """Latency dimensions (section 3.1.1 of the SBON paper)."""
    height: bool = True
    """Whether coordinates have a height (Vivaldi, section 5.4)."""
    error_gain: float = 0.25
    """c_e: how much a sample moves the running error (Vivaldi, section 3.4)."""
    position_gain: float = 0.25
    """c_c: the largest part of the way to its rest position a node moves per sample (Vivaldi, section
    3.4)."""
    least_height_ms: float = 0.01
    """Heights stay positive, or a node could not leave the plane again."""
    least_latency_ms: float = 0.001
    """A measurement below this is not one: no two machines are closer."""
    largest_latency_ms: float = 60_000.0
    """A measurement above this is a stopped clock or a lie; twenty times the largest in the PlanetLab
    data."""
    largest_error: float = 2.0
    """The running error never grows beyond this, so that no single sample can freeze a node out."""
    filter: FilterParams = field(default_factory=FilterParams)

    def __post_init__(self) -> None:
        if self.dimensions < 1:
            raise InputError(f"is {self.dimensions}, expected at least 1", field="dimensions")
        for name in ("error_gain", "position_gain"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise InputError(f"is {getattr(self, name)}, expected above 0 and at most 1", field=name)
        if not 0.0 < self.least_latency_ms < self.largest_latency_ms < math.inf:
            raise InputError("the least latency must be below the largest", field="least_latency_ms")

    def refused(self, latency_ms: float) -> str | None:
        """Why a measurement is not used; None if it is."""
        if math.isnan(latency_ms):
            return "latency is not a number"
        if latency_ms < 0.0:
            return "latency is negative"
        if latency_ms < self.least_latency_ms:
            return "latency is zero"
        return (
            "latency is above the largest plausible value" if latency_ms > self.largest_latency_ms else None
        )


class VivaldiClient:
    """One node: its coordinate, a filter per link, and what it refused."""

    def __init__(self, rng: np.random.Generator, params: VivaldiParams | None = None) -> None:
        self.params = params or VivaldiParams()
        near_origin = tuple((rng.random(self.params.dimensions) - 0.5).tolist())
        height = self.params.least_height_ms if self.params.height else 0.0
        self.coordinate = Coordinate(near_origin, height)
        self.refused: Counter[str] = Counter()
        """Samples not used, by reason."""
        self._filters: dict[int, LatencyFilter] = {}
        self._rng = rng

    def observe(self, peer: int, sample_ms: float, theirs: Coordinate) -> Coordinate:
        """A measurement to a peer, with the coordinate it reported. Returns this node's new coordinate."""
        why = self.params.refused(sample_ms)
        if (
            why is None
            and theirs.unusable(self.params.dimensions, self.params.largest_latency_ms) is not None
        ):
            why = "coordinate is impossible"
        if why is not None:
            self.refused[why] += 1
            return self.coordinate
        link = self._filters.setdefault(peer, LatencyFilter(self.params.filter))
        self.coordinate = self._moved(theirs, link.add(sample_ms))
        return self.coordinate

    def resume(self, coordinate: Coordinate) -> None:
        """Go on from where this node was before it stopped, if that can be a place at all."""
        if coordinate.unusable(self.params.dimensions, self.params.largest_latency_ms) is None:
            self.coordinate = coordinate

    def latency_ms(self, peer: int) -> float | None:
        """The filtered latency to a peer as measured; None if it never was."""
        link = self._filters.get(peer)
        return None if link is None else link.value

    def forget(self, peer: int) -> None:
        """The peer left; when it comes back, its old samples mean nothing."""
        self._filters.pop(peer, None)

    def _moved(self, theirs: Coordinate, latency_ms: float) -> Coordinate:
        params, mine = self.params, self.coordinate
        predicted = mine.latency_ms(theirs)
        total_error = mine.error + theirs.error
        weight = mine.error / total_error if total_error > 0.0 else 0.5
        sample_error = abs(predicted - latency_ms) / latency_ms
        gain = params.error_gain * weight
        error = min(sample_error * gain + mine.error * (1.0 - gain), params.largest_error)
        force = params.position_gain * weight * (latency_ms - predicted)
        apart = np.subtract(mine.position_ms, theirs.position_ms)
        length = float(np.linalg.norm(apart))
        if length < 1e-9:  # on the same spot, any direction will do
            apart = self._rng.standard_normal(params.dimensions)
            length = float(np.linalg.norm(apart))
        heights = mine.height_ms + theirs.height_ms
        scale = force / (length + heights)
        position = tuple((np.asarray(mine.position_ms) + apart * scale).tolist())
        height = max(mine.height_ms + heights * scale, params.least_height_ms) if params.height else 0.0
        return Coordinate(position, height, error)
