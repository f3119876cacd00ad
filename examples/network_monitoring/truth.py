"""The packets of the demo, and what every query must answer about them, worked out with numpy alone.

The instants are real (an extract of the Bellcore trace BC-pAug89 that ships with Mooring). The trace kept
nothing else, so addresses and sizes are drawn from the simulator's documented model
(`mooring.traces.packets`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.traces.packets import draw_packets
from mooring.traces.read import arrival_instants
from mooring.traces.substreams import substream_of

SITES = ("berlin", "oslo", "porto")
EPOCH_S = 620_352_000
"""29 August 1989, the day of the trace, at midnight UTC."""

Row = tuple[int, ...]
Rows = set[Row]


@dataclass(frozen=True)
class Traffic:
    at_us: NDArray[np.int64]
    source: NDArray[np.int32]
    destination: NDArray[np.int32]
    size_bytes: NDArray[np.int32]
    part: NDArray[np.int32]
    """Sub-stream, an index into SITES."""

    def of(self, chosen: NDArray[np.bool_]) -> Traffic:
        return Traffic(*(column[chosen] for column in vars(self).values()))


@dataclass(frozen=True)
class Burst:
    """A flood on one sub-stream: between two seconds of the trace each of its packets comes `times` times."""

    from_s: float
    to_s: float
    part: int
    times: int

    def on(self, traffic: Traffic) -> Traffic:
        since_s = traffic.at_us / 1e6 - EPOCH_S
        flooded = (since_s >= self.from_s) & (since_s < self.to_s) & (traffic.part == self.part)
        times = np.where(flooded, self.times, 1)
        return Traffic(*(np.repeat(column, times) for column in vars(traffic).values()))


def demo_traffic(seconds: float = 600.0, seed: int = 0, burst: Burst | None = None) -> Traffic:
    instants_s = arrival_instants("bc-paug89-extract")
    packets = draw_packets(instants_s[instants_s < seconds], seed)
    at_us = EPOCH_S * 1_000_000 + np.round(packets.instant_s * 1e6).astype(np.int64)
    part = substream_of(packets.source, len(SITES))
    traffic = Traffic(at_us, packets.source, packets.destination, packets.size_bytes, part)
    return traffic if burst is None else burst.on(traffic)


def expected_rows(traffic: Traffic) -> dict[str, Rows]:
    """Per query, rows of (window start in microseconds, keys..., packets, bytes)."""
    by_part = [traffic.of(traffic.part == part) for part in range(len(SITES))]
    seconds = _tumbling(by_part[0], 1, ("source",))
    return {
        "source_seconds": seconds,
        "busy_sources": {row for row in seconds if row[-2] >= 20},
        "pair_seconds": _tumbling(by_part[1], 1, ("source", "destination")),
        "source_sliding": _sliding(by_part[2], 60, 10, ("source",)),
        "source_minutes": _tumbling(traffic, 60, ("source",)),
        "pair_minutes": _tumbling(traffic, 60, ("source", "destination")),
        "totals": _tumbling(traffic, 1, ()),
    }


def _tumbling(traffic: Traffic, window_s: int, keys: tuple[str, ...]) -> Rows:
    return _sliding(traffic, window_s, window_s, keys)


def _sliding(traffic: Traffic, window_s: int, slide_s: int, keys: tuple[str, ...]) -> Rows:
    slide_us = slide_s * 1_000_000
    newest = traffic.at_us // slide_us * slide_us
    starts = np.concatenate([newest - back * slide_us for back in range(window_s // slide_s)])
    copies = window_s // slide_s
    columns = [starts // slide_us, *(np.tile(getattr(traffic, key).astype(np.int64), copies) for key in keys)]
    # One number per group, so that sorting is of plain integers.
    lows, sizes = [int(c.min()) for c in columns], [int(np.ptp(c)) + 1 for c in columns]
    codes = np.ravel_multi_index([c - low for c, low in zip(columns, lows, strict=True)], sizes)
    groups, group = np.unique(codes, return_inverse=True)
    parts = [c + low for c, low in zip(np.unravel_index(groups, sizes), lows, strict=True)]
    packets = np.bincount(group)
    total = np.bincount(group, weights=np.tile(traffic.size_bytes, copies)).astype(np.int64)
    rows = zip(parts[0] * slide_us, *parts[1:], packets, total, strict=True)
    return {tuple(map(int, row)) for row in rows}
