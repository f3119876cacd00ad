"""The messages of ants, leaders and sites, and their state.

Ants are messages: they carry all of their state. On the wire their fields have names of one letter, and what
they carry has none, since names would be half of their bytes.
"""

from __future__ import annotations

import msgspec

SHORT = {
    "chain": "c",
    "number": "n",
    "destination": "d",
    "state": "s",
    "path": "p",
    "elapsed_s": "e",
    "age_s": "g",
    "now_s": "w",
    "clock_s": "k",
    "ant": "a",
    "position": "o",
    "attempt": "t",
    "greed": "r",
    "limit": "l",
    "skipped": "i",
    "astray": "y",
    "segments": "m",
    "placed": "h",
    "variability": "v",
    "scout": "u",
    "end_cost": "f",
    "behind": "b",
    "looks_by": "x",
    "onward": "q",
}
"""Field -> its name on the wire."""


class ChainSpec(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """A chain that wants sites, between two that it has (`algorithms/ants/chains.py`)."""

    number: int
    tasks: tuple[tuple[float, ...], ...]
    """Rows of `algorithms/ants/rules.py`."""
    sides: tuple[tuple[float, ...], ...]
    source: int
    from_fragment: bool
    """The chain goes on where a fragment is: at its site messages do not queue anew."""
    variability: float
    destination: int
    to_fragment: bool
    end_weight: float
    signatures: tuple[int, ...] = ()
    """Per task: equal ones compute the same; -1, or none at all: not to be shared."""


class Segment(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """Tasks of a chain that are together at a site, and what they cost there."""

    site: int
    first: int
    last: int
    variability: float
    cost: float
    effect: float
    shared: int = 0
    """How many of its tasks, from the first on, run there already for another chain."""

    @property
    def is_all_shared(self) -> bool:
        return self.shared == self.last + 1 - self.first


class RoutingAnt(msgspec.Struct, frozen=True, tag=True, rename=SHORT):
    chain: int
    number: int
    destination: int
    state: int
    """Of its generator."""
    path: tuple[int, ...]
    elapsed_s: tuple[float, ...]
    """When it came to each site of its path, cycles left out."""
    age_s: tuple[float, ...]
    """The same with the cycles."""
    now_s: float = 0.0
    clock_s: float = 0.0


class RoutingReturn(msgspec.Struct, frozen=True, tag=True, rename=SHORT):
    """On its way back, next to be at the given position of its path."""

    ant: RoutingAnt
    position: int


class ScoutAnt(msgspec.Struct, frozen=True, tag=True, rename=SHORT):
    chain: ChainSpec
    attempt: int
    number: int
    state: int
    greed: int
    limit: float
    skipped: float
    astray: float
    path: tuple[int, ...]
    segments: tuple[Segment, ...]
    placed: int
    """Tasks that have a site by now."""
    variability: float


class ScoutReturn(msgspec.Struct, frozen=True, tag=True, rename=SHORT):
    """On its way back over the sites that it has chosen, balancing them."""

    scout: ScoutAnt
    end_cost: float
    position: int
    """Of the segment at whose site it will be next; -1: at the leader."""
    behind: tuple[tuple[float, float], ...] = ()
    """Cost and effect at the site behind, by where its tasks begin: with the first one of the site where it
    is next, with the second one, and so on until it has none."""
    looks_by: bool = False
    """It comes by at a neighbour of that site, which may take over."""
    onward: float = 0.0
    """What the way from that site to what comes behind costs; for the neighbour to compare."""


class Discouraging(msgspec.Struct, frozen=True, tag=True, rename=SHORT):
    """A scout that failed, on its way back with negative reinforcement."""

    destination: int
    path: tuple[int, ...]
    position: int
