"""Any stretch of the packets that `draw_packets` draws, without drawing those before it.

That lets many workers draw one trace's packets side by side and get exactly what one would. It works because
the model takes one number from the generator per packet (does it begin a train?) and then one per train
(which session?), so the generator can be advanced to where a stretch's numbers lie. What remains to be known
about the packets before is small: how many trains they began, and when the last of those began.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mooring.arrays import Bools, Floats, Ints32
from mooring.traces.packets import DEFAULT_PARAMS, PacketParams
from mooring.traces.sessions import Sessions, draw_sessions


@dataclass(frozen=True, eq=False)
class PacketDraws:
    """The draws for a trace of `count` packets."""

    count: int
    train: float
    sessions: Sessions
    state: Any
    """Of the bit generator once the sessions are drawn."""

    @classmethod
    def of(cls, seed: int, span_s: float, count: int, params: PacketParams = DEFAULT_PARAMS) -> PacketDraws:
        """`span_s` from the first packet to the last."""
        generator = np.random.default_rng(seed)
        sessions = draw_sessions(span_s, generator, params.sessions)
        return cls(count, params.train, sessions, generator.bit_generator.state)

    def starts(self, first: int, length: int) -> Bools:
        """Which of the packets `first`, `first + 1`, ... begin a train."""
        starts = self._generator(first).random(length) < 1 / self.train
        if first == 0 and length:
            starts[0] = True
        return starts

    def sources(self, since_first_s: Floats, first: int, trains_before: int, last_start_s: float) -> Ints32:
        """Source addresses of the packets from `first` on, whose instants (counted from the trace's first
        packet) are given. `trains_before` trains began before, the last of them at `last_start_s`.
        """
        starts = self.starts(first, since_first_s.size)
        # The stretch may open in the middle of a train, whose session was picked when the train began.
        carried = int(starts.size > 0 and not starts[0])
        picked_at_s = np.concatenate([[last_start_s][:carried], since_first_s[starts]])
        session = self.sessions.pick(picked_at_s, self._generator(self.count + trains_before - carried))
        return np.asarray(self.sessions.source[session[np.cumsum(starts) - 1 + carried]], dtype=np.int32)

    def _generator(self, numbers_taken: int) -> np.random.Generator:
        bits = np.random.PCG64()
        bits.state = self.state
        return np.random.Generator(bits.advance(numbers_taken))
