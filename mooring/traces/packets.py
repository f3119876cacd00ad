"""Addresses and sizes for traces that come without them: one seeded model, shared by everything that
replays a trace.

The published traces kept only instants. Packets are given to sessions (see `sessions`), in trains: runs of
consecutive packets of one session, as measured on local networks (Jain and Routhier 1986), with geometric
length. A packet's addresses are its session's. Its size comes from a mixture of three: packets with hardly
any data, full ones, and anything between; sizes are independent of each other and of the session.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mooring.arrays import Floats, Ints32
from mooring.errors import InputError
from mooring.traces.sessions import SessionParams, draw_sessions


@dataclass(frozen=True)
class PacketParams:
    """The sizes are Ethernet's limits with shares in round numbers, fitted to no trace."""

    sessions: SessionParams = field(default_factory=SessionParams)
    train: float = 4.0
    """Mean length of a train, in packets; 1 makes every packet choose its session anew."""
    smallest_bytes: int = 64
    """Ethernet's least frame: acknowledgements, keystrokes."""
    largest_bytes: int = 1518
    """Ethernet's largest frame: bulk transfer."""
    small_share: float = 0.4
    """Share of packets of the smallest size."""
    large_share: float = 0.25
    """Share of packets of the largest size; the rest is uniform between the two."""

    def __post_init__(self) -> None:
        if not 1 <= self.train < 1e6:
            raise InputError(f"is {self.train}, expected 1 or more packets", field="train")
        if not 0 < self.smallest_bytes <= self.largest_bytes < 2**31:
            raise InputError("sizes must be positive and in order", field="smallest_bytes")
        if min(self.small_share, self.large_share) < 0 or self.small_share + self.large_share > 1:
            raise InputError("shares must be zero or more and add up to at most 1", field="small_share")


@dataclass(frozen=True)
class Packets:
    """Parallel arrays, one entry per packet, in order of time."""

    instant_s: Floats
    source: Ints32
    """Addresses are whole numbers from zero; sources and destinations are numbered apart."""
    destination: Ints32
    size_bytes: Ints32


DEFAULT_PARAMS = PacketParams()


def draw_packets(
    instants_s: Floats, seed: int | np.random.Generator, params: PacketParams = DEFAULT_PARAMS
) -> Packets:
    """Packets at these instants, which must be in order. The same seed and instants give the same packets.

    >>> packets = draw_packets(np.arange(0, 60, 0.01), seed=7)
    >>> packets.source.size, int(packets.size_bytes.min()), int(packets.size_bytes.max())
    (6000, 64, 1518)
    """
    generator = np.random.default_rng(seed)
    instants_s = checked_instants(instants_s)
    count = instants_s.size
    if count == 0:
        none = np.zeros(0, dtype=np.int32)
        return Packets(instants_s, none, none, none)
    since_first_s = instants_s - instants_s[0]
    sessions = draw_sessions(float(since_first_s[-1]), generator, params.sessions)
    starts = generator.random(count) < 1 / params.train
    starts[0] = True
    train = np.cumsum(starts) - 1
    session = sessions.pick(since_first_s[starts], generator)[train]
    return Packets(
        instants_s, sessions.source[session], sessions.destination[session], _sizes(count, generator, params)
    )


def checked_instants(instants_s: Floats) -> Floats:
    """A vector of finite seconds in order, or an InputError that says where it is not."""
    instants_s = np.asarray(instants_s, dtype=np.float64)
    if instants_s.ndim != 1 or not np.isfinite(instants_s).all():
        raise InputError("arrival instants must be one vector of finite seconds", field="instants_s")
    back = np.flatnonzero(np.diff(instants_s) < 0)
    if back.size:
        raise InputError(
            f"the instants go back from {instants_s[back[0]]} to {instants_s[back[0] + 1]}",
            field=f"instants_s[{back[0] + 1}]",
            remedy="sort them",
        )
    return instants_s


def _sizes(count: int, generator: np.random.Generator, params: PacketParams) -> Ints32:
    kind = generator.random(count)
    sizes = generator.integers(params.smallest_bytes, params.largest_bytes + 1, count, dtype=np.int32)
    sizes[kind < params.small_share] = params.smallest_bytes
    sizes[kind >= 1 - params.large_share] = params.largest_bytes
    return sizes
