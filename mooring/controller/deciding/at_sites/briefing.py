"""What the machines of one protocol are told by the run session, and how what they propose is weighed.

A further protocol that decides at the sites needs a `Briefing` of its own, named in `by_name.py`, and how
agents host its machines, named in `runtime/hosted_by_name.py`. Everything else is the same for all of them:
whereabouts, guards, answers, journal and fence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from mooring.controller.deciding.decider import Observation, Prediction
from mooring.controller.deciding.picture import Picture
from mooring.protocols.moving import Proposed, StartedAt
from mooring.protocols.protocol import Data

NO_GAIN = "by what was measured it saves no tuples under way"

Told = tuple[int, Data]
"""A site, and what its machine is told."""


class Briefing(Protocol):
    @property
    def trigger_s(self) -> float:
        """Between the micro-batches that proposals are weighed with; 0: with queues."""
        ...

    def answers(self, site: int, question: Data) -> Sequence[Data] | None:
        """What a machine that has just begun asks for; None: it is no question to a briefing, but something
        for the mover.
        """
        ...

    def requests(
        self, observation: Observation, picture: Picture, where: Mapping[int, StartedAt]
    ) -> Iterable[Told]:
        """What was measured, at every look: to each site what concerns it, as requests of its own user. What
        it knows already need not be said again. `where`: fragments as the mover knows them.
        """
        ...

    def objection(self, proposed: Proposed, before: Prediction, after: Prediction) -> str | None:
        """Why a proposal is not worth its moves by what was measured; None if it may be."""
        ...


def saves_nothing(before: Prediction, after: Prediction) -> str | None:
    known = before.tuples_under_way, after.tuples_under_way
    saves = known[0] is not None and known[1] is not None and known[1] < known[0]
    return None if saves else NO_GAIN
