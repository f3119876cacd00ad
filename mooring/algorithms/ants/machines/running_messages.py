"""The messages of leaders and sites to one another, to the mover and to their host while queries run, and
their state. The ants that walk are those of `messages.py`.
"""

from __future__ import annotations

import msgspec

from mooring.algorithms.ants.machines.colony_params import SiteFacts
from mooring.algorithms.ants.machines.messages import ChainSpec, Segment
from mooring.coordination.move_messages import ProposalId, Proposed


class RunningChain(msgspec.Struct, frozen=True):
    """A chain of fragments that run (`algorithms/ants/chains.py`); its ends are fragments or sites."""

    number: int
    fragments: tuple[int, ...]
    tasks: tuple[tuple[float, ...], ...]
    sides: tuple[tuple[float, ...], ...]
    start_fragment: int
    """-1: none; then it begins at a site, or where it ends."""
    start_site: int
    variability: float
    end_fragment: int
    end_site: int
    end_weight: float
    sure_s: float
    """What it takes wherever its fragments are, in seconds of the mean query."""


class OtherFragment(msgspec.Struct, frozen=True):
    """That no chain moves, with what it adds to the totals of its site (`algorithms/ants/rules.py`)."""

    fragment: int
    flow: tuple[float, ...]


# From the mover's host.


class KnownColony(msgspec.Struct, frozen=True, tag=True):
    """What a site has to know of the problem, at the rates, costs and capacities that were observed."""

    facts: SiteFacts
    chains: tuple[RunningChain, ...]
    others: tuple[OtherFragment, ...] = ()
    beta: float = 1.1
    """A chain moves when its latency is this many times that of the best report (section 3.9)."""


class AskColony(msgspec.Struct, frozen=True, tag=True):
    """To it, from a machine that has just begun."""


# Between sites.


class AntEnded(msgspec.Struct, frozen=True, tag=True):
    """To a leader: this ant goes no further, and need not be waited for."""

    chain: int
    number: int


class Stirred(msgspec.Struct, frozen=True, tag=True):
    """To leaders: the capacity of the site that says so is another."""


class DeployedAnt(msgspec.Struct, frozen=True, tag=True):
    """Fetches what a chain costs where it is."""

    chain: ChainSpec
    attempt: int
    segments: tuple[Segment, ...]
    position: int
    variability: float
    cost: float = 0.0


class HoldingAnt(msgspec.Struct, frozen=True, tag=True):
    """Enforcement: every site of a report checks its cost again, and holds it under the id of the proposal to
    come."""

    id: ProposalId
    chain: ChainSpec
    fragments: tuple[int, ...]
    limit: float
    segments: tuple[Segment, ...]
    position: int


class AllHeld(msgspec.Struct, frozen=True, tag=True):
    """All of them do."""

    id: ProposalId


class NotAllHeld(msgspec.Struct, frozen=True, tag=True):
    id: ProposalId
    reason: str


# Kept.


class HeldSegment(msgspec.Struct, frozen=True):
    """Room at a site, until the mover has answered."""

    id: ProposalId
    chain: int
    fragments: tuple[int, ...]
    flow: tuple[float, ...]


class ColonyMemory(msgspec.Struct, frozen=True, tag=True):
    """What survives a crash of a site."""

    held: tuple[HeldSegment, ...] = ()
    open: Proposed | None = None
