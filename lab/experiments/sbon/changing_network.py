"""Networks that change: measured latencies replayed, with route changes and load injected.

A `Weather` says for every round what latencies really are, what a measurement shows, and how loaded every
node is. A loaded node holds every tuple that passes an operator there for a while.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.networks.measured_series import planetlab_series, seattle_series
from mooring.arrays import Floats
from mooring.model.network.latency_filter import low_percentile

FULL_LOAD_DELAY_MS = 40.0
"""What a node at load 1/2 adds to a tuple's way, growing as load / (1 - load)."""


@dataclass(frozen=True, eq=False)
class Weather:
    latency_ms: Floats
    """Rounds x nodes x nodes: one-way latencies."""
    sample_ms: Floats
    """The same as measurements show them: noisy, some of them impossible."""
    load: Floats
    """Rounds x nodes: share of the node in use, below 1."""

    @property
    def rounds(self) -> int:
        return len(self.latency_ms)

    def delay_ms(self, now: int) -> Floats:
        """Per node: what it adds to the way of a tuple through an operator there."""
        return np.asarray(FULL_LOAD_DELAY_MS * self.load[now] / (1.0 - self.load[now]))


def planetlab_weather(rng: np.random.Generator, rounds_per_slice: int = 6, route_changes: int = 8) -> Weather:
    """18 PlanetLab measurements of 130 nodes replayed, with routes that change for a while, and load."""
    slices = planetlab_series() / 2.0
    latency = np.repeat(slices, rounds_per_slice, axis=0)
    rounds, nodes = latency.shape[:2]
    for _ in range(route_changes):
        begin = int(rng.integers(0, rounds - rounds // 6))
        end = begin + int(rng.integers(rounds // 6, rounds // 2))
        centre = int(rng.integers(nodes))
        region = np.zeros(nodes, dtype=bool)
        region[np.argsort(slices[0, centre])[: int(rng.integers(nodes // 10, nodes // 4))]] = True
        crossing = region[:, None] != region[None, :]
        latency[begin:end] += crossing * (20.0 + 80.0 * rng.random())
    noise = 1.0 + rng.exponential(0.1, latency.shape) + 5.0 * (rng.random(latency.shape) < 0.03)
    return Weather(latency, latency * noise, _load(rng, rounds, nodes))


def seattle_weather(window: int = 15) -> Weather:
    """200 Seattle measurements of 40 nodes: samples as measured, latencies their running baseline, no
    load."""
    raw = seattle_series() / 2.0
    rounds, nodes = raw.shape[:2]
    overall = low_percentile(raw, 30.0)
    overall = np.where(np.isnan(overall), np.nanmedian(overall), overall)  # links that were never measured
    baseline = np.empty_like(raw)
    for now in range(rounds):
        some = raw[max(0, now - window) : now + window + 1]
        enough = np.sum(some > 0.0, axis=0) >= 3
        baseline[now] = np.where(enough, low_percentile(some, 30.0), overall)
    baseline = (baseline + baseline.transpose(0, 2, 1)) / 2.0
    baseline[:, np.arange(nodes), np.arange(nodes)] = 0.0
    return Weather(baseline, raw, np.zeros((rounds, nodes)))


def _load(rng: np.random.Generator, rounds: int, nodes: int) -> Floats:
    """Most nodes are little loaded, some are busy for hours: a slow random walk between two states."""
    busy = rng.random(nodes) < 0.25
    load = np.empty((rounds, nodes))
    level = np.where(busy, 0.75, 0.15)
    for now in range(rounds):
        change = rng.random(nodes) < 0.01
        busy = np.where(change, rng.random(nodes) < 0.25, busy)
        level = level + 0.3 * (np.where(busy, 0.75, 0.15) - level) + 0.03 * rng.standard_normal(nodes)
        load[now] = level
    return np.clip(load, 0.0, 0.9)
