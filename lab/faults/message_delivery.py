"""What becomes of each message: the delays of its copies, none if it is lost.

The fate is a function of the seed, the link, and the time of sending. It is not drawn from a running
generator, because then leaving out one fault or message would change the fate of every later one, and
shrinking a schedule would be a search in the dark.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.faults.faults import Noise, Partition

_MASK = 2**64 - 1
_SCALE = 2.0**-64


def _mixed(x: int) -> int:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014): neighbours become unrelated."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    return x ^ (x >> 31)


class MessageFates:
    """Decides for one run; keeps the partitions and the noise that are on at present."""

    def __init__(self, seed: int, latency_ms: Sequence[Sequence[float]]) -> None:
        self._key = _mixed(seed & _MASK)
        self.latency_ms = latency_ms
        self._last_sent: dict[tuple[int, int], tuple[float, int]] = {}
        self._partitions: list[Partition] = []
        self._noise: list[Noise] = []

    def begin(self, fault: Partition | Noise) -> None:
        if isinstance(fault, Partition):
            self._partitions.append(fault)
        else:
            self._noise.append(fault)

    def end(self, fault: Partition | Noise) -> None:
        if isinstance(fault, Partition):
            self._partitions.remove(fault)
        else:
            self._noise.remove(fault)

    def delays_ms(self, sender: int, receiver: int, now_ms: float) -> Sequence[float]:
        """How long each copy of the message that is sent now takes."""
        latency_ms = self.latency_ms[sender][receiver]
        if sender == receiver:
            return (latency_ms,)
        for partition in self._partitions:
            if partition.cuts(sender, receiver):
                return ()
        if not self._noise:
            return (latency_ms,)
        return self._noisy(latency_ms, self._number(sender, receiver, now_ms))

    def _number(self, sender: int, receiver: int, now_ms: float) -> int:
        """Names the message: its link, its nanosecond, and which of those sent at that instant it is."""
        link = (sender, receiver)
        last_ms, count = self._last_sent.get(link, (-1.0, 0))
        count = count + 1 if last_ms == now_ms else 0
        self._last_sent[link] = (now_ms, count)
        return _mixed((sender << 32) + receiver) ^ _mixed((int(now_ms * 1e6) << 8) + count & _MASK)

    def _noisy(self, latency_ms: float, message: int) -> Sequence[float]:
        delays_ms = [latency_ms]
        for position, noise in enumerate(self._noise):
            key = _mixed(self._key ^ _mixed(message) ^ position)
            if noise.loss and _mixed(key + 1) * _SCALE < noise.loss:
                return ()
            if noise.duplicate and _mixed(key + 2) * _SCALE < noise.duplicate:
                delays_ms.append(latency_ms)
            if noise.jitter_ms:
                delays_ms = [
                    delay_ms + _mixed(key + 3 + copy) * _SCALE * noise.jitter_ms
                    for copy, delay_ms in enumerate(delays_ms)
                ]
        return delays_ms
