"""Briefings: the data that a run session sends to the machines of a protocol, and the weighing of their
proposals.

A further algorithm that decides at the sites needs a `Briefing` of its own and a `HostedProtocol`, both named
in its entry in `algorithms/catalogue.py`. Everything else is the same for all of them: whereabouts, guards,
answers, journal and fence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from mooring.contracts.decider import Observation, Prediction
from mooring.contracts.picture import Picture
from mooring.contracts.site_machine import Data
from mooring.coordination.move_messages import Proposed, StartedAt, StatedLatencies
from mooring.model.problem.problem import Problem

NO_GAIN = "at the measured rates it would save neither tuples under way nor bytes in flight"

Told = tuple[int, Data]
"""A site, and what its machine is told."""


class Briefing(Protocol):
    @property
    def trigger_s(self) -> float:
        """Between the micro-batches that proposals are weighed with; 0: with queues."""
        ...

    @property
    def belonging(self) -> Mapping[int, Sequence[int]] | None:
        """Per fragment, those whose places matter where it runs; None: all do everywhere."""
        ...

    @property
    def draws(self) -> bool:
        """Whether machines find by chance what they propose."""
        ...

    def answers(self, site: int, question: Data) -> Sequence[Data] | None:
        """What a machine that has just begun asks for; None: it is no question to a briefing, but something
        for the mover.
        """
        ...

    def basics(self, site: int) -> Sequence[Data]:
        """What every machine has to know, for one that knows nothing or whose knowledge is of the past."""
        ...

    def requests(
        self, observation: Observation, picture: Picture, where: Mapping[int, StartedAt]
    ) -> Iterable[Told]:
        """What was measured, at every look: to each site what concerns it, as requests of its own user. What
        it knows already need not be said again. `where`: fragments as the mover knows them.
        """
        ...

    def remark(self) -> str:
        """What machines have said lately that whoever runs this should know, where nothing is proposed."""
        ...

    def objection(self, proposed: Proposed, before: Prediction, after: Prediction) -> str | None:
        """Why a proposal is not worth its moves by what was measured; None if it may be."""
        ...


Brief = Callable[[Problem], Briefing]
"""How the machines of a protocol are told of a problem, and told anew where it is another one."""


def stated_latencies(problem: Problem, site: int, count: int) -> Sequence[StatedLatencies]:
    """From a site to the first `count`, which have machines: half of the way there and back, as they would
    measure it. Nothing where the problem states none.
    """
    latency_ms = problem.network.latency_ms
    if latency_ms is None:
        return ()
    known = (latency_ms[site, :count] + latency_ms[:count, site]) / 2.0
    return (StatedLatencies(tuple(np.where(np.isfinite(known), known, -1.0).tolist())),)


def saves_nothing(proposed: Proposed, before: Prediction, after: Prediction) -> str | None:
    """Of what guards weigh; what mends a violation need not save anything else."""
    if proposed.violation:
        return None
    known = (
        (before.tuples_under_way, after.tuples_under_way),
        (before.bytes_in_flight, after.bytes_in_flight),
    )
    saves = any(old is not None and new is not None and new < old for old, new in known)
    return None if saves else NO_GAIN
