"""The state of a run: every part reads it, and each field has one writer.

Values are never changed in place; the writer of a field replaces its value as a whole. So what a part has
read stays as it was, and the writer of each field can be read off the assignments: a test holds them against
`WRITERS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec
import numpy as np

from mooring.contracts.picture import Picture
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem

State = Literal["running", "waiting", "held", "given up", "idle"]

WRITERS: Mapping[str, str] = {
    "problem": "session",
    "where": "recovery",
    "status": "recovery",
    "lost": "recovery",
    "lost_channels": "supervision",
    "resting": "supervision",
    "drained": "drained_sites",
    "moves": "move_desk",
    "picture": "adaptation",
    "stalls": "session",
}
"""Field of `RunState` -> the module of the controller that writes it."""


@dataclass(frozen=True)
class FragmentStatus:
    state: State
    why: str = ""
    """Why it does not run, as far as it does not."""


@dataclass(frozen=True)
class MovesUnderWay:
    """The list of moves that is being carried out."""

    asked_by: str
    count: int
    steps: tuple[Mapping[str, Any], ...] = ()
    """Of the moves that have begun, what each has reached."""
    at: int = 0
    """The move of the last report."""
    reached_at_s: float = 0.0
    aborting: bool = False

    def as_json(self) -> dict[str, object]:
        """For a status file: the move that is under way, and since when it is as far as it is."""
        return {
            "asked_by": self.asked_by,
            "step": self.at + 1,
            "of": self.count,
            "aborting": self.aborting,
            "since_s": self.reached_at_s,
            **(self.steps[self.at] if self.steps else {}),
        }


@dataclass
class RunState:
    problem: Problem
    where: FragmentSites = field(default_factory=lambda: FragmentSites({}))
    """Fragment -> the site where it belongs; moves are known a little later."""
    status: Mapping[str, FragmentStatus] = field(default_factory=dict)
    """Of every fragment."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Site that cannot be used -> why: lost, held back since it flaps, or not up yet."""
    lost_channels: Mapping[str, str] = field(default_factory=dict)
    """Writing fragment -> what is missing of its channel."""
    resting: frozenset[str] = frozenset()
    """Fragments that nobody needs now."""
    stalls: Mapping[str, str] = field(default_factory=dict)
    """What is not done although it runs, and why, as of the last look."""
    drained: Mapping[str, str] = field(default_factory=dict)
    """Site that is kept empty on purpose -> who asked for it."""
    moves: MovesUnderWay | None = None
    """None while no list of moves is being carried out."""
    picture: Picture | None = None
    """As of the last cycle that measured enough for one."""

    def is_closed(self, site: str) -> bool:
        """Whether nothing can be started there: it is lost, or kept empty."""
        return site in self.lost or site in self.drained

    @property
    def closed(self) -> dict[str, str]:
        """Sites that nothing may be put at, and why."""
        return {**{site: self.why_drained(site) for site in self.drained}, **self.lost}

    def why_drained(self, site: str) -> str:
        """For whoever wants to put something there."""
        by = f" (requested by {self.drained[site]})" if self.drained[site] else ""
        return f"{site} is kept empty{by}; `mooring moves PROJECT --return {site}` opens it again"

    def placement(self, homes: Mapping[str, str]) -> FragmentSites:
        """Where everything runs, or should; `homes` is what the engine runs where."""
        return FragmentSites({**self.where, **homes})

    def fragment_troubles(self) -> dict[str, str]:
        """What does not run as it should, by fragment, in words."""
        return {
            name: f"{status.state}: {status.why}"
            for name, status in self.status.items()
            if status.state not in ("running", "idle")
        }

    @property
    def busy(self) -> str:
        """What nothing else may interfere with, in words: a list of moves, or what recovery is to start."""
        if self.moves is not None:
            return "a list of moves is being carried out"
        due = [
            name
            for name, site in self.where.items()
            if self.status[name].state == "waiting" and not self.is_closed(site)
        ]
        return f"recovery starts {', '.join(due[:3])}" if due else ""

    @property
    def problem_as_seen(self) -> Problem:
        """With rates, costs and capacities as measured. A site that was lost then counts with what it is said
        to have.
        """
        if self.picture is None:
            return self.problem
        seen = self.picture.problem
        each = zip(self.problem.sites, seen.sites, self.picture.lost, strict=True)
        return replace(seen, sites=tuple(stated if lost else site for stated, site, lost in each))

    @property
    def problem_by_quota(self) -> Problem:
        """The same, but sites count with what they may use. What their neighbours leave them, and what they
        keep up with, passes.
        """
        seen = self.problem_as_seen
        if self.picture is None or self.picture.quota_cores is None:
            return seen
        most = np.maximum(seen.capacity_cores, self.picture.quota_cores)
        return replace(
            seen,
            sites=tuple(
                msgspec.structs.replace(site, capacity=float(cores))
                for site, cores in zip(seen.sites, most, strict=True)
            ),
        )
