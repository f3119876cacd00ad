"""One trace cut into sub-streams by source address, as in section 7.3.5 of the ROD paper.

Each sub-stream has the same number of addresses, not of packets: their rates differ and move independently,
which is why cutting the data evenly does not balance the load.
"""

from __future__ import annotations

import numpy as np

from mooring.arrays import Floats, Ints32
from mooring.errors import InputError
from mooring.traces.packets import DEFAULT_PARAMS, PacketParams, draw_packets


def substream_of(source: Ints32, substreams: int) -> Ints32:
    """The sub-stream of each address. Addresses carry no order, so the remainder deals them evenly."""
    if substreams < 1:
        raise InputError(f"is {substreams}, expected at least 1", field="substreams")
    return source % np.int32(substreams)


def split(
    instants_s: Floats,
    seed: int | np.random.Generator,
    substreams: int = 10,
    params: PacketParams = DEFAULT_PARAMS,
) -> list[Floats]:
    """The arrival instants of each sub-stream, of packets drawn for these instants.

    >>> parts = split(np.arange(0, 60, 0.01), seed=7)
    >>> len(parts), sum(part.size for part in parts)
    (10, 6000)
    """
    packets = draw_packets(instants_s, seed, params)
    part = substream_of(packets.source, substreams)
    order = np.argsort(part, kind="stable")
    edges = np.searchsorted(part[order], np.arange(1, substreams))
    return np.split(packets.instant_s[order], edges)
