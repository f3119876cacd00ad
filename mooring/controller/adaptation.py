"""Adapting: from what was seen to moves that are ordered, or to the reason why none are.

The surveyor says what is known, the decider what it would move, the guards whether that may be done. With
`act="propose"` it ends there; with `act="apply"` the move desk carries it out like any other list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from mooring.arrays import Bools
from mooring.controller.deciding.decider import Decider, Observation, Proposal
from mooring.controller.deciding.guards import GuardOptions, Guards
from mooring.controller.deciding.picture import Picture
from mooring.controller.deciding.surveyor import Surveyor
from mooring.controller.move_desk import MoveDesk
from mooring.deployment.move_times import MoveTimes
from mooring.deployment.moves import Move
from mooring.problem.problem import Problem

Act = Literal["propose", "apply"]


@dataclass(frozen=True)
class Considered:
    """What came of one look."""

    proposal: Proposal | None
    """None where too little is known to decide anything."""
    ordered: tuple[Move, ...]
    why: str
    """Why nothing was done, or why something was."""


@dataclass
class Adaptation:
    problem: Problem
    decider: Decider
    desk: MoveDesk
    act: Act = "propose"
    options: GuardOptions = field(default_factory=GuardOptions)
    past_moves: Callable[[], Sequence[tuple[float, float]]] = list
    """Pauses in seconds and bytes of state of moves made so far, to predict pauses from."""

    def __post_init__(self) -> None:
        self.guards = Guards(self.options)
        self.surveyor = Surveyor(self.problem)

    def consider(self, observation: Observation, busy: str = "") -> Considered:
        """`busy`: what is under way that nothing else may interfere with, in words."""
        picture = self.surveyor.survey(observation)
        if isinstance(picture, str):
            return Considered(None, (), picture)
        picture = replace(picture, held=self._held(picture, observation.at_s))
        proposal = self.decider.decide(picture)
        times = MoveTimes().fitted(self.past_moves()) if proposal.moves else MoveTimes()
        verdict = self.guards.judge(proposal, picture, observation.at_s, times, busy)
        if verdict.accepted is None:
            return Considered(proposal, (), verdict.why)
        moves = tuple(each.move for each in verdict.accepted.moves)
        if self.act == "propose":
            return Considered(proposal, (), "nothing is moved unless somebody asks for it (--act propose)")
        refusal = self.desk.order(moves, f"adapting: {self.decider.name}")
        if refusal is not None:
            return Considered(proposal, (), refusal)
        return Considered(proposal, moves, verdict.why)

    def moved(self, fragments: Sequence[str], at_s: float) -> None:
        """A list of moves was carried out, whoever asked for it."""
        self.guards.moved(fragments, at_s)

    def recovered(self, at_s: float) -> None:
        """Recovery has started something somewhere."""
        self.guards.recovered(at_s)

    def _held(self, picture: Picture, at_s: float) -> Bools:
        held = self.guards.held(at_s)
        return np.array([name in held for name in picture.problem.fragment_names])
