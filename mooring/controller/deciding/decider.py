"""Deciding: an observation in, a proposal with its predicted effect and its reason out.

A decider never sees the truth, only what was measured, and what was not measured is missing rather than zero.
It changes nothing: whether a proposal is carried out is for others to say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from mooring.deployment.engine import Measurement
from mooring.deployment.moves import Move
from mooring.placement.placement import FragmentSites


@dataclass(frozen=True)
class Observation:
    """What is known of a run at one moment."""

    at_s: float
    """Seconds since 1970."""
    sites: FragmentSites
    """Where the fragments are that run."""
    measured: Measurement
    troubles: Mapping[str, str] = field(default_factory=dict)
    """What is not as it should be, by the fragment, site or channel concerned."""

    @property
    def stream_rates(self) -> Mapping[str, float]:
        """Tuples per second, of the streams that were measured."""
        return self.measured.stream_rates


@dataclass(frozen=True)
class Prediction:
    """What the load model says of a placement at the measured rates."""

    headroom: float
    """The factor by which all rates could grow; infinite if nothing grows."""
    bottleneck: str | None
    """The site that limits it."""
    site_loads_cores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ProposedMove:
    move: Move
    after: Prediction
    """With this move and those before it."""

    @property
    def headroom(self) -> float:
        return self.after.headroom


@dataclass(frozen=True)
class Proposal:
    now: Prediction
    moves: tuple[ProposedMove, ...]
    """In the order in which they are to be made; none: leave everything where it is."""
    reason: str

    @property
    def predicted(self) -> Prediction:
        """With all moves made."""
        return self.moves[-1].after if self.moves else self.now

    def as_json(self) -> dict[str, object]:
        return {
            "headroom": _finite(self.now.headroom),
            "bottleneck": self.now.bottleneck,
            "reason": self.reason,
            "moves": [
                {
                    "fragment": each.move.fragment,
                    "from": each.move.from_site,
                    "to": each.move.to_site,
                    "headroom": _finite(each.after.headroom),
                }
                for each in self.moves
            ],
        }


def _finite(value: float) -> float | None:
    """JSON has no infinity; headroom without end is none that limits."""
    return value if math.isfinite(value) else None


class Decider(Protocol):
    name: ClassVar[str]

    def decide(self, observation: Observation) -> Proposal | None:
        """What to move, if anything; None where too little is known to say."""
        ...


class StandStill:
    """Leaves everything where it is."""

    name: ClassVar[str] = "none"

    def decide(self, observation: Observation) -> Proposal | None:
        return None
