"""Arrival processes, each an endless or finite sequence of instants made chunk by chunk.

Nothing here is per event: a chunk is a few thousand instants from one numpy call, so memory stays bounded
however long the run. Rates are tuples per second, instants seconds of virtual time, in increasing order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from mooring.arrays import Floats
from mooring.errors import InputError

CHUNK = 4096


class Arrivals(Protocol):
    """An arrival process."""

    def chunks(self, rng: np.random.Generator) -> Iterator[Floats]:
        """Instants in increasing order; the process ends where the iterator does."""
        ...

    def scaled(self, multiplier: float) -> Arrivals:
        """The same process at `multiplier` times the rate."""
        ...


def _check_rate(rate: float) -> None:
    if not (np.isfinite(rate) and rate >= 0):
        raise InputError(f"found an arrival rate of {rate!r}, expected tuples per second >= 0")


@dataclass(frozen=True)
class Constant:
    """Evenly spaced; the first instant is drawn within one spacing, so that equal sources do not march in
    step.
    """

    rate: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)

    def chunks(self, rng: np.random.Generator) -> Iterator[Floats]:
        phase, start = rng.random(), 0
        while self.rate > 0:
            yield (np.arange(start, start + CHUNK, dtype=np.float64) + phase) / self.rate
            start += CHUNK

    def scaled(self, multiplier: float) -> Constant:
        return replace(self, rate=self.rate * multiplier)


@dataclass(frozen=True)
class Renewal:
    """Independent gaps with a given squared coefficient of variation.

    0 < scv < 1: gamma; 1: exponential (Poisson arrivals); above 1: hyperexponential with balanced means.
    """

    rate: float
    scv: float = 1.0

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not self.scv > 0:
            raise InputError(
                f"scv {self.scv!r} of a renewal process: expected > 0", remedy="use constant arrivals"
            )

    def chunks(self, rng: np.random.Generator) -> Iterator[Floats]:
        now = 0.0
        while self.rate > 0:
            instants = now + np.cumsum(self._gaps(rng)) / self.rate
            now = float(instants[-1])
            yield instants

    def _gaps(self, rng: np.random.Generator) -> Floats:
        if self.scv < 1:
            return rng.gamma(1 / self.scv, self.scv, CHUNK)
        gaps = rng.standard_exponential(CHUNK)
        if self.scv > 1:
            p, mean_1, mean_2 = balanced_means(self.scv)
            gaps *= np.where(rng.random(CHUNK) < p, mean_1, mean_2)
        return gaps

    def scaled(self, multiplier: float) -> Renewal:
        return replace(self, rate=self.rate * multiplier)


def Poisson(rate: float) -> Renewal:
    """Poisson arrivals: the renewal process whose gaps are exponential."""
    return Renewal(rate)


def balanced_means(scv: float) -> tuple[float, float, float]:
    """(p, mean 1, mean 2) of the two-phase hyperexponential of mean one whose phases carry equal load."""
    p = (1 + np.sqrt((scv - 1) / (scv + 1))) / 2
    return float(p), float(0.5 / p), float(0.5 / (1 - p))


@dataclass(frozen=True)
class OnOff:
    """Bursts: Poisson while on, silent while off, both for exponential times; `rate` is the long-run mean."""

    rate: float
    on_s: float = 1.0
    off_s: float = 1.0

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not (self.on_s > 0 and self.off_s >= 0):
            raise InputError(
                f"on-off arrivals with on_s={self.on_s!r}, off_s={self.off_s!r}: expected > 0 and >= 0"
            )

    def chunks(self, rng: np.random.Generator) -> Iterator[Floats]:
        peak = self.rate * (self.on_s + self.off_s) / self.on_s
        on = bool(rng.random() * (self.on_s + self.off_s) < self.on_s)
        now, phases = 0.0, 256
        while self.rate > 0:
            is_on = (np.arange(phases) % 2 == 0) == on
            lengths = rng.standard_exponential(phases) * np.where(is_on, self.on_s, self.off_s)
            edges = now + np.concatenate(([0.0], np.cumsum(lengths)))
            yield from _poisson_pieces(rng, edges, np.where(is_on, peak, 0.0))
            now = float(edges[-1])

    def scaled(self, multiplier: float) -> OnOff:
        return replace(self, rate=self.rate * multiplier)


@dataclass(frozen=True)
class SelfSimilar:
    """Poisson arrivals whose rate is a sum of on-off sources with Pareto periods (Willinger and others 1997).

    With tail exponent 3 - 2H the counts are asymptotically self-similar with Hurst parameter H.
    """

    rate: float
    hurst: float = 0.8
    sources: int = 20
    period_s: float = 1.0  # mean length of an on or off period

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not 0.5 < self.hurst < 1:
            raise InputError(f"found a Hurst parameter of {self.hurst!r}, expected between 0.5 and 1")

    def chunks(self, rng: np.random.Generator) -> Iterator[Floats]:
        alpha = 3 - 2 * self.hurst
        shortest = self.period_s * (alpha - 1) / alpha
        ends = rng.random(self.sources) * shortest  # when each source's present period ends
        on = rng.random(self.sources) < 0.5
        peak = 2 * self.rate / self.sources
        now, slab_s = 0.0, max(CHUNK / max(self.rate, 1e-9), self.period_s)
        while self.rate > 0:
            times, steps = [np.array([now])], [np.array([peak * on.sum()])]
            for source in range(self.sources):
                while ends[source] < now + slab_s:
                    on[source] = not on[source]
                    times.append(ends[source : source + 1].copy())
                    steps.append(np.array([peak if on[source] else -peak]))
                    ends[source] += shortest * rng.random() ** (-1 / alpha)
            order = np.argsort(edges := np.concatenate(times), kind="stable")
            rates = np.maximum(np.cumsum(np.concatenate(steps)[order]), 0.0)
            yield from _poisson_pieces(rng, np.append(edges[order], now + slab_s), rates)
            now += slab_s

    def scaled(self, multiplier: float) -> SelfSimilar:
        return replace(self, rate=self.rate * multiplier)


@dataclass(frozen=True, eq=False)
class BinnedRates:
    """A rate series replayed: Poisson at `rates[k]` during bin k, ending (or starting over) after the last
    bin.
    """

    rates: Floats
    bin_s: float
    repeat: bool = False

    def __post_init__(self) -> None:
        if not (
            self.bin_s > 0 and len(self.rates) and np.all(np.isfinite(self.rates)) and np.min(self.rates) >= 0
        ):
            raise InputError("a rate series needs bins of more than 0 s and finite rates >= 0")

    def chunks(self, rng: np.random.Generator) -> Iterator[Floats]:
        start = 0.0
        while True:
            for first in range(0, len(self.rates), 256):
                rates = self.rates[first : first + 256]
                edges = start + (first + np.arange(len(rates) + 1, dtype=np.float64)) * self.bin_s
                yield from _poisson_pieces(rng, edges, rates)
            if not self.repeat or not np.any(self.rates > 0):
                return
            start += len(self.rates) * self.bin_s

    def scaled(self, multiplier: float) -> BinnedRates:
        return replace(self, rates=self.rates * multiplier)


@dataclass(frozen=True, eq=False)
class Replay:
    """Recorded arrival instants; a higher rate replays them faster. With `repeat`, starts over at the end."""

    instants: Floats
    repeat: bool = False

    def __post_init__(self) -> None:
        if len(self.instants) and (np.any(np.diff(self.instants) < 0) or self.instants[0] < 0):
            raise InputError("arrival instants must be >= 0 and in increasing order", remedy="sort the trace")

    def chunks(self, rng: np.random.Generator) -> Iterator[Floats]:
        start = 0.0
        length = float(self.instants[-1]) if len(self.instants) else 0.0
        while True:
            for first in range(0, len(self.instants), CHUNK):
                yield start + self.instants[first : first + CHUNK]
            if not self.repeat or length == 0.0:
                return
            start += length

    def scaled(self, multiplier: float) -> Replay:
        return replace(self, instants=self.instants / multiplier)


def _poisson_pieces(rng: np.random.Generator, edges: Floats, rates: Floats) -> Iterator[Floats]:
    """Poisson arrivals at `rates[k]` between `edges[k]` and `edges[k + 1]`, cut into chunks."""
    parts = np.maximum(np.ceil(rates * np.diff(edges) / CHUNK), 1).astype(np.int64)
    if parts.max(initial=1) > 1:  # no piece may hold more than about one chunk
        edges = np.interp(np.arange(parts.sum() + 1), np.concatenate(([0], np.cumsum(parts))), edges)
        rates = np.repeat(rates, parts)
    counts = rng.poisson(rates * np.diff(edges))
    first = 0
    while first < len(counts):
        # At least one piece, and as many more as fit a chunk.
        last = first + max(1, int(np.searchsorted(np.cumsum(counts[first:]), CHUNK)))
        piece = np.repeat(np.arange(first, last), counts[first:last])
        instants = edges[piece] + rng.random(len(piece)) * (edges[piece + 1] - edges[piece])
        yield np.sort(instants)
        first = last
