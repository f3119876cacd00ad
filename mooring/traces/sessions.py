"""Sessions between addresses, drawn for a duration.

Sessions begin as a Poisson process and last for Pareto-distributed times, which is the M/G/infinity model:
the number in progress is long-range dependent with H = (3 - alpha) / 2 (Cox 1984; Willinger, Taqqu, Sherman
and Wilson 1997), so alpha = 1.34 gives the H of .83 measured on BC-pAug89. Each session belongs to a source
address of Zipf popularity and takes a lognormal share of the traffic while it lasts. An address is
therefore busy in spells of its own, and any two groups of addresses move independently.

Time is cut into slots; a session is in progress in every slot it touches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats, Ints, Ints32
from mooring.errors import InputError

_MOST_SLOTS = 20_000
_MOST_IN_PROGRESS = 30_000_000


@dataclass(frozen=True)
class SessionParams:
    """Only `tail` is fitted to a trace; the others are round numbers that give the traits described above."""

    addresses: int = 1000
    """Source addresses, and as many destinations."""
    popularity: float = 1.0
    """Zipf exponent: the k-th most popular address begins a share of sessions proportional to
    k^-popularity.
    """
    in_progress: float = 40.0
    """Sessions in progress at any time, on average."""
    shortest_s: float = 2.5
    """Shortest session; the mean is shortest_s x tail / (tail - 1), 9.9 s with the defaults."""
    tail: float = 1.34
    """Pareto exponent of the duration, above 1 so that the mean exists; 3 - 2 H."""
    share_sigma: float = 1.0
    """Standard deviation of the logarithm of a session's share: elephants and mice."""
    slot_s: float = 1.0
    """How finely time is cut; widened where the span would take more than 20,000 slots."""

    def __post_init__(self) -> None:
        for name in ("addresses", "in_progress", "shortest_s", "slot_s"):
            if not 0 < getattr(self, name) < 1e9:
                raise InputError(f"is {getattr(self, name)}, expected more than 0", field=name)
        if not 1 < self.tail < 10:
            raise InputError(f"is {self.tail}, expected above 1 and below 10", field="tail")
        if not (0 <= self.popularity <= 5 and 0 <= self.share_sigma <= 5):
            raise InputError("popularity and share_sigma lie between 0 and 5", field="popularity")


@dataclass(frozen=True)
class Sessions:
    """The sessions of a span, and for each slot those in progress, slot after slot."""

    source: Ints32
    destination: Ints32
    slot_s: float
    first_of_slot: Ints
    """Where each slot's part of `in_progress` begins; one more entry than there are slots."""
    in_progress: Ints32
    """Indices of sessions."""
    cumulated_share: Floats
    """Running sum of the shares along `in_progress`, begun anew at no slot; a zero in front."""

    def pick(self, instants_s: Floats, generator: np.random.Generator) -> Ints32:
        """One session in progress at each instant, with chances proportional to the shares."""
        slot = np.minimum((instants_s / self.slot_s).astype(np.int64), self.first_of_slot.size - 2)
        low = self.cumulated_share[self.first_of_slot[slot]]
        high = self.cumulated_share[self.first_of_slot[slot + 1]]
        target = low + generator.random(instants_s.size) * (high - low)
        at = np.searchsorted(self.cumulated_share, target, side="right") - 1
        # Rounding may push a target onto its slot's edge; it still belongs to the slot.
        at = np.clip(at, self.first_of_slot[slot], self.first_of_slot[slot + 1] - 1)
        return np.asarray(self.in_progress[at], dtype=np.int32)


def draw_sessions(span_s: float, generator: np.random.Generator, params: SessionParams) -> Sessions:
    """The sessions in progress during [0, span_s], in the stationary state from the beginning."""
    slot_s = max(params.slot_s, span_s / _MOST_SLOTS)
    slots = int(span_s / slot_s) + 1
    begin_s, end_s = _spells(slots * slot_s, generator, params)
    first = (begin_s / slot_s).astype(np.int64)
    last = np.minimum(end_s / slot_s, slots - 1).astype(np.int64)
    first, last = _cover_empty_slots(first, last, slots)
    if (last - first + 1).sum() > _MOST_IN_PROGRESS:
        raise InputError(
            "the rate gives too many sessions for this duration", field="in_progress", remedy="lower the rate"
        )

    session = np.repeat(np.arange(first.size, dtype=np.int32), last - first + 1)
    slot = _consecutive(first, last)
    order = np.argsort(slot, kind="stable")
    in_progress = session[order]
    first_of_slot = np.concatenate([[0], np.cumsum(np.bincount(slot, minlength=slots))])
    share = generator.lognormal(0.0, params.share_sigma, first.size)
    return Sessions(
        source=_addresses(first.size, generator, params),
        destination=_addresses(first.size, generator, params),
        slot_s=slot_s,
        first_of_slot=first_of_slot,
        in_progress=in_progress,
        cumulated_share=np.concatenate([[0.0], np.cumsum(share[in_progress])]),
    )


def _spells(span_s: float, generator: np.random.Generator, params: SessionParams) -> tuple[Floats, Floats]:
    """Begin and end of each session: those that are in progress at zero with what is left of them, then the
    new.

    What is left of a Pareto duration seen at a random time is uniform up to the shortest duration with chance
    (alpha - 1) / alpha, and otherwise Pareto with exponent alpha - 1.
    """
    alpha, shortest_s = params.tail, params.shortest_s
    there = int(generator.poisson(params.in_progress))
    young = generator.random(there) < (alpha - 1) / alpha
    left_s = np.where(
        young,
        generator.random(there) * shortest_s,
        shortest_s * (1 - generator.random(there)) ** (-1 / (alpha - 1)),
    )
    mean_s = shortest_s * alpha / (alpha - 1)
    new = int(generator.poisson(params.in_progress * span_s / mean_s))
    begin_s = np.sort(generator.random(new)) * span_s
    length_s = shortest_s * (1 - generator.random(new)) ** (-1 / alpha)
    return np.concatenate([np.zeros(there), begin_s]), np.concatenate([left_s, begin_s + length_s])


def _cover_empty_slots(first: Ints, last: Ints, slots: int) -> tuple[Ints, Ints]:
    """A packet needs a session: a slot without any gets one of its own."""
    steps = np.bincount(first, minlength=slots + 1) - np.bincount(last + 1, minlength=slots + 1)
    empty = np.flatnonzero(np.cumsum(steps)[:slots] == 0)
    return np.concatenate([first, empty]), np.concatenate([last, empty])


def _consecutive(first: Ints, last: Ints) -> Ints:
    """first[0], ..., last[0], first[1], ..., last[1], ..."""
    length = last - first + 1
    begins = np.cumsum(length) - length
    return np.asarray(np.arange(length.sum()) + np.repeat(first - begins, length), dtype=np.int64)


def _addresses(count: int, generator: np.random.Generator, params: SessionParams) -> Ints32:
    """Zipf by rank; ranks are dealt to addresses at random, so that an address says nothing about its
    popularity.
    """
    popularity = np.arange(1, params.addresses + 1) ** -params.popularity
    cumulated = np.cumsum(popularity)
    rank = np.searchsorted(cumulated, generator.random(count) * cumulated[-1], side="right")
    address_of_rank = generator.permutation(params.addresses).astype(np.int32)
    return np.asarray(address_of_rank[np.minimum(rank, params.addresses - 1)], dtype=np.int32)
